"""What is stored beside a trained network so that others scans can be shown to it alike: state-data.json beside state.npz."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from hetero_mtf.commands.options import Argument
from hetero_mtf.commands.quiet import load_tensorflow
from hetero_mtf.data.volumes.record import VolumeRecord
from hetero_mtf.errors import CheckpointError, DataError, HeteroError
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.planning.reading import Fault, listed, read_fields

KIND, VERSION = "data", 1


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a network was trained on, and how it was made.

    Parameters
    ----------
    network : digest of its LayerGraph.
    model : the function that made it, as --model says it.
    model_arguments : "name=value", what it was called with.
    dtype : its float type.
    data : the volumes.
    """

    network: str
    model: str
    model_arguments: tuple[str, ...]
    dtype: str
    data: VolumeRecord

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a JSON file.

        Parameters
        ----------
        path : file to write or replace.

        Raises
        ------
        HeteroError
            If it cannot be written.
        """
        write_json(path, {"kind": KIND, "version": VERSION, **dataclasses.asdict(self)})

    def check_classes(self, names: Sequence[str], option: str) -> None:
        """Refuse names that are no classes of the network.

        Parameters
        ----------
        names : as the user typed them.
        option : behind which option, for the message.

        Raises
        ------
        DataError
            If one is no class.
        """
        unknown = [name for name in names if name not in self.data.classes]
        if unknown:
            raise DataError(f"{option} {', '.join(unknown)} is no class of the model; it has {', '.join(self.data.classes)}")

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """The model's arguments by name."""
        return tuple(Argument().convert(text, None, None) for text in self.model_arguments)


def data_path(beside: str | os.PathLike[str]) -> pathlib.Path:
    """Return where it is stored.

    Parameters
    ----------
    beside : path of a file of the run.

    Examples
    --------
    >>> str(data_path("run/state.npz"))
    'run/state-data.json'
    """
    path = pathlib.Path(beside)
    return path.with_name(f"{path.stem}-data.json")


def absolute(model: str) -> str:
    """Return --model so that it can be found from any folder; a module's name stays as it is.

    Parameters
    ----------
    model : "FILE.py:function" or "package.module:function".
    """
    place, _, name = model.rpartition(":")
    return f"{os.path.abspath(place)}:{name}" if place.endswith(".py") or os.sep in place else model


def argument_texts(pairs: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """Return arguments of a model function as one would type them.

    Parameters
    ----------
    pairs : names and values, Python literals.

    Examples
    --------
    >>> argument_texts([("size", 48), ("kind", "small")])
    ('size=48', "kind='small'")
    """
    return tuple(f"{name}={value!r}" for name, value in pairs)


def load_stored(checkpoint: str | os.PathLike[str]) -> Stored:
    """Return what is stored beside a checkpoint of a network that was trained on volumes.

    Parameters
    ----------
    checkpoint : path of the checkpoint.

    Raises
    ------
    HeteroError
        If there is no such file, or it is damaged, or of another network than the checkpoint.
    """
    load_tensorflow()
    from hetero_mtf.training.checkpoint import load_state

    path, digest = data_path(checkpoint), load_state(checkpoint).digest
    if not path.exists():
        wrong = f"there is no {path} beside {checkpoint}, which says how scans were prepared for it"
        raise CheckpointError(f"{wrong}; name a checkpoint that was trained with --data nifti:TABLE, and keep both files together")
    document = read_json(path, kind=KIND, version=VERSION)
    faults: list[Fault] = []
    try:
        found = Stored(**read_fields(Stored, document, "", faults, frozenset({"kind", "version"})))
    except HeteroError as fault:
        raise CheckpointError(f"{path} cannot be used: {fault}") from fault
    if faults:
        raise CheckpointError(f"{path} has {listed(faults)}; train again, or take the file that was written with {checkpoint}")
    if found.network != digest:
        wrong = f"{path} is of a network with digest {found.network}, {checkpoint} of one with {digest}"
        raise CheckpointError(f"{wrong}; keep the two files of one training together")
    return found
