"""Files that a command reads and writes, compared by identity: no output takes the place of an input or of another output."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import click

from hetero_mtf.commands.process.output_file import check_target


@dataclasses.dataclass(frozen=True)
class CommandFile:
    """A file that a command reads or writes.

    Parameters
    ----------
    role : what it is to the command, for messages: an option such as "--save", or words.
    path : its path as it was given.
    """

    role: str
    path: pathlib.Path


@dataclasses.dataclass(frozen=True)
class CommandFiles:
    """All files of one call of a command.

    Parameters
    ----------
    inputs : files that are read.
    outputs : files that are created or replaced; two of one role may be the same file.
    updates : pairs of an output's and an input's role that may name one file, such as ("--save", "--resume").
    """

    inputs: Sequence[CommandFile]
    outputs: Sequence[CommandFile]
    updates: Sequence[tuple[str, str]] = ()


def command_file(role: str, path: str | os.PathLike[str] | None) -> tuple[CommandFile, ...]:
    """Return the file in a tuple, or () where there is no path.

    Parameters
    ----------
    role : what the file is to the command.
    path : its path, or None.
    """
    return () if path is None else (CommandFile(role, pathlib.Path(path)),)


def identity(path: str | os.PathLike[str]) -> tuple[int | str, ...]:
    """Return a value that two paths share if and only if they name one file, however they are spelt.

    For a file that exists it is the device and the inode, so symbolic and hard links do not hide it. For a file that does not exist it
    is the same of its nearest folder that does, and the names below that.

    Parameters
    ----------
    path : absolute or relative path, with or without links.
    """
    place, below = pathlib.Path(os.path.realpath(path)), tuple[str, ...]()
    while True:
        try:
            status = os.stat(place)
        except (OSError, ValueError):
            if place.parent == place:
                return below
            place, below = place.parent, (place.name, *below)
        else:
            return status.st_dev, status.st_ino, *below


def check_files(files: CommandFiles) -> None:
    """Refuse outputs that are inputs, that are each other, or that cannot be written.

    Parameters
    ----------
    files : what the command reads and writes.

    Raises
    ------
    click.UsageError
        If an output names the file of an input or of another output; name another file.
    HeteroError
        As `check_target`.
    """
    readers: dict[tuple[int | str, ...], list[CommandFile]] = {}
    for file in files.inputs if files.outputs else ():
        readers.setdefault(identity(file.path), []).append(file)
    writers: dict[tuple[int | str, ...], CommandFile] = {}
    for output in files.outputs:
        own = identity(output.path)
        for read in readers.get(own, ()):
            if (output.role, read.role) not in files.updates:
                raise click.UsageError(f"{output.role} would replace {read.role}: {_both(output, read)}; write to another file")
        other = writers.setdefault(own, output)
        if other.role != output.role:
            raise click.UsageError(f"{other.role} and {output.role} name the same file: {_both(other, output)}; give each its own")
    for output in files.outputs:
        check_target(output.path)


def _both(one: CommandFile, other: CommandFile) -> str:
    return str(one.path) if str(one.path) == str(other.path) else f"{one.path} is {other.path}"
