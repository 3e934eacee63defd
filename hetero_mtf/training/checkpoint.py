"""Checkpoints: whole tensors and counters in one file, loadable under any plan for the same network.

The file is a NumPy archive with one array a variable and slot, and a JSON document named `meta`, which holds a checksum over all of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from hetero_mtf.errors import CheckpointError, HeteroError
from hetero_mtf.file_kind import CHECKPOINT, file_kind, in_place_of
from hetero_mtf.graph.records import LayerGraph, Variable
from hetero_mtf.graph.variable_keys import slot_key, variable_key
from hetero_mtf.json_file import replace_file
from hetero_mtf.keras_reading.keras_call import weights_of
from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.program.loss_scale import LossScale
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.training.array_archive import DAMAGED, read_archive, write_archive
from hetero_mtf.training.finite import is_finite
from hetero_mtf.units import value_text

VERSION, WITHOUT_CHECKSUM = 2, 1  # the latter is still read
STEPS_UP_TO = 2**31 - 1  # the graph counts them in int32
NAME_UP_TO = 100  # characters
COUNTS_UP_TO = 2**53  # epochs, batches and samples of a position
_REMEDY = "take an earlier one or train again from the start"


@dataclasses.dataclass(frozen=True)
class State:
    """Weights, slots and counters of training, apart from any graph or plan.

    Parameters
    ----------
    digest : digest of the LayerGraph it belongs to.
    optimizer : name of the optimizer of the slots.
    values : variable or slot key -> whole array.
    step : steps taken.
    seed : seed of shuffling and dropout.
    position : position of the batch source, None between calls of `fit`.
    loss_scale : state of the loss scale, None where losses are not scaled.
    notes : what else is stored with it, a JSON object.
    plans : the plans so far; None in files of earlier versions.
    """

    digest: str
    optimizer: str
    values: Mapping[str, np.ndarray]
    step: int
    seed: int
    position: Mapping[str, Any] | None = None
    loss_scale: LossScale | None = None
    notes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    plans: PlanHistory | None = None


def save_state(path: str | os.PathLike[str], state: State) -> None:
    """Write `state` to `path` in one piece.

    Raises
    ------
    CheckpointError
        If the folder is missing or not writable, or the disk is full; an older file stays as it was.
    """
    meta: dict[str, Any] = {
        "kind": "checkpoint",
        "version": VERSION,
        "digest": state.digest,
        "optimizer": state.optimizer,
        "step": state.step,
        "seed": state.seed,
        "position": state.position,
        "finite": is_finite(state.values),
        **({"loss_scale": dataclasses.asdict(state.loss_scale)} if state.loss_scale is not None else {}),
        **({"notes": dict(state.notes)} if state.notes else {}),
        **({"plans": state.plans.to_json()} if state.plans is not None else {}),
    }
    values = {name: _storable(np.asarray(value)) for name, value in state.values.items()}
    meta = json.loads(json.dumps(meta))  # as it will be read
    try:
        with replace_file(path) as file:
            write_archive(file, {**meta, "checksum": checksum(meta, values)}, values)
    except HeteroError as fault:
        raise CheckpointError(str(fault)) from fault


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise if a state is to have the name of a Keras file.

    Parameters
    ----------
    path : path of the file to write.

    Raises
    ------
    CheckpointError
        If it is; the call that writes such a file is named.
    """
    name = os.fspath(path)
    if name.endswith((".keras", ".h5")):
        exported = name if name.endswith((".keras", ".weights.h5")) else f"{name.removesuffix('.h5')}.keras"
        wrong = f"{path} has the name of a Keras file, and a trainer's state is none"
        raise CheckpointError(wrong, f"call trainer.export({exported!r}), or save the state as state.npz")


