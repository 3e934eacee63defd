"""Published files of JSON, whose format somebody else chose."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from hetero_mtf.errors import DataError


def published_json(path: pathlib.Path, remedy: str) -> Any:
    """Return what a file holds.

    Parameters
    ----------
    remedy : what to do where it is not to be read.

    Raises
    ------
    DataError
        If it is missing or is not JSON.
    """
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as fault:
        raise DataError(f"{path.name} cannot be read as JSON: {' '.join(str(fault).split())}", remedy) from fault
