"""Dynamic loss scaling: the scale, the steps that update nothing and what follows are as under Keras on one device, under every plan."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.program.loss_scale import LossScale, LossScaling, scaled_optimizer
from hetero_mtf.training.checkpoint import CheckpointError, load_state

L = keras.layers
BATCH, STEPS = 8, 12
LOSS = "sparse_categorical_crossentropy"


def network(policy: str = "mixed_float16") -> keras.Model:
    """Return a network with a batch norm, a penalty and a last layer in float32."""
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(policy)
    i = keras.Input((8, 8, 3), name="images")
    x = L.ReLU()(L.BatchNormalization(name="norm")(L.Conv2D(6, 3, padding="same", use_bias=False, name="conv")(i)))
    x = L.Flatten()(L.MaxPooling2D()(L.Conv2D(6, 3, activation="relu", kernel_regularizer="l2", name="second")(x)))
    model = keras.Model(i, L.Dense(4, activation="softmax", dtype="float32")(L.Dense(10, activation="gelu", name="hidden")(x)))
    keras.config.set_dtype_policy("float32")
    return model


def optimizer(rate: Any = 1e-2, initial: float = 2.0**24) -> Any:
    """Return Adam with a scale from which gradients overflow in the first steps, and that grows again after three."""
    return keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(rate), initial_scale=initial, dynamic_growth_steps=3)


def batches(count: int = STEPS) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(BATCH, 8, 8, 3)).astype("float32"), rng.integers(0, 4, BATCH)) for _ in range(count)]


def plans(model: keras.Model, cluster: Any) -> dict[str, hm.Plan]:
    return {
        "single": hm.Plan.single(model, 0, cluster, BATCH),
        "filters": hm.Plan.filters(model, (2, 1, 1), cluster, BATCH),
        "batch": hm.Plan.batch(model, (4, 1, 3), cluster, BATCH),
        "stages": hm.Plan.pipeline(model, [1, "second"], [[0, 1], [2]], [[2, 1], [1]], cluster, BATCH),
    }


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["single", "filters", "batch", "stages"])
def test_an_overflow_on_purpose_is_skipped_and_recovers_as_in_keras(plan: str) -> None:
    model = network()
    model.compile(optimizer(), LOSS)
    expected, first = [], model.get_weights()
    for x, y in batches():
        model.train_on_batch(x, y)
        expected.append((float(np.asarray(model.optimizer.dynamic_scale)), int(np.asarray(model.optimizer.iterations))))
    again = network()
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(again, plans(again, cluster)[plan], cluster, optimizer=optimizer(), loss=LOSS) as trainer:
            seen = []
            for x, y in batches():
                loss = trainer.train_on_batch(x, y)
                assert np.isfinite(loss) and trainer.loss_scale is not None
                seen.append((trainer.loss_scale.scale, trainer.step))
            trained = trainer.to_keras().get_weights()
            assert trainer.loss_scale.skipped == STEPS - trainer.step >= 5
    assert seen == expected and seen[-1][1] >= 3  # it goes on to train
    kernel, trained_kernel, first_kernel = model.get_weights()[0], trained[0], first[0]
    assert np.abs(trained_kernel - first_kernel).max() > 5 * np.abs(trained_kernel - kernel).max()


@pytest.mark.fast("stages")
@pytest.mark.parametrize("plan", ["filters", "batch", "stages"])
def test_a_skipped_step_leaves_weights_and_slots_on_all_devices(plan: str) -> None:
    model = network()
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(model, plans(model, cluster)[plan], cluster, optimizer=optimizer(initial=2.0**40), loss=LOSS) as trainer:
            trainer.build(*batches()[0])
            before = trainer._run.engine.read()
            trainer.train_on_batch(*batches()[0])
            after = trainer._run.engine.read()
            assert trainer.loss_scale == LossScale(2.0**39, 0, 1) and trainer.step == 0
    moving = {key for key in before if key.split("/")[1].startswith("moving")}
    changed = {key for key in before if not np.array_equal(before[key], after[key])}
    assert changed == moving  # the forward pass has taken place, as in Keras
    assert len([key for key in before if key.count("/") == 2]) > 10  # slots


@pytest.mark.slow
def test_a_learning_rate_schedule_counts_the_steps_that_update() -> None:
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([2], [1e-2, 1e-3])
    model = network()
    model.compile(optimizer(schedule), LOSS)
    for x, y in batches():
        model.train_on_batch(x, y)
    again = network()
    with hm.Cluster.local(["cpu:0"]) as cluster:
        plan = hm.Plan.single(again, 0, cluster, BATCH)
        with hm.Trainer(again, plan, cluster, optimizer=optimizer(schedule), loss=LOSS) as trainer:
            for x, y in batches():
                trainer.train_on_batch(x, y)
            own = trainer.to_keras().get_weights()
    for one, other in zip(model.get_weights(), own):
        assert np.abs(one - other).max() <= 0.01 * np.abs(one).max() + 1e-3


@pytest.mark.slow
def test_checkpoints_hold_the_scale(tmp_path: Any) -> None:
    model = network()
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(model, plans(model, cluster)["batch"], cluster, optimizer=optimizer(), loss=LOSS) as trainer:
            for x, y in batches(9):
                trainer.train_on_batch(x, y)
            trainer.save(tmp_path / "state.npz")
            known = trainer.loss_scale, trainer.step
            expected = [trainer.train_on_batch(x, y) for x, y in batches(3)], trainer.loss_scale
        assert load_state(tmp_path / "state.npz").loss_scale == known[0]
        with hm.Trainer(model, plans(model, cluster)["batch"], cluster, optimizer=optimizer(), loss=LOSS) as other:
            other.restore(tmp_path / "state.npz")
            assert (other.loss_scale, other.step) == known
            assert ([other.train_on_batch(x, y) for x, y in batches(3)], other.loss_scale) == expected
            other.replan(plans(model, cluster)["filters"])
            assert other.loss_scale == expected[1]


def test_a_damaged_scale_in_a_checkpoint_is_refused(tmp_path: Any) -> None:
    import json

    from hetero_mtf.training.array_archive import read_archive, write_archive
    from hetero_mtf.training.checkpoint import checksum

    model = network()
    with hm.Cluster.local(["cpu:0"]) as cluster:
        with hm.Trainer(model, hm.Plan.single(model, 0, cluster, BATCH), cluster, optimizer=optimizer(), loss=LOSS) as trainer:
            trainer.train_on_batch(*batches()[0])
            trainer.save(tmp_path / "state.npz")
    meta, arrays = read_archive(tmp_path / "state.npz")
    for wrong in ({"scale": -1.0, "finite_steps": 0, "skipped": 0}, {"scale": 1.0}, 3, {"scale": 1.0, "finite_steps": 0.5, "skipped": 0}):
        changed = json.loads(json.dumps({**{k: v for k, v in meta.items() if k != "checksum"}, "loss_scale": wrong}))
        with open(tmp_path / "odd.npz", "wb") as file:
            write_archive(file, {**changed, "checksum": checksum(changed, arrays)}, arrays)
        with pytest.raises(CheckpointError, match="loss_scale is .*; take an earlier one"):
            load_state(tmp_path / "odd.npz")


@pytest.mark.slow
def test_callbacks_see_the_scale_and_a_saved_model_goes_on_with_it(tmp_path: Any) -> None:
    x, y = (np.concatenate(parts) for parts in zip(*batches(6)))
    model = network()
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(model, plans(model, cluster)["batch"], cluster, optimizer=optimizer(), loss=LOSS) as trainer:
            saving = keras.callbacks.ModelCheckpoint(tmp_path / "last.keras")
            trainer.fit(x, y, epochs=2, callbacks=[saving], verbose=0)
            known = trainer.loss_scale, trainer.step
        saved = keras.models.load_model(tmp_path / "last.keras")
        assert known[0] is not None and float(np.asarray(saved.optimizer.dynamic_scale)) == known[0].scale
        assert int(np.asarray(saved.optimizer.iterations)) == known[1]
        with hm.Trainer(saved, plans(saved, cluster)["filters"], cluster) as other:
            assert other.loss_scale == LossScale(known[0].scale, known[0].finite_steps) and other.step == known[1]
            other.train_on_batch(x[:BATCH], y[:BATCH])


@pytest.mark.slow
def test_models_of_mixed_float16_are_scaled_without_asking_and_others_are_not() -> None:
    half, plain = network(), network("mixed_bfloat16")
    assert type(scaled_optimizer("adam", half)).__name__ == "LossScaleOptimizer"
    assert scaled_optimizer("adam", plain) == "adam" and scaled_optimizer("adam", object()) == "adam"
    with hm.Cluster.local(["cpu:0"]) as cluster:
        for model, scale in ((half, LossScale(2.0**15)), (plain, None)):
            with hm.Trainer(model, hm.Plan.single(model, 0, cluster, BATCH), cluster, optimizer="adam", loss=LOSS) as trainer:
                assert trainer.loss_scale == scale


def test_the_scale_is_halved_doubled_and_counted() -> None:
    options, state = LossScaling(8.0, 2), LossScale(8.0)
    seen = []
    for finite in (False, True, True, True, False):
        state = state.after(finite, options)
        seen.append((state.scale, state.finite_steps, state.skipped))
    assert seen == [(4.0, 0, 1), (4.0, 1, 1), (8.0, 0, 1), (8.0, 1, 1), (4.0, 0, 2)]


def test_pipelines_without_a_flush_refuse_it() -> None:
    model = network()
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = hm.Plan.pipeline(model, [1, "second"], [[0], [1]], [[1], [1]], cluster, BATCH, schedule="decoupled")
        with pytest.raises(UnsupportedError, match="do not scale losses.*mixed_bfloat16"):
            hm.Trainer(model, plan, cluster, optimizer="adam", loss=LOSS)
