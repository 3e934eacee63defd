"""ForkedProcess: a process that goes on from what this one has loaded, with the part of `subprocess.Popen` that its owner uses."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import traceback
from collections.abc import Callable, Set
from typing import IO

_LOOK_S = 0.01


class ForkedProcess:
    """A process that does a piece of work and ends with its exit code.

    Forking is safe only while this process has one thread that does anything: before a session, server or pool of threads.

    Parameters
    ----------
    work : returns the exit code; its standard output is `stdout` here, its standard input empty.
    log : file that its standard error is written to.
    loaded : file descriptors that belong to what is loaded; all others but the standard ones are closed there.

    Attributes
    ----------
    pid : process id.
    stdout : what it writes to its standard output.
    returncode : its exit code, or the signal that ended it, negated; None until `wait` has seen its end.
    """

    def __init__(self, work: Callable[[], int], log: IO[bytes], loaded: Set[int] = frozenset()) -> None:
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(_worked(work, write, log.fileno(), loaded))
        os.close(write)
        self.stdout: IO[bytes] | None = os.fdopen(read, "rb", buffering=0)
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended.

        Parameters
        ----------
        timeout : seconds to wait at most.

        Raises
        ------
        subprocess.TimeoutExpired
            If it has not ended by then.
        """
        end_s = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            ended, status = os.waitpid(self.pid, 0 if end_s is None else os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif end_s is not None and time.monotonic() >= end_s:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            else:
                time.sleep(_LOOK_S)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal; one that was seen to end gets none."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def _worked(work: Callable[[], int], output: int, log: int, loaded: Set[int]) -> int:
    """Do the work in the new process, as a fresh one would: no handlers and no files of the old one."""
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):
            signal.signal(number, signal.SIG_DFL)
        for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (log, 2)):
            os.dup2(source, target)
        for name in os.listdir("/dev/fd"):
            if int(name) > 2 and int(name) not in loaded:
                _close(int(name))
        return work()
    except BaseException:  # noqa: BLE001 - the log is all that is left to tell of it
        traceback.print_exc()
        return 1


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # that of the listing itself
        os.close(descriptor)
