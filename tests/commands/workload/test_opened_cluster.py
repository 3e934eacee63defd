"""Clusters that commands start before TensorFlow is loaded: emulated ones alone, which end with the command whatever ends it."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from hetero_mtf.commands.workload.opened_cluster import started_cluster
from hetero_mtf.errors import ClusterError

STARTED = """
import sys
from hetero_mtf.commands.main import main
from hetero_mtf.commands.runs import train
from hetero_mtf.runtime import emulation

def load_tensorflow():
    assert "tensorflow" not in sys.modules
    {then}

started = emulation.Emulation._start
def told(self):
    started(self)
    print(self._process.pid, flush=True)
emulation.Emulation._start = told
train.load_tensorflow = load_tensorflow
sys.argv = ["hetero-mtf", "train", "--cluster", "emulate:0.5,0.25", "--model", "hetero_mtf.models.digits:wide_digits", "--data", "digits"]
main()
"""


@pytest.mark.parametrize("text", ["local", "local:cpu:0,cpu:0", "hosts:127.0.0.1:1", "slurm", "tf_config", "nothing"])
def test_what_has_to_be_reached_is_not_opened_before_it_is_needed(text: str) -> None:
    with started_cluster(text) as started:
        assert started is None


def test_an_emulated_cluster_is_closed_at_the_end_of_the_block() -> None:
    with started_cluster("emulate:0.5") as started:
        assert started is not None and not started.closed
    assert started.closed


def test_shares_that_cannot_be_given_are_refused_at_once() -> None:
    with pytest.raises(ClusterError, match="the share 1.5 is not between"), started_cluster("emulate:1.5"):
        pass


def is_gone(process: int) -> bool:
    """Return whether a process ends within some seconds."""
    end_s = time.monotonic() + 20.0
    while pathlib.Path(f"/proc/{process}").exists() and time.monotonic() < end_s:
        time.sleep(0.02)
    return not pathlib.Path(f"/proc/{process}").exists()


@pytest.mark.parametrize(
    ("then", "code", "said"),
    [
        ("raise MemoryError", 1, "memory ran out"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", 130, "interrupted"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, "interrupted"),
    ],
)
def test_nothing_is_left_of_workers_where_a_command_ends_while_they_start(then: str, code: int, said: str, tmp_path: pathlib.Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    program = [sys.executable, "-c", STARTED.format(then=then)]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, env=environment, preexec_fn=_hears_interrupts)
    assert ended.returncode == code and said in ended.stderr
    assert is_gone(int(ended.stdout))


def _hears_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
