"""Bytes a stage needs on each device: an estimate from shapes."""

from __future__ import annotations

import math
import re

from hetero_mtf.graph.records import Layer
from hetero_mtf.planning.layout import channels, split_units
from hetero_mtf.planning.profile import Profile
from hetero_mtf.planning.records import LayerLayout, Stage
from hetero_mtf.units import bytes_text

_SLOTS = {"adam": 2, "adamw": 2, "sgd": 1}


def stage_memory_bytes(profile: Profile, stage: Stage) -> tuple[int, ...]:
    """Return the bytes each processor of a stage holds at most in one step.

    Per layer: its variables, once as weights, once as gradients and once for each optimizer slot; its output and the gradient
    of it. A layer that splits the batch has all its variables on every device, and outputs by samples. A copy that gathers or
    slices an input is not counted.

    Parameters
    ----------
    profile : Profile; its graph, batch size and optimizer count.
    stage : Stage.

    Notes
    -----
    An estimate: TensorFlow's own scratch memory is not in it, and every activation is taken to live until the end. SGD is
    taken to have momentum. O(layers * devices).
    """
    counts = channels(profile.graph)
    copies = 2 + _SLOTS.get(optimizer_name(profile.optimizer), 2)
    item_bytes = profile.graph.item_bytes
    held = [0.0] * len(stage.devices)
    for entry in stage.layouts:
        layer = profile.graph.layers[entry.layer]
        units = split_units(profile.graph, entry.layer, entry.layout, counts) if entry.sizes else 1
        weights = copies * sum(variable.size for variable in layer.variables) if layer.shared_with is None else 0
        outputs = 2 * profile.batch_size * math.prod(layer.output_shape)
        places, rows = stage.places(entry.axis), stage.places(entry.batch_axis)
        for at in range(len(held)):
            part = entry.sizes[places[at]] / units if entry.sizes else 1.0
            samples = entry.samples[rows[at]] / sum(entry.samples) if entry.samples else 1.0
            held[at] += item_bytes * (part * weights + samples * _output_part(entry, layer, part) * outputs)
    return tuple(math.ceil(held_bytes) for held_bytes in held)


def lack_of_memory(profile: Profile, stage: Stage) -> str:
    """Return "" if a stage fits in the free memory of every pool, else what it lacks.

    Parameters
    ----------
    profile : Profile with its memory pools.
    stage : Stage.
    """
    needed: dict[str, int] = {}
    for device, held_bytes in zip(stage.devices, stage_memory_bytes(profile, stage)):
        pool = profile.cluster.devices[device].pool
        needed[pool] = needed.get(pool, 0) + held_bytes
    for free in profile.memory:
        if needed.get(free.name, 0) > free.free_bytes:
            return f"needs {bytes_text(needed[free.name])} of memory {free.name}, which has {bytes_text(free.free_bytes)} free"
    return ""


def optimizer_name(optimizer: object) -> str:
    """Return the name of an optimizer in lower case, without its settings.

    Parameters
    ----------
    optimizer : a name such as "SGD" or "sgd(momentum=0.9)", or a Keras optimizer.

    Examples
    --------
    >>> optimizer_name("SGD(momentum=0.9)")
    'sgd'
    """
    text = optimizer if isinstance(optimizer, str) else type(optimizer).__name__
    found = re.match(r"\s*(\w+)", text)
    return found.group(1).lower() if found else ""


def _output_part(entry: LayerLayout, layer: Layer, part: float) -> float:
    if not layer.inputs:
        return 0.5  # the batch itself has no gradient
    return 1.0 if entry.layout == "row" else part
