"""A progress bar that says nothing where nobody looks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[str], None]


@contextlib.contextmanager
def progress(title: str, total: int, console: Console | None = None) -> Iterator[Advance]:
    """Yield a function that counts one step and shows what it was; silent where the console is not a terminal.

    Parameters
    ----------
    title : what is going on.
    total : number of steps.
    console : where to show it; None for the error stream, so that the output can be piped.

    Examples
    --------
    >>> with progress("counting", 2) as advance:
    ...     advance("one")
    ...     advance("two")
    """
    console = Console(stderr=True) if console is None else console
    if not console.is_terminal:
        yield lambda step: None
        return
    counts = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    columns = (TextColumn("{task.description}"), *counts, TextColumn("{task.fields[step]}", markup=False))
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=total, step="")
        yield lambda step: bars.update(task, advance=1, step=step)
