"""A training in an interpreter without a script works, and its workers end with it: `python -`, `python -i` and `python -c`."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from hetero_mtf.training import plan_choice
from tests.docs.test_notebook import left_over

pytestmark = [pytest.mark.slow, pytest.mark.serial]

SOURCE = """
import os
import keras, numpy as np
import hetero_mtf as hm
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x, y = np.ones((40, 6)), np.ones((40, 1))
cluster = hm.Cluster.emulate([0.5, 0.25])
trainer = hm.Trainer(model, hm.Plan.batch(model, (2, 1), cluster, 10), cluster)
history = trainer.fit(x, y, epochs=2, batch_size=10, verbose=1)
print("trained in", "a file" if os.path.isfile(globals().get("__file__", "")) else "no file", len(history.history["loss"]))
"""
ENDS = {"left open": "", "an error": "raise SystemExit(3)\n", "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("form", ["-", "-i", "-c"])
def test_an_interpreter_without_a_file_trains_and_leaves_no_process(form: str, end: str, tmp_path: pathlib.Path) -> None:
    source = SOURCE + ENDS[end]
    command = [sys.executable, form, *([source] if form == "-c" else [])]
    environment = {**os.environ, plan_choice.CACHE: str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    given = None if form == "-c" else source
    ran = subprocess.run(command, input=given, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert "trained in no file 2" in ran.stdout, ran.stderr[-2000:]
    assert ran.returncode == {"left open": 0, "an error": 3, "killed": -9}[end]
    assert left_over(tmp_path) == []
