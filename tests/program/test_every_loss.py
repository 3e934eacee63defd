"""Every loss of Keras, and functions of one's own, have Keras's values and gradients under plans that split samples and channels."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program import drawing
from tests.program.oracle import worst_error
from tools.conformance.losses import FLAT, LOSSES, targets

K = keras.losses
BATCH = 6


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", [*LOSSES, *FLAT])
def test_every_loss_has_the_values_and_gradients_of_keras(name: str, weighted: bool) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(2)
    make, kind, activation = {**LOSSES, **FLAT}[name]
    rng = np.random.default_rng(3)
    i = keras.Input((4, 2) if name in LOSSES else (8,))
    x = keras.layers.Dense(5, activation="tanh")(i)
    model = keras.Model(i, keras.layers.Dense(3, activation=activation)(x))
    shape = (BATCH, *model.output_shape[1:])
    batches = [(rng.normal(size=(BATCH, *i.shape[1:])), targets(kind, rng, shape)) for _ in range(3)]
    weights = [rng.random(BATCH) + 0.5 if weighted else None for _ in batches]
    plan = drawing.plan(rng, layer_graph(model), (("batch", 3), ("filters", 2)), BATCH)
    with hm.Cluster.local(["cpu:0"] * 6) as cluster:
        with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.1, clipnorm=1.0), loss=make()) as trainer:
            losses = [trainer.train_on_batch(x, y, w) for (x, y), w in zip(batches, weights)]
            found, test = trainer.to_keras().get_weights(), trainer.test_on_batch(*batches[0], weights[0])
    model.compile(keras.optimizers.SGD(0.1, clipnorm=1.0), make(), run_eagerly=True)
    rank = 1 if kind == "labels" or "Dice" in name or name in ("Tversky", "a sum", "a function") else len(shape) - 1
    shaped = [None if w is None else w.reshape(-1, *(1 for _ in range(rank - 1))) for w in weights]
    expected = [float(np.ravel(model.train_on_batch(x, y, sample_weight=w))[0]) for (x, y), w in zip(batches, shaped)]
    assert np.abs(np.subtract(expected, losses)).max() <= 1e-8, (expected, losses)
    assert worst_error(model.get_weights(), found) <= 1e-8
    assert abs(float(np.ravel(model.test_on_batch(*batches[0], sample_weight=shaped[0]))[0]) - test) <= 1e-8


def test_every_class_of_losses_is_here() -> None:
    own = {name for name, kind in vars(K).items() if isinstance(kind, type) and issubclass(kind, K.Loss) and kind is not K.Loss}
    assert own - {"CTC"} <= {*LOSSES, *FLAT}
