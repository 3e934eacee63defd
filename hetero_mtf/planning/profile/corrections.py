"""Corrections: what the steps of a cluster took beside what its profile predicts, kept apart from the measured curves and links."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from hetero_mtf.json_records import Fault
from hetero_mtf.planning.profile.curve import ALONE, PASSES

SPLITS = ("whole", "units", "samples", "positions", ALONE)
"""How a layer is split: not at all, by channels, samples or positions of space; or not at all while other devices of the host rest."""


@dataclasses.dataclass(frozen=True)
class LayerFactor:
    """How many times as long a pass of a layer takes in a step as its curve says.

    Parameters
    ----------
    layer : index of the first layer of its kind in the LayerGraph.
    device : index of the device in the cluster.
    split : one of `SPLITS`.
    step_pass : "forward", "backward" or "update".
    factor : above zero.
    """

    layer: int
    device: int
    split: str
    step_pass: str
    factor: float


@dataclasses.dataclass(frozen=True)
class MeasuredStep:
    """A step that was run beside its prediction.

    Parameters
    ----------
    strategy : strategy of its plan.
    digest : digest of the network.
    predicted_s : seconds that were predicted before it was run.
    measured_s : median seconds.
    spread : inter-quartile range relative to the median.
    measured_at : ISO date.
    """

    strategy: str
    digest: str
    predicted_s: float
    measured_s: float
    spread: float
    measured_at: str


@dataclasses.dataclass(frozen=True)
class Corrections:
    """Factors by which predictions are multiplied, and the steps that they were estimated from.

    Parameters
    ----------
    layers : factors of layers; a layer without one has 1.
    links : factor of the seconds of all links.
    launch : factor of the launch overhead.
    steps : the steps that were run, in their order.
    corrected_at : ISO date of the last of them; empty without corrections.
    plan : strategy and digest of the plans that were run, as text.
    """

    layers: tuple[LayerFactor, ...] = ()
    links: float = 1.0
    launch: float = 1.0
    steps: tuple[MeasuredStep, ...] = ()
    corrected_at: str = ""
    plan: str = ""


def correction_faults(corrections: Corrections, layers: int | None, devices: int | None) -> list[Fault]:
    """Return what is wrong with corrections.

    Parameters
    ----------
    layers, devices : how many there are; None if not known.
    """
    return [Fault(f"corrections.{path}", text) for wrong, path, text in _entries(corrections, layers, devices) if wrong]


def _entries(corrections: Corrections, layers: int | None, devices: int | None) -> Iterator[tuple[bool, str, str]]:
    for name in ("links", "launch"):
        yield from _positive(getattr(corrections, name), name)
    for index, entry in enumerate(corrections.layers):
        path = f"layers[{index}]"
        for name, count in (("layer", layers), ("device", devices)):
            at = getattr(entry, name)
            yield at < 0 or (count is not None and at >= count), f"{path}.{name}", f"is {at}, there are {count}"
        yield entry.split not in SPLITS, f"{path}.split", f"is {entry.split!r}, must be one of {', '.join(SPLITS)}"
        yield entry.step_pass not in PASSES, f"{path}.step_pass", f"is {entry.step_pass!r}, must be one of {', '.join(PASSES)}"
        yield from _positive(entry.factor, f"{path}.factor")
    for index, step in enumerate(corrections.steps):
        for name in ("predicted_s", "measured_s"):
            yield from _positive(getattr(step, name), f"steps[{index}].{name}")
        yield not 0 <= step.spread < math.inf, f"steps[{index}].spread", f"is {step.spread:g}, must be zero or more"


def _positive(value: float, path: str) -> Iterator[tuple[bool, str, str]]:
    yield not 0 < value < math.inf, path, f"is {value:g}, must be above zero"
