"""The newest states of a training, each in a file numbered by its step beside the newest one's."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil

from hetero_mtf.commands.process.run_files import beside, step_file, step_files
from hetero_mtf.errors import HeteroError
from hetero_mtf.json_file import replace_file

_RECORD = "data"  # kind of the file beside a state that describes its volumes


class KeptStates:
    """Keeps a number of states; of an earlier training only those count that a resumed one goes on from.

    Parameters
    ----------
    path : path of the newest state, which others have numbered names beside.
    keep : how many are kept.
    resumed_step : the step that training goes on from, None for a new training; states up to it count as its own.
    """

    def __init__(self, path: str, keep: int, resumed_step: int | None) -> None:
        self._path, self._keep = pathlib.Path(path), keep
        self._kept = [] if resumed_step is None else step_files(self._path, resumed_step)

    def add(self, step: int) -> None:
        """Keep what the file of the newest state holds as that of a step, and remove the oldest ones beyond the number.

        Parameters
        ----------
        step : number of steps taken.

        Raises
        ------
        HeteroError
            If the file cannot be written.
        """
        kept, record = step_file(self._path, step), beside(self._path, _RECORD)
        _copy(self._path, kept)
        if record.exists():
            _copy(record, beside(kept, _RECORD))
        self._kept = [*(path for path in self._kept if path != kept), kept]
        while len(self._kept) > self._keep:
            oldest = self._kept.pop(0)
            for path in (oldest, beside(oldest, _RECORD)):
                with contextlib.suppress(OSError):
                    path.unlink()


def _copy(path: pathlib.Path, kept: pathlib.Path) -> None:
    """Give a file a further name, which keeps its bytes once the file is replaced; or copy it where links are not."""
    newest, linked = os.path.realpath(path), kept.with_name(f".{kept.name}.link")
    try:
        with contextlib.suppress(FileNotFoundError):
            linked.unlink()
        os.link(newest, linked)
        os.replace(linked, kept)
    except OSError:
        try:
            with open(newest, "rb") as source, replace_file(kept) as target:
                shutil.copyfileobj(source, target)
        except OSError as fault:
            raise HeteroError(f"cannot read {newest}: {fault.strerror or fault}", "check the disk") from fault
