"""Reuse: what of an earlier profile still holds, and a look at whether it really does."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence

from hetero_mtf.calibration.points import Point
from hetero_mtf.calibration.windows import Measurement
from hetero_mtf.devices import ClusterRecord, Device, Link
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import Profile, structures
from hetero_mtf.planning.profile.validity import PROGRAMS, STALE_DAYS, days_old, same_device

# A device whose points take so much more or less than they took is measured again.
DEVIATION = 0.15
# It is looked at so often before: a disturbance passes.
LOOKS = 2


@dataclasses.dataclass(frozen=True)
class MeasurementTarget:
    """What is to be measured.

    Parameters
    ----------
    record : the devices.
    graph : the network.
    batch : samples of the whole batch.
    optimizer : name of the optimizer.
    versions : version of each program.
    """

    record: ClusterRecord
    graph: LayerGraph
    batch: int
    optimizer: str
    versions: Mapping[str, str]


def kept_curves(
    earlier: Profile | None, subject: MeasurementTarget, device: int, wanted: Sequence[Point], now: datetime.datetime
) -> list[Curve]:
    """Return the curves of an earlier profile that hold for a device, with the indices that they have now.

    A layer's curves hold if it was measured, in all dimensions that are wanted, at the same structure, dtype, batch size and
    optimizer, on a device of the same name, kind, model, share and place, with the same programs, and not too long ago.

    Parameters
    ----------
    earlier : Profile or None.
    subject : what is to be measured.
    device : index of the device.
    wanted : points that would be measured.
    now : the time, with its zone.
    """
    if earlier is None or not _comparable(earlier, subject, now):
        return []
    there = _place(earlier.cluster, subject.record.devices[device])
    before = {structure: index for index, structure in reversed(list(enumerate(structures(earlier.graph))))}
    now_structures = structures(subject.graph)
    dimensions: dict[int, set[str]] = {}
    for point in wanted:
        dimensions.setdefault(point.layer, set()).add(point.dimension)
    found: list[Curve] = []
    for layer, needed in dimensions.items():
        was = before.get(now_structures[layer])
        curves = [c for c in earlier.curves if (c.layer, c.batch) == (was, subject.batch) and c.device in there]
        if needed <= {curve.dimension for curve in curves}:
            found += [dataclasses.replace(curve, layer=layer, device=device) for curve in curves]
    return found


def kept_link(earlier: Profile | None, record: ClusterRecord, first: int, second: int) -> tuple[Link, Link] | None:
    """Return the links of an earlier profile between two devices, both ways; None if it has none.

    Parameters
    ----------
    earlier : Profile or None; one whose curves of both devices hold.
    record : the devices.
    first, second : their indices.
    """
    if earlier is None:
        return None
    ends = [_place(earlier.cluster, record.devices[index]) for index in (first, second)]
    there = [link for link in earlier.links if link.source in ends[0] and link.destination in ends[1]]
    back = [link for link in earlier.links if link.source in ends[1] and link.destination in ends[0]]
    if not there or not back:
        return None
    return dataclasses.replace(there[0], source=first, destination=second), dataclasses.replace(back[0], source=second, destination=first)


def deviation(curves: Sequence[Curve], wanted: Sequence[Point], measure: Callable[[Point], Mapping[str, Measurement]]) -> float:
    """Return by which part the worst of two points, the longest and the shortest whole layer, deviates from its kept curves beyond noise.

    Parameters
    ----------
    curves : kept curves of one device.
    wanted : points of the network.
    measure : point -> what it takes now, by pass.

    Notes
    -----
    Two spreads, of then and of now, are granted: what they explain is no deviation.
    """
    whole = {(curve.layer, curve.step_pass): (curve.seconds[-1], curve.spread[-1]) for curve in curves}
    points = {point.layer: point for point in wanted if point.full and (point.layer, "forward") in whole}
    if not points:
        return 0.0

    def before(point: Point) -> tuple[float, float]:
        both = [whole[point.layer, name] for name in ("forward", "backward") if (point.layer, name) in whole]
        return sum(seconds for seconds, _ in both), max(spread for _, spread in both)

    order = sorted(points.values(), key=before)
    worst = 0.0
    for point in {order[-1].layer: order[-1], order[0].layer: order[0]}.values():
        (seconds, spread), found = before(point), measure(point)
        present = sum(found[name].seconds for name in ("forward", "backward"))
        granted = spread + max(found[name].spread for name in ("forward", "backward"))
        worst = max(worst, abs(present - seconds) / max(seconds, 1e-12) - granted)
    return worst


def _comparable(earlier: Profile, subject: MeasurementTarget, now: datetime.datetime) -> bool:
    same = all(earlier.versions.get(name) == subject.versions.get(name) for name in PROGRAMS)
    young = days_old(earlier, now) <= STALE_DAYS
    return same and young and (earlier.batch_size, earlier.optimizer) == (subject.batch, subject.optimizer)


def _place(cluster: ClusterRecord, device: Device) -> list[int]:
    """Return the indices of the processors of a cluster that are this device."""
    return [index for index, other in enumerate(cluster.devices) if same_device(other, device)]
