"""Speed-up on equal devices, measured beside the ideal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

SPEEDUP = TableForm(
    "paper_speedup",
    "Speed-up on equal devices",
    (
        Column("network", "network"),
        Column("share", "share of a core of each device", "g"),
        Column("batch", "batch"),
        Column("arrangement", "arrangement"),
        Column("devices", "devices", ".0f"),
        Column("step_ms", "ms/step", ".0f"),
        Column("speedup", "speed-up", ".2f"),
        Column("ideal", "ideal", ".0f"),
    ),
    ("network", "arrangement", "devices"),
)
Chooser = Callable[[Any, int, Any], Mapping[str, Any]]


def curve(make: Callable[[], Any], batch: int, share: float, counts: Sequence[int], chooser: Chooser, pace: Pace) -> dict[str, Any]:
    """Return the seconds of a step on each number of equal devices, and of one of them alone in the same run.

    Parameters
    ----------
    make : returns the Keras model.
    batch : samples per step.
    share : of a core, of each device.
    counts : numbers of devices; 1 is measured beside every other.
    chooser : (model, devices, cluster) -> arrangement -> Plan.
    pace : how long to measure.
    """
    import hetero_mtf as hm

    task, points = TrainingTask(make(), batch), list[dict[str, Any]]()
    for count in counts:
        if count < 2:
            continue
        with hm.Cluster.emulate([share] * count) as cluster:
            alone = {"alone 0": hm.Plan.single(task.model, 0, cluster, batch)}
            times = measure(task, {**alone, **chooser(task.model, count, cluster)}, cluster, pace, {})
        points.append({"devices": count, "rounds_s": {name: entry["rounds_s"] for name, entry in times.items()}})
    return {"points": points}


def curve_rows(network: str, share: float, batch: int, figures: Mapping[str, Any]) -> list[Row]:
    """Return a row for each arrangement and number of devices; one device is 1 by definition.

    Parameters
    ----------
    network : what tables call it.
    figures : what `curve` returns.
    """
    rows, cells = [], {"network": network, "share": share, "batch": batch}
    for point in figures["points"]:
        medians = {name: statistics.median(each) for name, each in point["rounds_s"].items()}
        for name, step_s in medians.items():
            if name != "alone 0":
                figure = {"step_ms": 1e3 * step_s, "speedup": medians["alone 0"] / step_s, "ideal": point["devices"]}
                rows.append(table_row({**cells, "arrangement": name, "devices": point["devices"], **figure}))
    return rows


def speed_text(point: Mapping[str, Any]) -> str:
    """Return the speed-up of each arrangement at one number of devices, such as "2 devices 1.90 (auto)".

    Parameters
    ----------
    point : one of those of `curve`.

    Examples
    --------
    >>> speed_text({"devices": 2, "rounds_s": {"alone 0": [1.9], "auto": [1.0]}})
    '2 devices 1.90 (auto)'
    """
    medians = {name: statistics.median(each) for name, each in point["rounds_s"].items()}
    own = ", ".join(f"{medians['alone 0'] / step_s:.2f} ({name})" for name, step_s in medians.items() if name != "alone 0")
    return f"{point['devices']} devices {own}"
