"""Progress of a long task: a bar on a terminal, a line every so often in a log file."""

from __future__ import annotations

import contextlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hetero_mtf.errors import HeteroError
from hetero_mtf.units import seconds_text

Advance = Callable[[str], None]
Verbose: TypeAlias = Literal["auto", 0, 1, 2]
FIRST_EVERY_S, EVERY_S = 10.0, 60.0  # between two lines: in the first minute, and later


@contextlib.contextmanager
def progress(
    title: str,
    total: int,
    console: Console | None = None,
    verbose: Verbose | str | int = "auto",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Advance]:
    """Yield a function that counts one step and shows what it was.

    Parameters
    ----------
    title : what is going on.
    total : number of steps.
    console : where to show it; None for the error stream, so that the output can be piped.
    verbose : "auto" or 1 for a bar on a terminal, or in a notebook that has ipywidgets, and elsewhere a line every 10 s, from the first
        minute on every minute; 2 for lines everywhere; 0 for nothing. A task that ends before its first line is due prints none.
    clock : seconds, increasing.

    Raises
    ------
    HeteroError
        If `verbose` has another value.

    Examples
    --------
    >>> with progress("counting", 2) as advance:
    ...     advance("one")
    ...     advance("two")
    """
    check_verbose(verbose)
    console = Console(stderr=True) if console is None else console
    if verbose == 0:
        yield lambda step: None
    elif verbose == 2 or not (console.is_terminal or (console.is_jupyter and _has_widgets())):
        lines = _Lines(title, total, console, clock)
        yield lines.advance
        lines.end()
    else:
        counts = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        columns = (TextColumn("{task.description}"), *counts, TextColumn("{task.fields[step]}", markup=False))
        with Progress(*columns, console=console, transient=True) as bars:
            task = bars.add_task(title, total=total, step="")
            yield lambda step: bars.update(task, advance=1, step=step)


def _has_widgets() -> bool:
    """Return whether a notebook can draw a bar."""
    return importlib.util.find_spec("ipywidgets") is not None


def check_verbose(verbose: object) -> None:
    """Raise unless a value is one of those that `verbose` takes, as in Keras.

    Raises
    ------
    HeteroError
        If it is another.
    """
    if not any(verbose == value and isinstance(verbose, type(value)) for value in ("auto", 0, 1, 2)):
        raise HeteroError(f"verbose is {verbose!r}", "use 'auto', 0 for nothing, 1 for a bar or 2 for lines")


class _Lines:
    """Counts steps, in several threads at once, and prints a line whenever one is due."""

    def __init__(self, title: str, total: int, console: Console, clock: Callable[[], float]) -> None:
        self._title, self._total, self._console, self._clock = title, total, console, clock
        self._count, self._printed = 0, False
        self._begin_s = self._last_s = clock()
        self._lock = threading.Lock()

    def advance(self, step: str) -> None:
        """Count a step, and print a line if one is due."""
        with self._lock:
            self._count += 1
            now_s = self._clock()
            spent_s = now_s - self._begin_s
            if now_s - self._last_s < (FIRST_EVERY_S if spent_s <= EVERY_S else EVERY_S) or self._count >= self._total:
                return
            self._last_s, self._printed = now_s, True
            left = seconds_text(spent_s / self._count * (self._total - self._count))
            shown = f" ({step})" if step else ""
            self._print(f"{self._count} of {self._total}{shown}, {seconds_text(spent_s)} so far, about {left} left")

    def end(self) -> None:
        """Print how long it took, if lines were printed before."""
        if self._printed:
            self._print(f"{self._count} of {self._total} in {seconds_text(self._clock() - self._begin_s)}")

    def _print(self, text: str) -> None:
        self._console.print(f"{self._title}: {text}", markup=False, highlight=False, soft_wrap=True)
