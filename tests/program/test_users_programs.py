"""Networks as people write them: their first 50 steps are Keras's, under plans drawn at random."""

from __future__ import annotations

import zlib

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program import drawing
from tests.program.oracle import worst_error
from tests.program.users_programs import BATCH, PROGRAMS

STEPS = 50


def _optimizer(name: str) -> keras.optimizers.Optimizer:
    """Return Adam; for words SGD, as Keras's Adam squares the gradients of a word that is in a batch twice one by one."""
    return keras.optimizers.SGD(0.05, momentum=0.9) if name == "text" else keras.optimizers.Adam(1e-3)


@pytest.mark.fast("text")
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_steps_are_those_of_keras(name: str) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(zlib.crc32(name.encode()) & 0xFFFF)
    rng = np.random.default_rng(11)
    model, loss, x, y = PROGRAMS[name](rng)
    plan = drawing.plan(rng, layer_graph(model), (("devices", 3),), BATCH)
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(model, plan, cluster, optimizer=_optimizer(name), loss=loss) as trainer:
            losses = [trainer.train_on_batch(x, y) for _ in range(STEPS)]
            weights, tested = trainer.to_keras().get_weights(), trainer.test_on_batch(x, y)
            predicted = trainer.predict(x)
    model.compile(_optimizer(name), loss)
    expected = [float(np.ravel(model.train_on_batch(x, y))[0]) for _ in range(STEPS)]
    assert np.abs(np.subtract(expected, losses)).max() <= 1e-8, (expected, losses)
    assert worst_error(model.get_weights(), weights) <= 1e-8
    assert abs(float(np.ravel(model.test_on_batch(x, y))[0]) - tested) <= 1e-8
    outputs = model.predict(x, verbose=0)
    for own, other in zip(keras.tree.flatten(outputs), keras.tree.flatten(predicted)):
        assert np.abs(own - other).max() <= 1e-8
