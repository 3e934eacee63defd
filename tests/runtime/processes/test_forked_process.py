"""A forked process: its exit code, its output, and what it has of this one."""

import signal
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import os, signal, subprocess, sys, tempfile, time
from hetero_mtf.runtime.processes.forked_process import ForkedProcess

signal.signal(signal.SIGTERM, lambda number, frame: None)
log, other = tempfile.TemporaryFile(), os.open(os.devnull, os.O_RDONLY)
kept = os.open(os.devnull, os.O_RDONLY)
"""


def run(text):
    """Run a program of one thread, as a supervisor is, and return what it prints."""
    program = PROGRAM + textwrap.dedent(text)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60).stdout.split()


def test_it_ends_with_the_exit_code_of_its_work_and_its_output_is_read():
    printed = run("""
        process = ForkedProcess(lambda: os.write(1, b"ready") and 7, log)
        print(process.stdout.read().decode(), process.wait(), process.returncode)
    """)
    assert printed == ["ready", "7", "7"]


def test_an_exception_ends_it_with_its_text_in_the_log():
    printed = run("""
        process = ForkedProcess(lambda: 1 / 0, log)
        code = process.wait()
        log.seek(0)
        print(code, "ZeroDivisionError" in log.read().decode())
    """)
    assert printed == ["1", "True"]


@pytest.mark.parametrize("how, number", [("terminate", signal.SIGTERM), ("kill", signal.SIGKILL)])
def test_it_has_no_handlers_and_is_ended_by_a_signal(how, number):
    printed = run(f"""
        process = ForkedProcess(lambda: os.write(1, b"x") and time.sleep(60), log)
        process.stdout.read(1)
        process.{how}()
        print(process.wait(10))
        process.{how}()  # of one that has ended
    """)
    assert printed == [str(-number)]


def test_one_that_goes_on_is_not_waited_for_longer_than_asked():
    printed = run("""
        process = ForkedProcess(lambda: time.sleep(60), log)
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            print("goes on", process.returncode)
        process.kill()
        process.wait()
    """)
    assert printed == ["goes", "on", "None"]


def test_of_files_it_has_those_of_what_is_loaded_and_the_standard_ones():
    printed = run("""
        def listed():
            names = [int(name) for name in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{name}")]
            return os.write(1, " ".join(str(name in names) for name in (kept, other, log.fileno())).encode()) * 0
        process = ForkedProcess(listed, log, {kept})
        print(process.stdout.read().decode(), process.wait())
    """)
    assert printed == ["True", "False", "False", "0"]


def test_its_standard_input_is_empty():
    printed = run("""
        process = ForkedProcess(lambda: len(os.read(0, 10)), log)
        print(process.wait())
    """)
    assert printed == ["0"]
