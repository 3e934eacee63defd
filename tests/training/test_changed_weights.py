"""What a callback does to weights and slots is trained on with, in the graph that there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.program.oracle import worst_error
from tests.training.setting import cluster

__all__ = ["cluster"]

BATCH = 8
RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(20, 6)), RNG.integers(0, 3, 20)
Make = Callable[[keras.Model, Any], hm.Plan]
PLANS: dict[str, Make] = {
    "batch": lambda model, on: hm.Plan.batch(model, (3, 2, 1), on, BATCH),
    "filters": lambda model, on: hm.Plan.filters(model, (3, 2, 1), on, BATCH),
    "pipeline": lambda model, on: hm.Plan.pipeline(model, ["first", "last"], [[0, 1], [2]], [[2, 1], [1]], on, BATCH, 2),
    "whole": lambda model, on: hm.Plan.single(model, 1, on, BATCH),
}


class Change(keras.callbacks.Callback):
    """Halves weights, clears slots and a moving mean at the end of epochs, and writes weights at the beginning of one."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == 2:
            self.model.set_weights([np.asarray(weight) * 0.9 for weight in self.model.get_weights()])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        first = self.model.get_layer("first")
        first.kernel.assign(first.kernel * 0.5)
        if any(layer.name == "norm" for layer in self.model.layers):
            norm = self.model.get_layer("norm")
            norm.moving_mean.assign(norm.moving_mean * 0)
        if epoch == 1:
            for variable in self.model.optimizer.variables:
                if "momentum" in variable.path:
                    variable.assign(variable * 0)


class Nodes(keras.callbacks.Callback):
    """Counts the nodes of the graph at the end of each epoch."""

    def __init__(self, trainer: hm.Trainer) -> None:
        super().__init__()
        self.trainer, self.counts = trainer, list[int]()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.counts.append(self.trainer.nodes)


def _model(normalized: bool = True) -> keras.Model:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(1)
    L = keras.layers
    i = keras.Input((6,))
    x = L.Dense(9, activation="tanh", name="first")(i)
    x = L.BatchNormalization(name="norm")(x) if normalized else x
    model = keras.Model(i, L.Dense(3, name="last")(x))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
def test_changes_of_a_callback_are_trained_on_with_in_the_same_graph(plan: str, cluster: Any) -> None:
    model = _model(normalized=plan != "pipeline")  # batch statistics are those of microbatches there
    options = {"epochs": 5, "batch_size": BATCH, "shuffle": False, "verbose": 0}
    with hm.Trainer(model, PLANS[plan](model, cluster), cluster) as trainer:
        nodes = Nodes(trainer)
        found, weights = trainer.fit(X, Y, callbacks=[Change(), nodes], **options).history, trainer.to_keras().get_weights()
    expected = model.fit(X, Y, callbacks=[Change()], **options).history
    assert np.abs(np.subtract(found["loss"], expected["loss"])).max() <= 1e-6
    assert worst_error(model.get_weights(), weights) <= 1e-8
    assert len(set(nodes.counts)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["without a flush", "butterfly"])
def test_plans_with_several_versions_of_weights_begin_again_with_those_of_a_callback(plan: str, cluster: Any) -> None:
    model = _model(normalized=False)

    class Zero(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.set_weights([np.asarray(weight) * 0 for weight in self.model.get_weights()])

    make: dict[str, Make] = {
        "without a flush": lambda model, on: hm.Plan.pipeline(model, ["first", "last"], [[0], [1]], [[1], [1]], on, BATCH, 2, "1f1b_2bw"),
        "butterfly": lambda model, on: hm.Plan.batch(model, (1, 1, 1), on, BATCH, gradient_sync="butterfly_mixing"),
    }
    with hm.Trainer(model, make[plan](model, cluster), cluster) as trainer:
        trainer.fit(X, Y, epochs=2, batch_size=BATCH, verbose=0, callbacks=[Zero()])
        assert all(not weight.any() for weight in trainer.to_keras().get_weights())
        history = trainer.fit(X, Y, epochs=3, batch_size=BATCH, verbose=0).history
        assert history["loss"][0] == pytest.approx(np.log(3), rel=0.05)
