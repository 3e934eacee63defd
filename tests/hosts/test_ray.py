"""The recipe of docs/hosts.md for Ray, on this machine: two ranks of Ray Train, each of which starts a worker."""

import os
import re
import subprocess
import sys

import pytest

from tests.hosts.recipes import PAGE, ROOT

LIMIT_S = 400.0


@pytest.fixture
def script(tmp_path):
    """The recipe with a short training, as a file beside the models."""
    pytest.importorskip("ray.train.tensorflow", reason="Ray is not installed: pip install 'ray[train]'")
    (text,) = [block.partition("```")[0] for block in PAGE.read_text().split("```py\n")[1:] if "TensorflowTrainer" in block]
    text = text.replace('"worker"]', '"worker", "--allow-root"]').replace('"train",', '"train", "--epochs", "1",')
    (tmp_path / "models").symlink_to(ROOT / "models")
    text = text.replace('"models/', f'"{tmp_path}/models/')
    file = tmp_path / "job.py"
    file.write_text(text)
    return file


def _run(script):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "RAY_DEDUP_LOGS": "0"}
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=LIMIT_S, env=variables, cwd=script.parent)
    return run.returncode, run.stdout + run.stderr


def _workers():
    """Return the processes of workers that are left."""
    return subprocess.run(["pgrep", "-f", "hetero_mtf worker"], capture_output=True, text=True).stdout.split()


def test_each_rank_serves_and_the_first_one_trains(script):
    code, said = _run(script)
    assert code == 0, said
    assert set(re.findall(r"worker (\d) serves on", said)) == {"0", "1"} and "test accuracy" in said
    assert _workers() == []


def test_a_training_that_fails_ends_the_job_and_leaves_no_worker(script):
    script.write_text(script.read_text().replace("wide_digits", "no_such_model"))
    code, said = _run(script)
    assert code != 0 and "no_such_model" in said
    assert _workers() == []
