"""Processes and their parents."""

import os
import signal
import subprocess
import sys

from hetero_mtf.runtime.processes.parent_death import start_time, tie_to_parent


def test_a_process_knows_whether_its_parent_is_still_there():
    assert tie_to_parent(os.getppid(), 0)
    assert not tie_to_parent(os.getpid(), 0)


def test_the_kernel_ends_a_process_whose_parent_is_killed(eventually, process_state):
    child = "import os, signal, time; from hetero_mtf.runtime.processes.parent_death import tie_to_parent; "
    child += "tie_to_parent(os.getppid(), signal.SIGKILL); print(os.getpid(), flush=True); time.sleep(600)"
    parent = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent.stdout:
        process = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert eventually(lambda: process_state(process) in ("", "Z"))


def test_a_start_time_tells_processes_of_one_number_apart():
    assert start_time(os.getpid()) == start_time(os.getpid()) > 0
    assert start_time(2**22 + 1) is None


def test_a_dead_process_that_nobody_has_waited_for_counts_as_gone(eventually):
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert eventually(lambda: start_time(process.pid) is None)
    process.wait()
