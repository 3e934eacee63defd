"""A curve: measured seconds of one kind of layer as a function of its local units."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.optimize import isotonic_regression

from hetero_mtf.json_records import Fault

ALONE = "alone"
DIMENSIONS = ("output", "input", "whole", "batch", "space", ALONE)
PASSES = ("forward", "backward", "update")


@dataclasses.dataclass(frozen=True)
class Curve:
    """Measured seconds of one pass of one kind of layer on one device.

    Parameters
    ----------
    layer : index of the first layer of this kind in the LayerGraph.
    device : index of the device in the cluster.
    dimension : what the units are: "output" channels, "input" channels, "whole" for an unsplit layer, "batch" for
        samples of all channels, "space" for positions of the output along the dimension that is cut into slabs, or "alone" for an
        unsplit layer measured while the other devices of the host were idle. Over samples batch norm is measured as it runs over a split
        batch, with all samples too.
    step_pass : "forward", "backward" or "update".
    batch : samples of the batch it was measured with; of the full batch where the units are samples.
    units : (points,) local units, increasing.
    seconds : (points,) median seconds of one pass.
    spread : (points,) inter-quartile range relative to the median.
    """

    layer: int
    device: int
    dimension: str
    step_pass: str
    batch: int
    units: tuple[int, ...]
    seconds: tuple[float, ...]
    spread: tuple[float, ...]


def interpolated(curve: Curve, units: Sequence[float]) -> list[float]:
    """Return the seconds of a curve at some units, by the rule of `Profile.seconds`.

    Parameters
    ----------
    units : (queries,) local units, zero or more.

    Examples
    --------
    >>> curve = Curve(1, 0, "output", "forward", 8, (10, 20), (1.0, 2.0), (0.0, 0.0))
    >>> interpolated(curve, [0, 5, 15, 30])
    [0.0, 0.5, 1.5, 3.0]
    """
    at, seconds = np.asarray(curve.units, float), isotonic_regression(curve.seconds).x
    if at[0] == 0:  # measured without units: it starts the first piece, although zero units take no time
        at, seconds = (at[1:], seconds[1:]) if len(at) > 1 else (np.ones(1), seconds)
    asked = np.asarray(units, float)
    low, high = _slopes(at, seconds)
    below = np.maximum(seconds[0] + low * (asked - at[0]), seconds[0] * asked / at[0])
    above = seconds[-1] + high * (asked - at[-1])
    inside = np.interp(asked, at, seconds)
    seconds_at = np.where(asked < at[0], below, np.where(asked > at[-1], above, inside))
    return [float(value) for value in np.where(asked <= 0, 0.0, seconds_at)]


def curve_faults(curve: Curve, path: str, layers: int | None, devices: int | None) -> list[Fault]:
    """Return what is wrong with a curve.

    Parameters
    ----------
    path : its path, for faults.
    layers, devices : how many there are; None if not known.
    """
    return [Fault(f"{path}.{name}", text) for wrong, name, text in _entries(curve, layers, devices) if wrong]


def _slopes(at: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    if len(at) == 1:
        slope = float(seconds[0] / at[0])
        return slope, slope
    slopes = np.diff(seconds) / np.diff(at)
    return float(slopes[0]), float(slopes[-1])


def _entries(curve: Curve, layers: int | None, devices: int | None) -> Iterator[tuple[bool, str, str]]:
    yield _outside(curve.layer, layers), "layer", f"is {curve.layer}, there are {layers} layers"
    yield _outside(curve.device, devices), "device", f"is {curve.device}, there are {devices} devices"
    yield curve.dimension not in DIMENSIONS, "dimension", f"is {curve.dimension!r}, must be one of {', '.join(DIMENSIONS)}"
    yield curve.step_pass not in PASSES, "step_pass", f"is {curve.step_pass!r}, must be one of {', '.join(PASSES)}"
    yield curve.batch < 1, "batch", f"is {curve.batch}, must be at least 1"
    rising = all(a < b for a, b in zip(curve.units, curve.units[1:]))
    yield not curve.units or not rising or curve.units[0] < 0, "units", f"are {list(curve.units)}, must be zero or more and increase"
    beyond = curve.dimension == "batch" and bool(curve.units) and curve.units[-1] > curve.batch
    yield beyond, "units", f"are {list(curve.units)} samples, the batch has {curve.batch}"
    for name in ("seconds", "spread"):
        values = getattr(curve, name)
        yield len(values) != len(curve.units), name, f"are {len(values)}, there are {len(curve.units)} units"
        bad = [value for value in values if not 0 <= value < math.inf]
        yield bool(bad), name, f"hold {bad[0] if bad else 0:g}, must be finite and zero or more"


def _outside(index: int, count: int | None) -> bool:
    return index < 0 or (count is not None and index >= count)
