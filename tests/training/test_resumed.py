"""A training that is killed by SIGKILL and started again ends with the weights of Keras's own, and of one that nothing disturbed."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.program.oracle import worst_error
from tools import from_keras

pytestmark = pytest.mark.slow

PRELUDE = """
import os, pathlib, signal
import keras
keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)

class Killed(keras.callbacks.Callback):
    epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        with open("epochs.txt", "a") as file:
            print(epoch, file=file)

    def on_train_batch_end(self, batch, logs=None):
        if pathlib.Path("to_kill").exists() and (self.epoch, batch) == (3, 1):
            os.unlink("to_kill")
            os.kill(os.getpid(), signal.SIGKILL)

"""
UNEQUAL = """
import hetero_mtf
from hetero_mtf.training import plan_choice
from hetero_mtf.training.run import run_plans

def unequal(task, *_):
    return plan_choice.Choice(hetero_mtf.Plan.batch(task.model, (3, 1, 2), task.cluster, task.batch_size))

run_plans.choose_plan = unequal
"""
END = """
import numpy
trained = model.to_keras() if hasattr(model, "to_keras") else model
numpy.savez("weights.npz", *trained.get_weights())
"""
CHANGES = {
    "every epoch": {},
    "every 5 batches": {'BackupAndRestore("backup")': 'BackupAndRestore("backup", save_freq=5)'},
    "dropout and shuffled": {
        "shuffle=False": "shuffle=True",
        ", keras.layers.Dense(1)]": ", keras.layers.Dropout(0.4), keras.layers.Dense(1)]",
    },
}


def _script(own: bool, change: str) -> str:
    source = from_keras.changed_script("resumed") if own else from_keras.keras_script("resumed")
    for old, new in {**CHANGES[change], "callbacks=[backup]": "callbacks=[backup, Killed()]"}.items():
        assert old in source
        source = source.replace(old, new)
    return PRELUDE + (UNEQUAL if own else "") + source.replace(from_keras.CLUSTER, "cluster = hm.Cluster.local(['cpu:0'] * 3)") + END


def _trained(folder: pathlib.Path, source: str, kill: bool) -> tuple[list[np.ndarray], list[int]]:
    """Return the weights in the end, and the epochs that were begun, by a script that is started again after it was killed."""
    folder.mkdir()
    (folder / "script.py").write_text(source)
    if kill:
        (folder / "to_kill").touch()
    environment = {**os.environ, "PYTHONPATH": str(from_keras.ROOT)}
    for expected in [-signal.SIGKILL, 0] if kill else [0]:
        ran = subprocess.run([sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
        assert ran.returncode == expected, ran.stderr[-2000:]
    with np.load(folder / "weights.npz") as file:
        return [file[name] for name in file.files], [int(line) for line in (folder / "epochs.txt").read_text().split()]


@pytest.mark.parametrize("change", CHANGES)
def test_a_killed_training_goes_on_as_in_keras(change: str, tmp_path: pathlib.Path) -> None:
    resumed, epochs = _trained(tmp_path / "resumed", _script(True, change), kill=True)
    begun = [0, 1, 2, 3, *([2] if change == "every 5 batches" else []), 3, 4, 5]  # the last backup there is of the middle of epoch 2
    assert epochs == begun
    undisturbed, epochs = _trained(tmp_path / "undisturbed", _script(True, change), kill=False)
    assert epochs == list(range(6))
    if change != "every 5 batches":  # as in Keras, the epoch is begun again with the weights of its middle
        for one, other in zip(resumed, undisturbed, strict=True):
            assert np.array_equal(one, other)
    if change != "dropout and shuffled":  # Keras draws another order in another process
        of_keras, epochs = _trained(tmp_path / "keras", _script(False, change), kill=True)
        assert epochs == begun and worst_error(of_keras, resumed) <= 1e-8