def load_state(path: str | os.PathLike[str]) -> State:
    """Return the state in a file written by `save_state`.

    Raises
    ------
    CheckpointError
        If the file is missing, truncated, or not a checkpoint of this version or the one before, or its checksum does not fit.
    """
    source = pathlib.Path(path)
    try:
        meta, arrays = read_archive(source)
        version = meta.get("version") if isinstance(meta, dict) and meta.get("kind") == "checkpoint" else None
        if version not in (VERSION, WITHOUT_CHECKSUM) or isinstance(version, bool):
            raise CheckpointError(f"{source} is not a checkpoint of version {VERSION}", "save it again with this program")
        if version == VERSION and meta.pop("checksum") != checksum(meta, arrays):
            raise CheckpointError(f"{source} is not a complete checkpoint (its checksum does not fit)", _REMEDY)
        faults = _meta_faults(meta)
        if faults:
            raise CheckpointError(f"{source} is not a complete checkpoint ({'; '.join(faults)})", _REMEDY)
        scale = LossScale(**meta["loss_scale"]) if "loss_scale" in meta else None
        counters = meta["step"], meta["seed"], meta["position"]
        plans = _plans(meta["plans"], source) if "plans" in meta else None
        return State(meta["digest"], meta["optimizer"], arrays, *counters, scale, meta.get("notes", {}), plans)
    except CheckpointError:
        raise
    except OSError as fault:
        raise CheckpointError(f"cannot read checkpoint {source}: {fault.strerror or fault}", "check the path") from fault
    except DAMAGED as fault:
        if file_kind(source) not in ("", CHECKPOINT):
            raise CheckpointError(
                f"{in_place_of(source, 'a complete checkpoint')}", "give a file that hetero-mtf train --save wrote"
            ) from fault
        said = value_text(" ".join(str(fault).split())) if str(fault) else ""
        raise CheckpointError(f"{source} is not a complete checkpoint ({type(fault).__name__} {said})", _REMEDY) from fault


def _storable(value: np.ndarray) -> np.ndarray:
    """Return an array that NumPy's files can hold: bfloat16, which is no type of NumPy's own, as float32, exactly."""
    return value.astype(np.float32) if value.dtype.name == "bfloat16" else value


def checksum(meta: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 digest of the content of a state file, in hexadecimal digits.

    Parameters
    ----------
    meta : the JSON document, without its checksum.
    values : the arrays; names, dtypes, shapes and elements count, in no order.
    """
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(values):
        value = values[name]
        digest.update(f"\0{name}\0{value.dtype.str}\0{value.shape}\0".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _meta_faults(meta: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the document of a checkpoint."""
    faults = [f"{name} is {value_text(meta[name])}, not a text" for name in ("digest", "optimizer") if not isinstance(meta[name], str)]
    if not faults and not (meta["optimizer"].isidentifier() and len(meta["optimizer"]) <= NAME_UP_TO):
        faults.append(f"optimizer is {value_text(meta['optimizer'])}, not the name of one")
    position = meta["position"]
    if not isinstance(position, dict | None):
        faults.append(f"position is {value_text(position)}, not an object")
    if not isinstance(meta.get("notes", {}), dict):
        faults.append(f"notes is {value_text(meta['notes'])}, not an object")
    counts = {"step": (meta["step"], STEPS_UP_TO), "seed": (meta["seed"], math.inf)}
    if isinstance(position, dict):
        counts |= {name: (position[name], COUNTS_UP_TO) for name in ("epoch", "batch", "sample") if name in position}
    for name, (value, most) in counts.items():
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            faults.append(f"{name} is {value_text(value)}, not a whole number from 0" + (f" to {most}" if most < math.inf else ""))
    if "loss_scale" in meta:
        faults += _loss_scale_faults(meta["loss_scale"])
    return faults


def _plans(spans: Any, source: pathlib.Path) -> PlanHistory:
    """Return the plans in the document of a checkpoint."""
    try:
        return PlanHistory.from_json(spans if isinstance(spans, list) else [spans])
    except HeteroError as fault:
        raise CheckpointError(f"{source} is not a complete checkpoint (plans: {fault.reason})", _REMEDY) from fault


def _loss_scale_faults(scale: Any) -> list[str]:
    names = [field.name for field in dataclasses.fields(LossScale)]
    if not isinstance(scale, dict) or sorted(scale) != sorted(names):
        return [f"loss_scale is {value_text(scale)}, not an object of {', '.join(names)}"]
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf for value in scale.values())
    if not numbers or not scale["scale"] or not all(isinstance(scale[name], int) for name in names[1:]):
        return [f"loss_scale is {value_text(scale)}, not a scale above 0 and two counts"]
    return []


