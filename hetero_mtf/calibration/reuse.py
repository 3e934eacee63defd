"""Reuse: the curves and links of an earlier profile that still hold, and a check of them by two new measurements."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Collection, Mapping, Sequence

from hetero_mtf.calibration.points import LAYER_PASSES, Point
from hetero_mtf.calibration.sampling import both_passes
from hetero_mtf.calibration.windows import Measurement, together
from hetero_mtf.devices import ClusterRecord, Device, Link
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile, structures
from hetero_mtf.planning.profile.validity import PROGRAMS, STALE_DAYS, days_old, same_device

# A device whose points deviate by more than this part from their earlier seconds is measured again.
DEVIATION = 0.15
LINK_DEVIATION = 1.5  # times as long or as short as it took; transfers between limited cores scatter
# So many checks must deviate before that: a disturbance passes.
CHECKS = 2


@dataclasses.dataclass(frozen=True)
class MeasurementTarget:
    """What is to be measured.

    Parameters
    ----------
    record, graph : the cluster and the network.
    batch : samples of the whole batch.
    optimizer : the optimizer whose updates are measured.
    versions : version of each program.
    """

    record: ClusterRecord
    graph: LayerGraph
    batch: int
    optimizer: OptimizerSpec
    versions: Mapping[str, str]


def kept_curves(
    earlier: Profile | None, target: MeasurementTarget, device: int, wanted: Sequence[Point], now: datetime.datetime
) -> list[Curve]:
    """Return the curves of an earlier profile that hold for a device, with the indices that they have now.

    A layer's curves hold if it was measured, in all dimensions that are wanted, at the same structure, dtype, batch size and
    optimizer, on a device of the same name, kind, model, share and place, with the same programs, and not too long ago.

    Parameters
    ----------
    device : index of the device.
    wanted : points that would be measured.
    now : the time, with its zone.
    """
    if earlier is None or not _comparable(earlier, target, now):
        return []
    there = _processors(earlier.cluster, target.record.devices[device])
    before = _first_of_structure(earlier.graph)
    now_structures = structures(target.graph)
    dimensions: dict[int, set[str]] = {}
    for point in wanted:
        dimensions.setdefault(point.layer, set()).add(point.dimension)
    kept: list[Curve] = []
    for layer, needed in dimensions.items():
        was = before.get(now_structures[layer])
        curves = [c for c in earlier.curves if (c.layer, c.batch) == (was, target.batch) and c.device in there]
        if needed <= {curve.dimension for curve in curves}:
            kept += [dataclasses.replace(curve, layer=layer, device=device) for curve in curves]
    return kept


def kept_link(earlier: Profile | None, record: ClusterRecord, first: int, second: int) -> tuple[Link, Link] | None:
    """Return the links of an earlier profile between two devices, both ways; None if it has none.

    Parameters
    ----------
    earlier : Profile or None; one whose curves of both devices hold.
    first, second : their indices.
    """
    if earlier is None:
        return None
    processors = [_processors(earlier.cluster, record.devices[index]) for index in (first, second)]
    there = [link for link in earlier.links if link.source in processors[0] and link.destination in processors[1]]
    back = [link for link in earlier.links if link.source in processors[1] and link.destination in processors[0]]
    if not there or not back:
        return None
    return dataclasses.replace(there[0], source=first, destination=second), dataclasses.replace(back[0], source=second, destination=first)


def kept_corrections(earlier: Profile | None, target: MeasurementTarget, unchanged: Collection[int]) -> Corrections:
    """Return the corrections of an earlier profile that hold: those of devices whose layers take what they took.

    Factors of layers go with the structure of the layer, of whatever network. Factors of the links and of the launch overhead, and
    the steps that were run, are kept where all devices are unchanged.

    Parameters
    ----------
    earlier : Profile or None.
    unchanged : indices of the devices whose curves hold.
    """
    if earlier is None or not unchanged:
        return Corrections()
    present, before = _first_of_structure(target.graph), structures(earlier.graph)
    factors = [
        dataclasses.replace(entry, layer=present[before[entry.layer]], device=device)
        for device in sorted(unchanged)
        for entry in earlier.corrections.layers
        if before[entry.layer] in present and entry.device in _processors(earlier.cluster, target.record.devices[device])
    ]
    records = target.record.devices
    kept = dataclasses.replace(earlier.corrections, layers=tuple(factors))
    all_hold = {record.tf_device for record in records} == {records[device].tf_device for device in unchanged}
    return kept if all_hold else dataclasses.replace(kept, links=1.0, launch=1.0, steps=())


def deviation(curves: Sequence[Curve], wanted: Sequence[Point], measure: Callable[[Point], Mapping[str, Measurement]]) -> float:
    """Return the larger relative deviation beyond noise of two points, the longest and the shortest whole layer, from their kept curves.

    Parameters
    ----------
    curves : kept curves of one device.
    wanted : points of the network.
    measure : point -> its present seconds and spread, by pass.

    Notes
    -----
    deviation = |measured - kept| / kept - (spread of the kept curves + spread of the measurement), in seconds of both passes.
    """
    full = [curve for curve in curves if curve.dimension not in ("batch", "space", "alone")]  # measured otherwise than the points are now
    kept = {(curve.layer, curve.step_pass): Measurement(curve.seconds[-1], curve.spread[-1]) for curve in full}
    points = {point.layer: point for point in wanted if point.full and (point.layer, "forward") in kept}
    if not points:
        return 0.0

    before = {layer: together([kept[layer, step_pass] for step_pass in LAYER_PASSES if (layer, step_pass) in kept]) for layer in points}
    order = sorted(points.values(), key=lambda point: (before[point.layer].seconds, before[point.layer].spread))
    worst = 0.0
    for point in {order[-1].layer: order[-1], order[0].layer: order[0]}.values():
        passes, expected = measure(point), before[point.layer]
        measured = both_passes(passes)
        relative = abs(measured.seconds - expected.seconds) / max(expected.seconds, 1e-12)
        worst = max(worst, relative - (expected.spread + measured.spread))
    return worst


def _first_of_structure(graph: LayerGraph) -> dict[str, int]:
    """Return the index of the first layer of each structure."""
    return {structure: index for index, structure in reversed(list(enumerate(structures(graph))))}


def _comparable(earlier: Profile, target: MeasurementTarget, now: datetime.datetime) -> bool:
    same = all(earlier.versions.get(name) == target.versions.get(name) for name in PROGRAMS)
    young = days_old(earlier, now) <= STALE_DAYS
    return same and young and (earlier.batch_size, earlier.optimizer) == (target.batch, target.optimizer)


def _processors(cluster: ClusterRecord, device: Device) -> list[int]:
    """Return the indices of the processors of a cluster that are this device."""
    return [index for index, other in enumerate(cluster.devices) if same_device(other, device)]
