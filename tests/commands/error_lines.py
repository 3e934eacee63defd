"""What a command says on its error stream besides its first line and its progress."""

from __future__ import annotations

from hetero_mtf import __version__


def messages(err: str) -> list[str]:
    """Return the lines that are neither empty, nor the first line of a command, nor the progress of its calibration."""
    first = f"hetero-mtf {__version__}: "
    return [line for line in err.splitlines() if line and not line.startswith((first, "calibrating: "))]
