"""The one place that reads this process's environment."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping

import hetero_mtf


def variables() -> Mapping[str, str]:
    """Return a copy of this process's environment variables."""
    return dict(os.environ)


def child_variables(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process that has to find this package where this process found it.

    Parameters
    ----------
    changes : variables to set on top of this process's own.
    """
    root = str(pathlib.Path(next(iter(hetero_mtf.__path__))).resolve().parent)
    inherited = os.environ.get("PYTHONPATH", "")
    found = [part for part in inherited.split(os.pathsep) if part and part != root]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *found]), "PYTHONSAFEPATH": "1", **changes}