def check_state(path: str | os.PathLike[str], state: State, graph: LayerGraph, optimizer: str) -> None:
    """Raise unless a state is of a network and an optimizer, with a value of the right shape for each weight and slot.

    Parameters
    ----------
    path : its file, for messages.
    graph : the network.
    optimizer : name of the optimizer.

    Raises
    ------
    CheckpointError
        If it is not.
    """
    if state.digest != graph.digest:
        raise CheckpointError(
            f"{path} is of a network with digest {state.digest}, this model has {graph.digest}", "build the model it was made with"
        )
    if state.optimizer != optimizer:
        raise CheckpointError(f"{path} was made with {state.optimizer}, this trainer has {optimizer}", "use the same optimizer")
    check_values(path, state, graph)


def check_values(path: str | os.PathLike[str], state: State, graph: LayerGraph) -> None:
    """Raise unless a state holds every variable of a network, and nothing else but slots of them.

    Parameters
    ----------
    path : path of the file, for the message.

    Raises
    ------
    CheckpointError
        If an array is missing, of another shape, or of no known variable.
    """
    faults = value_faults(state, graph)
    if faults:
        raise CheckpointError(f"{path} is not a complete checkpoint ({'; '.join(faults[:5])})", _REMEDY)


def value_faults(state: State, graph: LayerGraph) -> list[str]:
    """Return every way in which a state's arrays are not the variables of a network and slots of them."""
    shapes = {key: v.shape for key, v in _variables(graph).items()}
    faults = [f"{key} is missing" for key in shapes if key not in state.values]
    for key, value in state.values.items():
        expected = shapes.get("/".join(key.split("/")[:2]))
        if expected is None:
            faults.append(f"{key} is unknown")
        elif value.shape not in _shapes(key, expected) or value.dtype.kind != "f":
            faults.append(f"{key} is {value.dtype} {value.shape}, expected {graph.dtype} {expected}")
    return faults


def _shapes(key: str, expected: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes that a variable, or a slot of it, may have: some optimizers keep statistics of rows and columns, or numbers."""
    is_slot = key.count("/") > 1
    return (expected, (), expected[:-1], (*expected[:-2], *expected[-1:])) if is_slot else (expected,)


def fitting_values(path: str | os.PathLike[str], state: State, graph: LayerGraph, rule: UpdateRule) -> dict[str, np.ndarray]:
    """Return a state's values without the slots that an optimizer does not keep.

    Parameters
    ----------
    path : path of the file, for the message.
    state : a state that `check_values` accepts.
    rule : the optimizer's update rule.

    Raises
    ------
    CheckpointError
        If steps were taken without one of these slots: starting it at zero now would give other results.
    """
    keys = _variables(graph)
    trained = {key: _live(graph, key) for key, variable in keys.items() if variable.trainable}
    wanted = {slot_key(key, slot): slot for key, live in trained.items() for slot in rule.slots_of(live)}
    lacking = sorted({slot for key, slot in wanted.items() if key not in state.values})
    if state.step and lacking:
        without = f"{state.step} steps of {state.optimizer} without {', '.join(lacking)}"
        raise CheckpointError(f"{path} was made by {without}", "give the optimizer the options it was made with")
    for key, slot in wanted.items():
        expected = rule.slot_shape(slot, keys["/".join(key.split("/")[:2])].shape)
        if key in state.values and state.values[key].shape != expected:
            raise CheckpointError(
                f"{path} is not a complete checkpoint ({key} is {state.values[key].shape}, expected {expected})", _REMEDY
            )
    return {key: value for key, value in state.values.items() if key in keys or key in wanted}


def _live(graph: LayerGraph, key: str) -> Any:
    """Return a variable in the user's model, None where the model is not in memory."""
    index, name = key.split("/")
    layer = graph.layers[int(index)]
    return None if layer.live is None else weights_of(layer)[name]


def _variables(graph: LayerGraph) -> dict[str, Variable]:
    """Return the variables by key, those of a layer that is called more than once under its first call."""
    owners = [(index, layer) for index, layer in enumerate(graph.layers) if layer.shared_with is None]
    return {variable_key(index, variable.name): variable for index, layer in owners for variable in layer.variables}
