"""FoldRecord: how far a training of all folds has come, so that the same command goes on where it was interrupted."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.data.volumes.folded import FoldedVolumes
from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.json_records import Fault, listed, read_fields
from hetero_mtf.units import list_text

KIND, VERSION = "folds", 1
_RESULTS = frozenset({"kind", "version", "results"})
# Options that do not change what is trained: where it is computed, what is written, and what is printed.
_INDIFFERENT = frozenset(
    "data cluster plan profile strategy budget refine refine_time batch_size save save_every resume output compare verbose measured "
    "keep_going keep log_dir config volumes model model_arguments".split()
)
_NAMED = 5  # settings in a message


@dataclasses.dataclass(frozen=True)
class FoldRecord:
    """How far a training of all folds has come.

    Parameters
    ----------
    folds : how many there are.
    settings : name -> what the training was asked for, as text; another run with the same ones computes the same.
    plan : the file of the plan that all folds are trained by, from the record's folder on, "" for none.
    plan_digest : of that plan.
    begun : the folds whose training has begun and not ended.
    finished : the folds that are trained, predicted and scored.
    """

    folds: int
    settings: dict[str, str]
    plan: str = ""
    plan_digest: str = ""
    begun: tuple[int, ...] = ()
    finished: tuple[int, ...] = ()

    def save(self, path: str | os.PathLike[str], results: Mapping[str, Any] | None = None) -> None:
        """Write it to a JSON file.

        Parameters
        ----------
        path : file to write or replace.
        results : the scores of all folds, once all are finished.

        Raises
        ------
        HeteroError
            If it cannot be written.
        """
        document = {"kind": KIND, "version": VERSION, **dataclasses.asdict(self)}
        write_json(path, document if results is None else {**document, "results": results})

    def begin(self, fold: int) -> FoldRecord:
        """Return the record once the training of a fold has begun.

        Parameters
        ----------
        fold : its number, from 1.
        """
        begun = tuple(sorted({*self.begun, fold}))
        return dataclasses.replace(self, begun=begun, finished=tuple(other for other in self.finished if other != fold))

    def finish(self, fold: int) -> FoldRecord:
        """Return the record once a fold is finished.

        Parameters
        ----------
        fold : its number, from 1.
        """
        finished = tuple(sorted({*self.finished, fold}))
        return dataclasses.replace(self, begun=tuple(other for other in self.begun if other != fold), finished=finished)

    def check(self, settings: Mapping[str, str], path: str | os.PathLike[str]) -> None:
        """Refuse to go on with other settings.

        Parameters
        ----------
        settings : those of this run.
        path : the file of the record, for the message.

        Raises
        ------
        DataError
            If they differ.
        """
        names = sorted({*self.settings, *settings})
        pairs = [(name, self.settings.get(name, "not set"), settings.get(name, "not set")) for name in names]
        differences = [f"{name} was {was} and is {now}" for name, was, now in pairs if was != now]
        if differences:
            wrong = f"{path} is of a training of all folds with other settings: {list_text(differences, _NAMED, '; ')}"
            raise DataError(
                wrong, f"give those to go on with it, name other files with --save or --output, or remove {path} to begin again"
            )


def load_record(path: str | os.PathLike[str]) -> FoldRecord | None:
    """Return the record in a file, None where there is none.

    Parameters
    ----------
    path : the file.

    Raises
    ------
    DataError
        If it is damaged, or another file.
    """
    if not pathlib.Path(path).exists():
        return None
    try:
        document = read_json(path, kind=KIND, version=VERSION)
    except HeteroError as fault:
        raise DataError(fault.reason, "remove it to train all folds again") from fault
    faults = list[Fault]()
    fields = read_fields(FoldRecord, document, "", faults, _RESULTS)
    if faults:
        raise DataError(f"{path} has {listed(faults)}", "remove it to train all folds again")
    return FoldRecord(**fields)


def settings_of(request: TrainRequest, workload: Workload, batch_size: int) -> dict[str, str]:
    """Return all that the result of a training of all folds follows from, as texts.

    Options that are not known here count too, so that none that changes a result is forgotten.

    Parameters
    ----------
    request : the options of the command.
    workload : the network with its first weights, and the folds.
    batch_size : samples/step.
    """
    data = workload.data
    assert isinstance(data, FoldedVolumes) and workload.stored is not None
    record = data.record
    options = {field.name: getattr(request, field.name) for field in dataclasses.fields(request) if field.name not in _INDIFFERENT}
    options["callbacks"] = dataclasses.replace(request.callbacks, keep=None, log_dir=None)  # which only write
    settings = {name.replace("_", " "): _text(value) for name, value in options.items()}
    settings |= {"network": workload.graph.digest, "first weights": _digest(*(_bytes(weight) for weight in workload.model.get_weights()))}
    settings |= {name: str(value) for name, value in {**record.preprocessing.to_json(), **record.augmentation.to_json()}.items()}
    settings |= {"label column": record.label, "classes": ", ".join(record.classes), "batch size": str(batch_size)}
    settings["class weights"] = _text(data.weights)
    settings["scans"] = _digest(*(repr((s.participant, s.session, s.label, s.content)).encode() for s in data.participants.scans))
    settings["folds"] = f"{len(data.splits)} ({_digest(*(repr(split.parts).encode() for split in data.splits))})"
    return settings


def _text(value: Any) -> str:
    return "not set" if value is None or value == () else str(value)


def _bytes(weight: Any) -> bytes:
    return np.ascontiguousarray(weight).tobytes()


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:12]
