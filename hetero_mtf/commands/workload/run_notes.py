"""What a state of a training holds beside its weights for later commands: loss, metrics, precision and validation samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from hetero_mtf.commands.options.loss_options import Identified, ObjectiveChoice
from hetero_mtf.commands.options.model import PRECISIONS
from hetero_mtf.commands.workload.plain_configuration import ForeignObject, plain_configuration
from hetero_mtf.errors import CheckpointError
from hetero_mtf.units import value_text


@dataclasses.dataclass(frozen=True)
class RunNotes:
    """What is stored with a state; None or empty for what was not chosen.

    Parameters
    ----------
    loss, metrics : as in `ObjectiveChoice`.
    precision : the dtype policy that the model was made in.
    validation_split : part of the training samples that was validated on.
    watched : metric -> [its best value, epochs since it, the best epoch from 0], of the epochs so far.
    """

    loss: Identified | None = None
    metrics: tuple[Identified, ...] = ()
    precision: str | None = None
    validation_split: float | None = None
    watched: Mapping[str, tuple[float, int, int]] = dataclasses.field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return a JSON object, without what was not chosen."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, (), {})}

    def choice(self, path: str) -> ObjectiveChoice:
        """Return the loss and the metrics as a choice that names its file.

        Parameters
        ----------
        path : path of the state.
        """
        return ObjectiveChoice(self.loss, self.metrics, f"as {path} was trained with", f"as {path} was trained with")


def read_notes(notes: Mapping[str, Any], path: str) -> RunNotes:
    """Return what is stored with a state, checked.

    Parameters
    ----------
    notes : `State.notes`.
    path : path of the state, for messages.

    Raises
    ------
    CheckpointError
        If something in it is not what `RunNotes.document` gives.
    """
    faults: list[str] = []

    def identified(value: Any, what: str) -> Any:
        if value is None or (isinstance(value, str) and len(value) <= 200):
            return value
        room, base = (keras.losses, keras.losses.Loss) if what == "loss" else (keras.metrics, keras.metrics.Metric)
        try:
            return plain_configuration(value, room, base)
        except ForeignObject as fault:
            faults.append(f"{what}: {fault.reason}")
            return None

    metrics = notes.get("metrics", [])
    split, precision, watched = notes.get("validation_split"), notes.get("precision"), notes.get("watched", {})
    if not isinstance(metrics, list):
        faults.append(f"metrics is {value_text(metrics)}, not a list")
        metrics = []
    if split is not None and not (isinstance(split, float) and 0 < split < 1):
        faults.append(f"validation_split is {value_text(split)}, not a part between 0 and 1")
    if precision is not None and precision not in PRECISIONS:
        faults.append(f"precision is {value_text(precision)}, not one of {', '.join(PRECISIONS)}")
    if not isinstance(watched, dict) or not all(_is_watched(value) for value in watched.values()):
        faults.append(f"watched is {value_text(watched)}, not metrics with a best value, a wait and an epoch each")
    loss, chosen = identified(notes.get("loss"), "loss"), tuple(identified(value, "metrics") for value in metrics)
    if faults:
        raise CheckpointError(f"{path} is not a complete checkpoint ({'; '.join(faults)})", "take an earlier one or train again")
    return RunNotes(loss, chosen, precision, split, {name: tuple(value) for name, value in watched.items()})


def _is_watched(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 3 or any(isinstance(entry, bool) for entry in value):
        return False
    return isinstance(value[0], (int, float)) and all(isinstance(entry, int) and entry >= 0 for entry in value[1:])
