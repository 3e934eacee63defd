"""`train --elastic`: a worker that is killed is left out, the training ends well, and its state is that of a training without a loss."""

import os
import re
import signal

import numpy as np
import pytest

from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.runtime.ports import free_ports

FLOAT64 = ["--precision", "float64", "--batch-size", "8", "--optimizer", "adam", "--epochs", "60", "--seed", "5"]


@pytest.mark.slow
def test_a_training_that_loses_a_worker_saves_what_it_would_have_saved(cli, start, model, folder, tmp_path, processes):
    data = ["--data", f"npz:{folder / 'data.npz'}", *FLOAT64]
    undisturbed = cli("train", *model, *data, "--cluster", "local:cpu:0", "--save", tmp_path / "alone.npz")
    assert undisturbed.code == 0, undisturbed
    elastic = ["--cluster", "emulate:0.3,0.3,0.3", "--save", tmp_path / "s.npz", "--save-every", "1", "--elastic"]
    process = start("train", *model, *data, *elastic, HETERO_MTF_CACHE=str(tmp_path / "cache"))
    assert processes.until(lambda: (tmp_path / "s.npz").exists())
    os.kill(processes.workers_of(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert re.search(r"worker:\d was killed by SIGKILL; training goes on with .* after [\d.]+ s", err), err
    assert re.search(r"^ +60/60 ", out, re.MULTILINE) and "test loss" in out
    _check_equal(tmp_path / "s.npz", tmp_path / "alone.npz")
    plans = PlanHistory.load(tmp_path / "s-plans.json")
    assert {len(span.plan.devices) for span in plans.spans} <= {2, 3} and len(plans.spans[-1].plan.devices) == 2


@pytest.mark.slow
def test_a_training_begins_without_a_spare_worker_and_takes_it_in(cli, start, model, folder, tmp_path, processes):
    data = ["--data", f"npz:{folder / 'data.npz'}", *FLOAT64, "--epochs", "400"]
    undisturbed = cli("train", *model, *data, "--cluster", "local:cpu:0", "--save", tmp_path / "alone.npz")
    assert undisturbed.code == 0, undisturbed
    hosts = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
    workers = ["worker", "--allow-root", "--hosts", hosts, "--index"]
    assert "serves on" in start(*workers, "0").stdout.readline()
    spare = ["--cluster", f"hosts:{hosts}", "--spare", "1", "--elastic", "--save", tmp_path / "s.npz", "--save-every", "1"]
    process = start("train", *model, *data, *spare, HETERO_MTF_CACHE=str(tmp_path / "cache"))
    assert processes.until(lambda: (tmp_path / "s.npz").exists())
    start(*workers, "1")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and "worker:1 is back; training goes on with" in err, err
    _check_equal(tmp_path / "s.npz", tmp_path / "alone.npz")


def _check_equal(path, other):
    """Check that two states hold the same numbers."""
    with np.load(path) as got, np.load(other) as wanted:
        numbers = [name for name in wanted.files if wanted[name].dtype == np.float64]
        assert numbers and set(got.files) == set(wanted.files)
        for name in numbers:
            np.testing.assert_allclose(got[name], wanted[name], rtol=1e-8, atol=1e-11, err_msg=name)
