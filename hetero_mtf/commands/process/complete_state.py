"""The state that a training goes on from: where the newest one is damaged, the newest of those that were kept beside it."""

from __future__ import annotations

import contextlib
import os

import click

from hetero_mtf.commands.process.run_files import step_files
from hetero_mtf.errors import CheckpointError
from hetero_mtf.training.checkpoint import STEPS_UP_TO, State, load_state


def newest_complete(path: str) -> tuple[str, State]:
    """Return a state with its path, or, with a warning, where it is damaged, the newest complete one that was kept beside it.

    Parameters
    ----------
    path : path of the newest state.

    Raises
    ------
    CheckpointError
        If it is damaged, and so are all others, or there are none.
    """
    try:
        return path, load_state(path)
    except CheckpointError as fault:
        for kept in sorted(step_files(path, STEPS_UP_TO), key=os.path.getmtime, reverse=True):  # an earlier training's may have more steps
            with contextlib.suppress(CheckpointError):
                state = load_state(kept)
                click.echo(f"hetero-mtf: warning: {fault.reason}; training goes on from {kept}, the newest complete state there", err=True)
                return str(kept), state
        raise
