"""Files that a command writes: checked before hours of work, written in one piece after them."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from hetero_mtf.errors import HeteroError
from hetero_mtf.json_file import replace_file


def check_target(path: str | os.PathLike[str] | None) -> None:
    """Refuse a path that nothing can be written to.

    Parameters
    ----------
    path : path of the file to write, or None.

    Raises
    ------
    HeteroError
        If its folder is missing or not writable, or it is a folder itself or a link to itself.
    """
    if path is None:
        return
    target = pathlib.Path(path)
    try:
        target.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as fault:
        raise HeteroError(f"cannot write {target}: {fault.strerror}", "choose another place") from fault
    if target.is_dir():
        raise HeteroError(f"cannot write {target}: it is a folder", "give the path of a file")
    if not target.parent.is_dir():
        raise HeteroError(f"cannot write {target}: there is no folder {target.parent}", "make it first")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise HeteroError(f"cannot write {target}: the folder {target.parent} is not writable", "choose another place")


def check_folder(path: str | os.PathLike[str] | None, option: str) -> None:
    """Refuse a folder that files cannot be written to, or that cannot be made.

    Parameters
    ----------
    path : path of the folder, or None.
    option : the option that names it, for messages.

    Raises
    ------
    HeteroError
        If it is a file, or it or the nearest folder above it is not writable.
    """
    if path is None:
        return
    folder = place = pathlib.Path(path)
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise HeteroError(f"{option} is {folder}, and {place} is no folder", "give the path of a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise HeteroError(f"{option} is {folder}, and the folder {place} is not writable", "choose another place")


def save_model(path: str | os.PathLike[str], model: Any) -> None:
    """Write a Keras model to a .keras file in one piece.

    Parameters
    ----------
    path : path of the file to write or replace.
    model : keras.Model.

    Raises
    ------
    HeteroError
        If it cannot be written.
    """
    try:
        with replace_file(path, suffix=".keras") as file:
            model.save(pathlib.Path(file.name))  # Keras opens it by its name, which is locked meanwhile
    except RuntimeError as fault:
        raise HeteroError(f"cannot write {path}: {' '.join(str(fault).split())}", "choose another place or free some space") from fault
