"""Butterfly mixing is what its definition says: copies trained on their own samples, averaged in pairs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import LayoutError, PlanError
from hetero_mtf.mesh.operations.mixing import OwnPart, partner
from tests.cases import first_fast
from tests.mesh.running import implementation, run, shape
from tests.program import small_nets as nets
from tests.program.oracle import clone, worst_error


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _data(model: Any, batch: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(1)
    x = [rng.normal(size=(batch, *model.input_shape[1:])) for _ in range(5)]
    return x, [rng.integers(0, model.output_shape[-1], batch) for _ in x]


def _sgd() -> Any:
    return keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True)


def _by_definition(model: Any, samples: tuple[int, ...], x: list[np.ndarray], y: list[np.ndarray]) -> tuple[list[float], list[np.ndarray]]:
    """Return the mean loss before each step and the averaged weights, from one Keras model a processor."""
    copies = [clone(model) for _ in samples]
    for copy in copies:
        copy.compile(_sgd(), _loss())
    bounds = np.cumsum([0, *samples])
    phases, losses = max(1, (len(samples) - 1).bit_length()), []
    for step, (images, labels) in enumerate(zip(x, y)):
        own = [c.train_on_batch(images[a:b], labels[a:b]) for c, a, b in zip(copies, bounds, bounds[1:])]
        losses.append(float(np.average(own, weights=samples)))
        weights = [copy.get_weights() for copy in copies]
        for i, copy in enumerate(copies):
            j = i ^ (1 << step % phases)
            if j < len(copies):
                pairs = zip(weights[i], weights[j])
                copy.set_weights([(samples[i] * a + samples[j] * b) / (samples[i] + samples[j]) for a, b in pairs])
    every = [copy.get_weights() for copy in copies]
    return losses, [np.average(np.stack(tensors), axis=0, weights=samples) for tensors in zip(*every)]


@pytest.mark.slow
@pytest.mark.parametrize("samples", first_fast([((4, 2, 2),), ((1, 2, 2, 1, 2),), ((5, 3),), ((2, 3, 1, 2),)], 1), ids=str)
def test_losses_and_weights_are_those_of_keras_copies_mixed_by_hand(samples: tuple[int, ...]) -> None:
    keras.config.set_floatx("float64")
    model = nets.convs()
    x, y = _data(model, sum(samples))
    expected_losses, expected = _by_definition(model, samples, x, y)
    with hm.Cluster.local(["cpu:0"] * len(samples)) as cluster:
        plan = hm.Plan.batch(model, samples, cluster, sum(samples), gradient_sync="butterfly_mixing")
        with hm.Trainer(model, plan, cluster, optimizer=_sgd(), loss=_loss()) as trainer:
            losses = [trainer.train_on_batch(*batch) for batch in zip(x, y)]
            trained = trainer.to_keras()
            predicted = trainer.predict(x[0])
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8
    assert worst_error(expected, trained.get_weights()) <= 1e-8
    assert np.abs(predicted - trained.predict(x[0], verbose=0)).max() <= 1e-8  # the average predicts, not one of the copies


def test_two_copies_with_momentum_are_synchronous_sgd_batch_norm_and_penalties_included() -> None:
    keras.config.set_floatx("float64")
    model = nets.norms(gamma_regularizer=keras.regularizers.L2(0.01))
    x, y = _data(model, 8)
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        found = []
        for sync in ("all_reduce", "butterfly_mixing"):
            plan = hm.Plan.batch(model, [5, 3], cluster, 8, gradient_sync=sync)
            with hm.Trainer(model, plan, cluster, optimizer=_sgd(), loss=_loss()) as trainer:
                losses = [trainer.train_on_batch(*batch) for batch in zip(x, y)]
                found.append((losses, trainer.to_keras().get_weights()))
    assert np.abs(np.subtract(found[0][0], found[1][0])).max() <= 1e-8
    assert worst_error(found[0][1], found[1][1]) <= 1e-8


def test_partners_are_each_others_and_differ_from_step_to_step() -> None:
    for processors in range(1, 10):
        for phase in range(4):
            pairs = [partner(i, processors, phase) for i in range(processors)]
            assert all(other is None or pairs[other] == i for i, other in enumerate(pairs))


def _by_definition_of_a_hybrid(
    model: Any, samples: tuple[int, ...], mixed: int, x: list[np.ndarray], y: list[np.ndarray]
) -> tuple[list[float], list[np.ndarray]]:
    """Return what `_by_definition` does where the first `mixed` weights have copies and the others are one, by TensorFlow's own gradients.

    The copies learn by the mean loss of their own samples, the others by that of the batch; momentum as in Keras.
    """
    bodies = [[tf.Variable(w, dtype=tf.float64) for w in model.get_weights()[:mixed]] for _ in samples]
    shared = [tf.Variable(w, dtype=tf.float64) for w in model.get_weights()[mixed:]]
    velocities = {id(v): tf.Variable(tf.zeros_like(v)) for v in (*(v for body in bodies for v in body), *shared)}
    bounds, phases, losses = np.cumsum([0, *samples]), max(1, (len(samples) - 1).bit_length()), []
    momentum = float(np.float32(0.9))  # as Keras casts it

    def apply(variables: list[tf.Variable], gradients: list[tf.Tensor]) -> None:
        for variable, gradient in zip(variables, gradients):
            velocity = velocities[id(variable)]
            velocity.assign(momentum * velocity - 0.05 * gradient)
            variable.assign_add(momentum * velocity - 0.05 * gradient)

    for step, (images, labels) in enumerate(zip(x, y)):
        with tf.GradientTape(persistent=True) as tape:
            own = [_loss_of(model, [*body, *shared], images[a:b], labels[a:b]) for body, a, b in zip(bodies, bounds, bounds[1:])]
            loss = tf.add_n([n / sum(samples) * each for n, each in zip(samples, own)])
        losses.append(float(loss))
        gradients = [tape.gradient(each, body) if n else [tf.zeros_like(v) for v in body] for n, each, body in zip(samples, own, bodies)]
        apply(shared, tape.gradient(loss, shared))
        for body, gradient in zip(bodies, gradients):
            apply(body, gradient)
        before = [[v.numpy() for v in body] for body in bodies]
        for i, body in enumerate(bodies):
            j = i ^ (1 << step % phases)
            if j < len(bodies) and samples[i] + samples[j]:
                for variable, a, b in zip(body, before[i], before[j]):
                    variable.assign((samples[i] * a + samples[j] * b) / (samples[i] + samples[j]))
    averaged = [np.average([v.numpy() for v in copies], axis=0, weights=samples) for copies in zip(*bodies)]
    return losses, [*averaged, *(v.numpy() for v in shared)]


def _loss_of(model: Any, weights: list[tf.Variable], x: np.ndarray, y: np.ndarray) -> tf.Tensor:
    """Return the mean loss of `nets.convs` with other weights, 0 of no samples."""
    if not len(x):
        return tf.constant(0.0, tf.float64)
    (first, first_bias, second, second_bias, hidden, hidden_bias, head, head_bias) = weights
    values = tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME") + first_bias)
    values = tf.tanh(tf.nn.conv2d(values, second, 1, "SAME") + second_bias)
    values = tf.nn.relu(tf.reshape(values, (len(x), -1)) @ hidden + hidden_bias) @ head + head_bias
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, values))


HYBRIDS = [((4, 2, 2), "all_gather"), ((5, 3), "all_to_all"), ((3, 2, 2, 1), "all_to_all"), ((4, 0, 0, 2, 2), "all_gather")]


@pytest.mark.fast("(5, 3)-all_to_all")
@pytest.mark.parametrize(("samples", "border"), first_fast(HYBRIDS, 2), ids=str)
def test_a_hybrid_mixes_its_convolutions_and_keeps_its_dense_layers_synchronous_and_split(samples: tuple[int, ...], border: str) -> None:
    keras.config.set_floatx("float64")
    model = nets.convs()
    x, y = _data(model, sum(samples))
    with hm.Cluster.local(["cpu:0"] * len(samples)) as cluster:
        plan = hm.Plan.hybrid(model, [1] * len(samples), cluster, sum(samples), border, "butterfly_mixing")
        (stage,) = plan.stages
        layouts = tuple(dataclasses.replace(entry, samples=samples) if entry.samples else entry for entry in stage.layouts)
        plan = dataclasses.replace(plan, stages=(dataclasses.replace(stage, layouts=layouts),))
        assert {entry.layout for entry in layouts if "dense" in entry.name or entry.name in ("hidden", "head")} <= {"column", "row"}
        expected_losses, expected = _by_definition_of_a_hybrid(model, samples, 4, x, y)
        with hm.Trainer(model, plan, cluster, optimizer=_sgd(), loss=_loss()) as trainer:
            losses = [trainer.train_on_batch(*batch) for batch in zip(x, y)]
            trained = trainer.to_keras()
            predicted = trainer.predict(x[0])
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8
    assert worst_error(expected, trained.get_weights()) <= 1e-8
    assert np.abs(predicted - trained.predict(x[0], verbose=0)).max() <= 1e-8


@pytest.mark.slow
def test_a_hybrid_of_two_that_mixes_is_synchronous_sgd_batch_norm_and_penalties_included() -> None:
    """Two copies that begin alike and are averaged after every step by plain or momentum SGD are those of the mean gradient."""
    keras.config.set_floatx("float64")
    model = nets.norms(gamma_regularizer=keras.regularizers.L2(0.01))
    x, y = _data(model, 8)
    results = []
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        for sync in ("all_reduce", "butterfly_mixing"):
            plan = hm.Plan.hybrid(model, [5, 3], cluster, 8, gradient_sync=sync)
            with hm.Trainer(model, plan, cluster, optimizer=_sgd(), loss=_loss()) as trainer:
                losses = [trainer.train_on_batch(*batch) for batch in zip(x, y)]
                results.append((losses, trainer.to_keras().get_weights()))
    assert np.abs(np.subtract(results[0][0], results[1][0])).max() <= 1e-8
    assert worst_error(results[0][1], results[1][1]) <= 1e-8


def test_a_norm_of_all_gradients_does_not_go_with_copies_of_a_part() -> None:
    keras.config.set_floatx("float64")
    model = nets.convs()
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = hm.Plan.hybrid(model, [1, 1], cluster, 8, gradient_sync="butterfly_mixing")
        for optimizer in (keras.optimizers.SGD(0.1, global_clipnorm=1.0), keras.optimizers.Adamax(0.1, global_clipnorm=1.0)):
            with pytest.raises(PlanError, match="clips by global_clipnorm, .* use clipnorm, strategy batch or gradient_sync=all_reduce"):
                hm.Trainer(model, plan, cluster, optimizer=optimizer, loss=_loss())


@pytest.mark.slow
def test_a_checkpoint_of_a_hybrid_that_mixes_has_the_averages(tmp_path: Path) -> None:
    keras.config.set_floatx("float64")
    model = nets.convs()
    x, y = _data(model, 8)
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = hm.Plan.hybrid(model, [2, 1, 1], cluster, 8, gradient_sync="butterfly_mixing")
        with hm.Trainer(model, plan, cluster, optimizer=_sgd(), loss=_loss()) as trainer:
            for batch in zip(x, y):
                trainer.train_on_batch(*batch)
            trainer.save(tmp_path / "state.npz")
            expected = trainer.to_keras().get_weights()
        with hm.Trainer(model, hm.Plan.single(model, 0, cluster, 8), cluster, optimizer=_sgd(), loss=_loss()) as other:
            other.restore(tmp_path / "state.npz")
            assert worst_error(expected, other.to_keras().get_weights()) <= 1e-12


def test_mixing_asks_for_a_batch_layout() -> None:
    keras.config.set_floatx("float64")
    model = nets.convs()
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = hm.Plan.filters(model, [1, 1], cluster, 8)
        with pytest.raises(PlanError, match="must then have layers that split the batch"):
            hm.Plan(**{**plan.__dict__, "gradient_sync": "butterfly_mixing"})


@pytest.mark.slow
def test_a_shared_layer_whose_gradients_meet_is_mixed_too() -> None:
    keras.config.set_floatx("float64")
    i = keras.Input((4,))
    shared = keras.layers.Dense(4, name="shared")
    model = keras.Model(i, keras.layers.Dense(3)(shared(shared(i))))
    x, y = _data(model, 5)
    expected_losses, expected = _by_definition(model, (2, 2, 1), x, y)
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = hm.Plan.batch(model, [2, 2, 1], cluster, 5, gradient_sync="butterfly_mixing")
        with hm.Trainer(model, plan, cluster, optimizer=_sgd(), loss=_loss()) as trainer:
            losses = [trainer.train_on_batch(*batch) for batch in zip(x, y)]
            trained = trainer.to_keras().get_weights()
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8
    assert worst_error(expected, trained) <= 1e-8


def test_what_is_no_sum_over_the_batch_is_refused() -> None:
    impl = implementation([("p", 2)], {"batch": "p"}, {"batch": (2, 1)})
    with pytest.raises(LayoutError, match="butterfly mixing cannot leave out its all-reduce; use gradient_sync=all_reduce"):
        run(lambda _, x: OwnPart(x, [1.5, 3.0]).outputs, [(np.ones(4), shape(c=4))], impl)
