"""Being told to end while TensorFlow loads or a worker has just begun to serve."""

import os
import signal
import subprocess
import sys

import pytest

from hetero_mtf.commands import quiet
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


def test_a_worker_wakes_now_and_then_to_hear_signals():
    assert subprocess.run([sys.executable, "-c", SERVE], timeout=60).returncode == 7


@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_a_worker_interrupted_as_it_begins_to_serve_ends(start, number, code):
    process = start("worker", "--hosts", f"127.0.0.1:{free_ports(1)[0]}", "--index", "0")
    assert "serves on" in process.stdout.readline()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code and err.strip().endswith("hetero-mtf: interrupted")
