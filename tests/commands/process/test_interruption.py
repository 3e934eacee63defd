"""Being told to end while TensorFlow loads or a worker has just begun to serve."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from hetero_mtf.commands import explain
from hetero_mtf.commands.process import interruption, quiet
from hetero_mtf.commands.process.interruption import Interrupted, StopRequest, naming
from hetero_mtf.errors import WorkerError
from hetero_mtf.runtime.ports import free_ports

SERVE = """
import os, signal, threading
from hetero_mtf.runtime import worker

worker.check_port = worker.bypass_proxy = worker._server = lambda *more: None
heard = []
signal.signal(signal.SIGUSR1, lambda number, frame: os._exit(7))

class Late(threading.Event):
    def wait(self, timeout=None):
        heard.append(timeout)
        if len(heard) > 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        return super().wait(timeout)

threading.Event = Late
worker.serve(["127.0.0.1:1"], 0, leased=False)
"""


def test_what_tensorflow_wrote_while_it_loaded_is_not_shown_when_it_is_interrupted(capfd):
    with pytest.raises(KeyboardInterrupt), quiet._caught(2):
        os.write(2, b"I0000 oneDNN custom operations are on\n")
        raise KeyboardInterrupt
    assert capfd.readouterr().err == ""
    with pytest.raises(ImportError), quiet._caught(2):
        os.write(2, b"no such library\n")
        raise ImportError
    assert capfd.readouterr().err == "no such library\n"


@pytest.mark.slow
def test_a_worker_wakes_now_and_then_to_hear_signals():
    assert subprocess.run([sys.executable, "-c", SERVE], timeout=60).returncode == 7


@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_worker_interrupted_as_it_begins_to_serve_ends(start, number, code):
    process = start("worker", "--allow-root", "--hosts", f"127.0.0.1:{free_ports(1)[0]}", "--index", "0")
    assert "serves on" in process.stdout.readline()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code and err.strip().endswith("hetero-mtf: interrupted")


@pytest.fixture(autouse=True)
def signals():
    """Signals are heard: a shell ignores SIGINT, and nohup SIGHUP, for what it starts in the background."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def orderly(monkeypatch):
    """No process is ended by force."""
    monkeypatch.setattr(interruption, "_exit", lambda text, code: None)


@pytest.fixture
def stop(orderly):
    """A request whose clock goes on by a second whenever it is read."""
    seconds = iter(range(1000))
    with StopRequest(clock=lambda: float(next(seconds))) as request:
        yield request


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_training_asks_and_ends_nothing(stop, number):
    used = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = [*map(signal.getsignal, used), signal.getitimer(signal.ITIMER_REAL)[1]]
    with stop.deferred():
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked
        signal.raise_signal(signal.SIGTERM)  # an order to end may be repeated
    assert [*map(signal.getsignal, used), signal.getitimer(signal.ITIMER_REAL)[1]] == before
    assert stop.interrupted("x").number == number


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_interrupt_ends_at_once_and_names_the_last_state(stop, first):
    stop.saved = "the state after step 8 is in s.npz"
    said = "^interrupted before .* had ended; the state after step 8 is in s.npz$"
    with pytest.raises(Interrupted, match=said) as ended, stop.deferred():
        signal.raise_signal(first)
        signal.raise_signal(signal.SIGINT)
    assert ended.value.number == first


def test_an_interrupt_that_is_sent_to_the_process_and_to_its_group_counts_once(orderly):
    with StopRequest(clock=lambda: 0.0) as stop, stop.deferred():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert stop.asked


def test_a_signal_that_is_ignored_stays_ignored(stop):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop.deferred():
            signal.raise_signal(signal.SIGHUP)
            assert not stop.asked
    finally:
        signal.signal(signal.SIGHUP, before)


def test_workers_that_do_not_answer_end_the_wait_for_the_step(stop):
    stop.unresponsive = lambda: WorkerError("worker:1 does not answer; open the cluster again")
    said = "^interrupted.*: worker:1 does not answer; open the cluster again; nothing is saved$"
    with pytest.raises(Interrupted, match=said), stop.deferred():
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait()


def test_a_step_that_takes_long_is_waited_for_and_a_line_says_so(stop, capsys):
    looked, enough = [], threading.Event()
    stop.unresponsive = lambda: looked.append(1) or (enough.set() if len(looked) == 3 else None)
    with stop.deferred():
        signal.raise_signal(signal.SIGINT)
        enough.wait()
    assert capsys.readouterr().err == "hetero-mtf: finishing the step; press Ctrl-C again to stop at once\n"


@pytest.mark.fast("raise stop.interrupted(stop.saved)")
@pytest.mark.parametrize("end", ["signal.raise_signal(signal.SIGINT)", "raise stop.interrupted(stop.saved)"])
def test_what_cannot_be_closed_does_not_keep_the_process(end):
    program = f"""
import signal, threading
from hetero_mtf.commands.process import interruption
interruption.ORDERLY_CLOSE_LIMIT_S = 0.1
stop = interruption.StopRequest(clock=iter(range(99)).__next__)
stop.saved = "nothing is saved"
try:
    with stop, stop.deferred():
        try:
            signal.raise_signal(signal.SIGTERM)
            {end}
        finally:
            threading.Event().wait()
finally:
    print("closed")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 143 and ended.stdout == ""
    assert ended.stderr.splitlines()[-1].startswith("hetero-mtf: interrupted") and ended.stderr.endswith("; nothing is saved\n")


def test_the_program_says_what_is_saved_and_ends_with_the_signals_code(cli, monkeypatch):
    def stopped(**options):
        raise Interrupted("interrupted; nothing is saved", signal.SIGTERM)

    monkeypatch.setattr(explain.command, "callback", stopped)
    said = cli("explain", "plan.json")
    assert said.code == 143 and said.err.splitlines()[-1] == "hetero-mtf: interrupted; nothing is saved"


def test_an_interruption_after_training_names_the_state():
    with pytest.raises(Interrupted, match="^interrupted; the state is in s.npz$"), naming("the state is in s.npz"):
        raise KeyboardInterrupt
