"""What is stored beside a trained network so that others scans can be shown to it alike: state-data.json beside state.npz."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.commands.process.run_files import beside
from hetero_mtf.data.volumes.volume_record import VolumeRecord
from hetero_mtf.errors import CheckpointError, DataError, HeteroError
from hetero_mtf.graph.description import DTYPES
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.json_records import Fault, listed, read_fields
from hetero_mtf.training.checkpoint import State, load_state
from hetero_mtf.units import value_text

KIND, VERSION, NAMED_MODEL = "data", 2, 1  # files of version 1 named the model by a function to call


@dataclasses.dataclass(frozen=True)
class Stored:
    """What a network was trained on, and how it was made.

    Parameters
    ----------
    network : digest of its LayerGraph.
    model : the function that made it, for people; it is never imported or called.
    model_arguments : "name=value", what it was called with, for people likewise.
    dtype : its float type.
    data : the volumes.
    structure : its Keras configuration, None where it could not be written as one, or an earlier version wrote the file.
    """

    network: str
    model: str
    model_arguments: tuple[str, ...]
    dtype: str
    data: VolumeRecord
    structure: Mapping[str, Any] | None = None

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
            raise DataError(f"{option} {', '.join(unknown)} is no class of the model", f"it has {', '.join(self.data.classes)}")

    @property
    def origin(self) -> str:
        """The function that made the network and what it was called with, for people."""
        return ", ".join([self.model, *self.model_arguments])


def origin_of(model: str) -> str:
    """Return --model as it is stored, for people: of a file its name without its folder, so that no path leaves this machine.

    Parameters
    ----------
    model : "FILE.py:function", "package.module:function" or "FILE.keras".

    Examples
    --------
    >>> origin_of("/home/a/nets/b.py:net"), origin_of("package.nets:net")
    ('b.py:net', 'package.nets:net')
    """
    place, _, name = model.rpartition(":")
    if not place:  # a file that Keras has saved
        return os.path.basename(model)
    return f"{os.path.basename(place)}:{name}"


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


def load_stored(checkpoint: str | os.PathLike[str], state: State | None = None) -> Stored:
    """Return what is stored beside a checkpoint of a network that was trained on volumes.

    Parameters
    ----------
    checkpoint : path of the checkpoint.
    state : the state in it; None reads it.

    Raises
    ------
    HeteroError
        If there is no such file, or it is damaged, or of another network than the checkpoint.
    """
    path, digest = beside(checkpoint, "data"), (load_state(checkpoint) if state is None else state).digest
    if not path.exists():
        wrong = f"there is no {path} beside {checkpoint}, which says how scans were prepared for it"
        raise CheckpointError(wrong, "name a checkpoint that was trained with --data nifti:TABLE, and keep both files together")
    document = read_json(path, kind=KIND, version=VERSION, earlier=(NAMED_MODEL,))
    there, wanted = "structure" in document, document["version"] == VERSION
    faults: list[Fault] = [] if there == wanted else [Fault("structure", "is missing" if wanted else "is not known")]
    try:
        fields = read_fields(Stored, document, "", faults, frozenset({"kind", "version", "structure"}))
        stored = Stored(**fields, structure=document.get("structure"))
    except HeteroError as fault:
        raise CheckpointError(f"{path} cannot be used: {fault.reason}", fault.remedy) from fault
    if faults:
        raise CheckpointError(f"{path} has {listed(faults)}", f"train again, or take the file that was written with {checkpoint}")
    if stored.dtype not in DTYPES:
        raise CheckpointError(f"{path} has the dtype {value_text(stored.dtype)}, must be one of {', '.join(DTYPES)}", "train again")
    if stored.network != digest:
        wrong = f"{path} is of a network with digest {stored.network}, {checkpoint} of one with {digest}"
        raise CheckpointError(wrong, "keep the two files of one training together")
    return stored
