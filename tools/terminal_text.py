"""What a command shows in a terminal of given width, and what it writes into a log file, as plain text."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence

_ROWS = 50
_SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>78]")


class Screen:
    """The lines that a terminal shows after what was written to it: as far as progress bars move the cursor.

    Parameters
    ----------
    columns : characters of a line; a longer one goes on in the next.

    Examples
    --------
    >>> screen = Screen()
    >>> screen.write("10 %\\r\\x1b[2K20 %\\r\\x1b[2K\\x1b[1mdone\\x1b[0m")
    >>> screen.text()
    'done'
    """

    def __init__(self, columns: int = 10_000) -> None:
        self._columns = columns
        self._lines, self._row, self._column = [""], 0, 0

    def write(self, text: str) -> None:
        """Show text, with its control characters and the control sequences that move the cursor or erase.

        Parameters
        ----------
        text : what was written to the terminal.
        """
        at = 0
        while at < len(text):
            sequence = _SEQUENCE.match(text, at)
            if sequence is not None:
                self._control(sequence[1] or "", sequence[2] or "")
                at = sequence.end()
                continue
            self._put(text[at])
            at += 1

    def text(self) -> str:
        """Return the lines, without spaces behind them and empty lines below them."""
        return "\n".join(line.rstrip() for line in self._lines).rstrip("\n")

    def _put(self, character: str) -> None:
        if character == "\n":
            self._row += 1
            self._lines += [""] * (self._row + 1 - len(self._lines))
        elif character == "\r":
            self._column = 0
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif character >= " ":
            if self._column >= self._columns:
                self._put("\n")
                self._column = 0
            line = self._lines[self._row].ljust(self._column)
            self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def _control(self, parameters: str, name: str) -> None:
        first = parameters.partition(";")[0]
        count = int(first) if first.isdigit() else 0
        if name == "A":
            self._row = max(0, self._row - max(1, count))
        elif name == "B":
            self._row = min(len(self._lines) - 1, self._row + max(1, count))
        elif name == "K":
            line = self._lines[self._row]
            self._lines[self._row] = {0: line[: self._column], 1: line[self._column :].rjust(len(line))}.get(count, "")
        elif name == "G":
            self._column = max(0, count - 1)


def terminal_text(command: Sequence[str], columns: int, folder: str | os.PathLike[str], variables: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit code of a command and what a terminal shows when it has ended.

    Parameters
    ----------
    command : program and arguments.
    columns : characters of a line of the terminal.
    folder : where it is run.
    variables : its environment.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("4H", _ROWS, columns, 0, 0))
    known = {name: value for name, value in variables.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, cwd=folder, env={**known, "TERM": "xterm"}) as process:
        os.close(follower)
        screen, pieces = Screen(columns), list[bytes]()
        while piece := _read(leader):
            pieces.append(piece)
        os.close(leader)
    screen.write(b"".join(pieces).decode(errors="replace"))
    return process.returncode, screen.text()


def log_text(command: Sequence[str], folder: str | os.PathLike[str], variables: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit code of a command and what it writes into a file that takes its output and its errors.

    Parameters
    ----------
    command, folder, variables : as for `terminal_text`.
    """
    known = {name: value for name, value in variables.items() if name not in ("COLUMNS", "LINES")}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, env=known, text=True, check=False
    )
    return done.returncode, "\n".join(line.rstrip() for line in done.stdout.splitlines()).rstrip("\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the last process that held the terminal has ended
        return b""
