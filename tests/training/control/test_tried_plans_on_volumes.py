"""A training on NIfTI scans that goes through several plans leaves what the training on one device leaves."""

from __future__ import annotations

import pathlib
from typing import Any

import keras
import numpy as np

import hetero_mtf as hm
from hetero_mtf.data.volumes import Augmentation, CohortOptions, Preprocessing, VolumeCache, VolumeSource, open_cohort
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from tests.data.volumes.nifti_files import write_cohort
from tests.program.oracle import worst_error
from tests.training.setting import cluster

__all__ = ["cluster"]

SCANS, BATCH, EPOCHS = 7, 2, 4
L = keras.layers


def network() -> keras.Model:
    keras.utils.set_random_seed(3)
    scan = keras.Input((6, 6, 6, 1))
    x = L.ReLU()(L.BatchNormalization()(L.Conv3D(4, 3, use_bias=False)(scan)))
    x = L.Dropout(0.2)(L.Conv3D(6, 2, strides=2, activation="relu")(x))
    return keras.Model(scan, L.Dense(2, activation="softmax")(L.Flatten()(x)))


def trained(folder: pathlib.Path, cluster: Any, moves: bool) -> Any:
    """Return History, weights, slots, what callbacks saw, and the number of moves."""
    cache = VolumeCache(None, Preprocessing((6, 6, 6)))
    scans = open_cohort(folder / "participants.tsv", cache, CohortOptions(label="diagnosis")).participants
    model = network()
    plans = [
        hm.Plan.single(model, 0, cluster, BATCH),
        hm.Plan.batch(model, (1, 1, 0), cluster, BATCH),
        hm.Plan.filters(model, (2, 1, 1), cluster, BATCH),
        hm.Plan.single(model, 1, cluster, BATCH),
        hm.Plan.filters(model, (0, 1, 3), cluster, BATCH),
    ]
    spans = [PlanSpan(3 * at, plan) for at, plan in enumerate(plans)]
    history = PlanHistory(tuple(spans if moves else spans[:1]))
    seen: list[Any] = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append((batch, sorted(logs))))
    options = {"optimizer": keras.optimizers.Adam(1e-3), "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], "seed": 4}
    augmentation = Augmentation(flip=True, shift_voxels=1, noise=0.05)
    with VolumeSource(scans, cache, batch_size=BATCH, seed=4, augmentation=augmentation) as source:
        with hm.Trainer(model, None, cluster, **options, measure=history) as trainer:
            fitted = trainer.fit(source, epochs=EPOCHS, verbose=0, callbacks=[callback])
            return fitted.history, trainer._run.engine.read(), seen, len(trainer.moves)


def test_scans_are_trained_on_as_on_one_device(tmp_path: pathlib.Path, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    write_cohort(tmp_path, SCANS)
    history, values, seen, moves = trained(tmp_path, cluster, True)
    one_history, one_values, one_seen, none = trained(tmp_path, cluster, False)
    assert (moves, none) == (4, 0) and seen == one_seen and len(seen) == EPOCHS * -(-SCANS // BATCH)
    assert values.keys() == one_values.keys() and worst_error(list(one_values.values()), list(values.values())) <= 1e-8
    for name, of_epochs in one_history.items():
        np.testing.assert_allclose(history[name], of_epochs, rtol=1e-8)
