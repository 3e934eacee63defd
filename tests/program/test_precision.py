"""Mixed precision: a plan gives what one device in the same policy gives, up to the rounding of that policy.

Losses and weights after three steps differ by at most 8 units in the last place of what layers give, as each sum that is split is rounded
once more for each part, and 16 where weights are rounded too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tools.conformance.compare import FLOOR, TOLERANCE, apart

L = keras.layers
POLICIES = {
    "mixed_bfloat16": TOLERANCE["mixed_bfloat16"],
    "mixed_float16": TOLERANCE["mixed_float16"],
    "bfloat16": 2 * TOLERANCE["mixed_bfloat16"],  # its weights are rounded too
    "float16": 2 * TOLERANCE["mixed_float16"],
}
BATCH = 12
# With this seed, no activation of `images` comes closer to a kink (of a ReLU or a maximum) than float16 rounds: on either side of a kink
# the gradients differ, so that one that flips in one run says nothing of the plan. The first such seed; asserted below.
SEED = 627


def images(last: str | None = "float32", l2: bool | None = None, fused: bool = True) -> keras.Model:
    """Return a residual network with norms, pools, a branch that Keras computes, and a dense head.

    Biases keep most activations, but not all, on one side of the kinks; `fused` says whether the second ReLU is its convolution's.
    """
    offset = keras.initializers.Constant
    l2 = "mixed" in keras.config.dtype_policy().name if l2 is None else l2
    i = keras.Input((8, 8, 3))
    x = L.ReLU()(L.BatchNormalization(beta_initializer=offset(2.4))(L.Conv2D(6, 3, padding="same", use_bias=False)(i)))
    y = L.DepthwiseConv2D(3, padding="same", activation="relu" if fused else None, bias_initializer=offset(2.2))(x)
    y = y if fused else L.ReLU()(y)
    x = L.Add()([x, L.Conv2D(6, 1, kernel_regularizer="l2" if l2 else None)(y)])
    x = L.Concatenate()([L.AveragePooling2D(2)(x), L.MaxPooling2D(2)(x)])
    x = L.Lambda(lambda value: keras.ops.tanh(value))(L.LayerNormalization()(x))
    x = L.Dense(10, activation="gelu")(L.Flatten()(x))
    return keras.Model(i, L.Dense(4, activation="softmax", dtype=last)(x))


def words() -> keras.Model:
    """Return a small transformer."""
    i = keras.Input((6,), dtype="int32")
    x = L.Embedding(11, 8)(i)
    x = L.LayerNormalization()(L.Add()([x, L.MultiHeadAttention(2, 4)(x, x)]))
    x = L.Dropout(0.0)(L.Dense(8, activation="gelu")(x))
    return keras.Model(i, L.Dense(4, activation="softmax", dtype="float32")(L.GlobalAveragePooling1D()(x)))


def volumes() -> keras.Model:
    """Return a network of 3-D layers, whose pools TensorFlow has no kernel of float16 for."""
    i = keras.Input((6, 6, 6, 1))
    x = L.Conv3D(6, 3, padding="same", activation="relu")(i)
    x = L.AveragePooling3D(2)(x) if keras.config.dtype_policy().compute_dtype != "float16" else L.Conv3D(6, 2, 2)(x)
    return keras.Model(i, L.Dense(4, activation="softmax", dtype="float32")(L.GlobalAveragePooling3D()(x)))


NETWORKS: dict[str, Callable[[], keras.Model]] = {"images": images, "words": words, "volumes": volumes}


def batches(model: keras.Model, count: int = 3) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(SEED)
    shape = (BATCH, *model.input_shape[1:])
    integers = str(model.inputs[0].dtype) == "int32"
    return [(rng.integers(0, 11, shape) if integers else rng.normal(size=shape), rng.integers(0, 4, BATCH)) for _ in range(count)]


def plans(model: keras.Model, cluster: Any) -> dict[str, hm.Plan]:
    return {
        "single": hm.Plan.single(model, 0, cluster, BATCH),
        "filters": hm.Plan.filters(model, (3, 1, 2), cluster, BATCH),
        "batch": hm.Plan.batch(model, (3, 1, 2), cluster, BATCH),
    }


def run(model: keras.Model, plan: hm.Plan, cluster: Any, optimizer: Any) -> list[np.ndarray]:
    with hm.Trainer(model, plan, cluster, optimizer=optimizer, loss="sparse_categorical_crossentropy", seed=2) as trainer:
        losses = [trainer.train_on_batch(x, y) for x, y in batches(model)]
        return [np.array(losses), *(np.asarray(w, np.float64) for w in trainer.to_keras().get_weights())]


def of_keras(model: keras.Model, optimizer: Any) -> list[np.ndarray]:
    model.compile(optimizer, "sparse_categorical_crossentropy")
    losses = []
    for x, y in batches(model):
        losses.append(float(model.train_on_batch(x, y)))
        model.reset_metrics()  # of the mean loss
    return [np.array(losses), *(np.asarray(w, np.float64) for w in model.get_weights())]


def model_in(network: Callable[[], keras.Model], policy: str) -> keras.Model:
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(policy)
    model = network()
    keras.config.set_dtype_policy("float32")
    return model


@pytest.mark.fast("mixed_float16")
@pytest.mark.parametrize("policy", ["mixed_float16", "float16"])
def test_no_activation_of_the_images_lies_within_float16_rounding_of_a_kink(policy: str) -> None:
    """Asserted in float64 in each step, with some activations beyond the ReLUs' kinks."""
    model = model_in(lambda: images("float64", "mixed" in policy, fused=False), "float64")
    model.set_weights(model_in(images, policy).get_weights())
    relus = [layer.input for layer in model.layers if isinstance(layer, L.ReLU)]
    (pooled,) = [layer.input for layer in model.layers if isinstance(layer, L.MaxPooling2D)]
    probe = keras.Model(model.input, [model.output, *relus, pooled])
    for x, y in batches(model):
        with tf.GradientTape() as tape:
            output, *inputs = probe(x, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, output))
            loss += sum(tf.cast(penalty, tf.float64) for penalty in probe.losses)
        gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
        keras.optimizers.SGD(0.05).apply(gradients, model.trainable_weights)
        *activations, values = (np.asarray(value) for value in inputs)
        samples, height, width, filters = values.shape
        windows = values.reshape(samples, height // 2, 2, width // 2, 2, filters).swapaxes(2, 3).reshape(-1, 4, filters)
        largest = np.sort(windows, axis=1)[:, 2:]
        assert (largest[:, 1] - largest[:, 0]).min() > 2.0**-10
        for value in activations:
            assert np.abs(value).min() > 2.0**-10
        assert 0 < np.mean([(value < 0).mean() for value in activations]) < 0.1


@pytest.mark.fast("bfloat16-volumes")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("policy", POLICIES)
def test_plans_give_what_keras_gives_in_the_same_policy(policy: str, network: str) -> None:
    model = model_in(NETWORKS[network], policy)
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        runs = {name: run(model, plan, cluster, keras.optimizers.SGD(0.05)) for name, plan in plans(model, cluster).items()}
    tolerance, floor, alone = POLICIES[policy], FLOOR["mixed_float16"], runs["single"]
    assert {name for name, values in runs.items() if not apart(alone, values, floor) <= tolerance} == set()
    expected = of_keras(model, keras.optimizers.SGD(0.05))
    if "bfloat16" in policy:  # Keras adds up gradients of biases in bfloat16 itself, one row after another
        named = [np.empty(0), *(w for w in model.weights)]
        alone, expected = ([value for value, of in zip(values, named) if getattr(of, "name", "") != "bias"] for values in (alone, expected))
    assert apart(expected, alone, floor) <= tolerance


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_weights_and_slots_stay_float32_in_mixed_precision(optimizer: str) -> None:
    model = model_in(images, "mixed_bfloat16")
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = hm.Plan.batch(model, (2, 1), cluster, BATCH)
        with hm.Trainer(model, plan, cluster, optimizer=optimizer, loss="sparse_categorical_crossentropy") as trainer:
            for x, y in batches(model):
                trainer.train_on_batch(x, y)
            values = trainer._run.engine.read()
            trained = trainer.to_keras().get_weights()
    assert {value.dtype.name for value in values.values()} == {"float32"}
    kernel = np.asarray(trained[0])
    coarse = (kernel.view(np.uint32) & 0xFFFF) == 0  # what bfloat16 can hold
    assert coarse.mean() < 0.05


@pytest.mark.slow
def test_a_pipeline_adds_up_the_gradients_of_its_microbatches_in_float32() -> None:
    model = model_in(words, "mixed_bfloat16")
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        alone = run(model, hm.Plan.single(model, 0, cluster, BATCH), cluster, keras.optimizers.SGD(0.05))
        staged = hm.Plan.pipeline(model, [1, 5], [[0, 1], [2]], [[2, 1], [1]], cluster, BATCH, microbatches=3, split="batch")
        assert apart(alone, run(model, staged, cluster, keras.optimizers.SGD(0.05)), FLOOR["mixed_bfloat16"]) <= POLICIES["mixed_bfloat16"]


@pytest.mark.slow
def test_layers_of_several_policies_train_together() -> None:
    keras.utils.set_random_seed(1)
    i = keras.Input((5,))
    x = L.Dense(8, activation="tanh", dtype="float64")(i)
    x = L.Dense(8, activation="tanh", dtype="mixed_bfloat16")(x)
    x = L.Dense(8, activation="tanh", dtype="bfloat16")(L.UnitNormalization(dtype="float32")(x))
    model = keras.Model(i, L.Dense(4, activation="softmax")(L.Dense(8, dtype="mixed_float16")(x)))
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        runs = [run(model, plan, cluster, keras.optimizers.SGD(0.05)) for plan in plans(model, cluster).values()]
    expected = of_keras(model, keras.optimizers.SGD(0.05))
    assert max(apart(expected, values, FLOOR["mixed_bfloat16"]) for values in runs) <= POLICIES["bfloat16"]


@pytest.mark.slow
def test_an_output_in_half_precision_loses_its_logits_as_in_keras() -> None:
    model = model_in(lambda: images(None), "mixed_bfloat16")
    with hm.Cluster.local(["cpu:0"]) as cluster:
        values = run(model, hm.Plan.single(model, 0, cluster, BATCH), cluster, keras.optimizers.SGD(0.05))
        with hm.Trainer(model, hm.Plan.single(model, 0, cluster, 4), cluster, loss="sparse_categorical_crossentropy") as trainer:
            assert trainer.predict(batches(model)[0][0]).dtype.name == "bfloat16"
    assert apart(of_keras(model, keras.optimizers.SGD(0.05)), values, FLOOR["mixed_bfloat16"]) <= POLICIES["mixed_bfloat16"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bfloat16", "float16", "mixed_float16"])
def test_checkpoints_of_any_policy_go_on_under_another_plan(policy: str, tmp_path: Any) -> None:
    model = model_in(words, policy)
    (x, y), (x2, y2), _ = batches(model)
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = hm.Plan.batch(model, (3, 1, 2), cluster, BATCH)
        options: dict[str, Any] = {"optimizer": "adam", "loss": "sparse_categorical_crossentropy"}
        with hm.Trainer(model, plan, cluster, **options) as trainer:
            trainer.train_on_batch(x, y)
            trainer.save(tmp_path / "state.npz")
            expected = trainer.train_on_batch(x2, y2)
            trainer_step, scale = trainer.step, trainer.loss_scale
        with hm.Trainer(model, plan, cluster, **options) as other:
            other.restore(tmp_path / "state.npz")
            assert other.train_on_batch(x2, y2) == expected and other.step == trainer_step and other.loss_scale == scale
            other.replan(hm.Plan.single(model, 1, cluster, BATCH))
            other.train_on_batch(x, y)


@pytest.mark.slow
def test_what_is_sent_is_in_the_dtype_that_layers_compute_in() -> None:
    """The sums of gradients between processors are of bfloat16, those of norms of float32."""
    model = model_in(images, "mixed_bfloat16")
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = hm.Plan.batch(model, (2, 1), cluster, BATCH)
        with hm.Trainer(model, plan, cluster, loss="sparse_categorical_crossentropy") as trainer:
            trainer.train_on_batch(*batches(model)[0])
            operations = trainer._run.engine._tf_graph.get_operations()
    sent = [op.inputs[0].dtype for op in operations if op.type == "Cast" and "buckets" in op.name and op.outputs[0].dtype == tf.float32]
    kernels = sum(layer.kind in ("Conv2D", "DepthwiseConv2D") for layer in layer_graph(model).layers)
    assert len(sent) >= kernels and set(sent) == {tf.bfloat16}
