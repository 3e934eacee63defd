"""The state that a training goes on from: where the newest one is damaged, the newest of those that were kept beside it."""

from __future__ import annotations

import os

import click

from hetero_mtf.commands.process.run_files import step_files
from hetero_mtf.errors import CheckpointError
from hetero_mtf.training.checkpoint import STEPS_UP_TO, load_state


def newest_complete(path: str) -> str:
    """Return the path of a state, or, with a warning, where it is damaged that of the newest complete one that was kept beside it.

    Parameters
    ----------
    path : path of the newest state.

    Raises
    ------
    CheckpointError
        If it is damaged, and so are all others, or there are none.
    """
    try:
        load_state(path)
        return path
    except CheckpointError as fault:
        for kept in sorted(step_files(path, STEPS_UP_TO), key=os.path.getmtime, reverse=True):  # an earlier training's may have more steps
            if _is_complete(str(kept)):
                click.echo(f"hetero-mtf: warning: {fault.reason}; training goes on from {kept}, the newest complete state there", err=True)
                return str(kept)
        raise


def _is_complete(path: str) -> bool:
    try:
        load_state(path)
    except CheckpointError:
        return False
    return True
