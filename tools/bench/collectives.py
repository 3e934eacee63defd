"""Claim: which all-reduce is cheapest depends on the size, and the measured links say where it changes.

Ring, butterfly and halving-doubling among emulated workers, from 4 bytes to 16 MiB. The methods take
turns; a figure is the median over windows. Predicted beside measured: the formulas fed with the links
between all pairs, measured in the same run while nothing else is sent. A crossover is measured as the
limit between two sizes that wastes least time, each method taken on its own side.

    python -m tools.bench.collectives [--shares 0.5,0.5,0.5,0.5] [--windows 3]
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import click

from tools.results.output import Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

METHODS = ("butterfly", "halving_doubling", "ring")
SIZES = tuple(4 << bits for bits in (0, 6, 10, 13, 15, 17, 19, 21, 22))
WINDOW_S = 0.25
CHAINED = 8  # all-reduces in one step, so that starting a step counts little
LARGE_BYTES = 2**18  # from here on two are enough
TABLE = TableForm(
    "collectives",
    "All-reduces, predicted from links measured in the same run / measured",
    (
        Column("size", "size"),
        *(Column(f"{method}_ms", f"{method.replace('_', '-')} ms", "#.3g") for method in METHODS),
        Column("cheapest_predicted", "cheapest, predicted"),
        Column("cheapest_measured", "cheapest, measured"),
    ),
)
CROSSOVERS = TableForm(
    "collective_crossovers",
    "Sizes at which another all-reduce becomes the cheaper one",
    (Column("first", "from"), Column("second", "to"), Column("predicted", "predicted"), Column("measured", "measured")),
)


def measured_links(cluster: Any, windows: Any) -> Any:
    """Return the links between all pairs of devices."""
    from hetero_mtf.calibration.links import measure_link
    from hetero_mtf.planning.cost.all_reduce import PairLinks

    count = len(cluster.devices)
    a, b = ([[0.0] * count for _ in range(count)] for _ in range(2))
    for first, second in itertools.combinations(range(count), 2):
        for link in measure_link(cluster, first, second, windows):
            a[link.source][link.destination] = link.latency_s
            b[link.source][link.destination] = 1 / link.bandwidth_bytes_per_s
    return PairLinks(tuple(map(tuple, a)), tuple(map(tuple, b)), tuple(device.host for device in cluster.devices))


def measure(cluster: Any, tensor_bytes: int, windows: Any) -> dict[str, float]:
    """Return the seconds of one all-reduce by each method."""
    import tensorflow as tf

    container = cluster.container("bench")
    chained = CHAINED if tensor_bytes < LARGE_BYTES else 2
    graph = tf.Graph()
    try:
        with graph.as_default():
            values, setup = _values([device.tf_device for device in cluster.devices], tensor_bytes, container.name)
            reductions = {method: _chain(values, [device.tf_device for device in cluster.devices], method, chained) for method in METHODS}
        with cluster.session(graph) as session:
            session.run(setup)
            runs = {method: functools.partial(_repeat, session.make_callable(operations)) for method, operations in reductions.items()}
            return {method: window.seconds / chained for method, window in windows.measure(runs).items()}
    finally:
        container.release()


def _values(devices: Sequence[str], tensor_bytes: int, container: str) -> tuple[list[Any], list[Any]]:
    import tensorflow as tf

    values, setup, elements = [], [], tensor_bytes // 4
    for place, device in enumerate(devices):
        with tf.device(device):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[elements], shared_name=f"value{place}", container=container)
            setup.append(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros([elements])))
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            values.append(tf.ensure_shape(value, [elements]))
    return values, setup


def _chain(values: list[Any], devices: Sequence[str], method: str, chained: int) -> list[Any]:
    import tensorflow as tf

    from hetero_mtf.mesh.collectives import all_reduce
    from hetero_mtf.planning.layout.records import CollectiveRule

    for _ in range(chained):
        values = all_reduce(values, devices, tf.add, CollectiveRule("all_reduce", method))
    return [value.op for value in values]


def _repeat(step: Callable[[], object], count: int) -> None:
    for _ in range(count):
        step()


def predicted_crossover(first: Callable[[float], float], second: Callable[[float], float]) -> str:
    """Return the size up to which the first is cheaper."""
    from hetero_mtf.units import bytes_text

    if first(1) > second(1) or first(SIZES[-1] * 64) <= second(SIZES[-1] * 64):
        return "none"
    low, high = 1, SIZES[-1] * 64
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if first(middle) <= second(middle) else (low, middle)
    return bytes_text(low)


def measured_crossover(first: Sequence[float], second: Sequence[float]) -> str:
    """Return between which sizes to change from the first to the second, so that least is wasted, as a part of the cheaper one."""
    from hetero_mtf.units import bytes_text

    waste = [
        sum(max(0.0, (a - b if at < limit else b - a) / min(a, b)) for at, (a, b) in enumerate(zip(first, second)))
        for limit in range(len(SIZES) + 1)
    ]
    limit = waste.index(min(waste))
    if limit in (0, len(SIZES)):
        return "none"
    return f"{bytes_text(SIZES[limit - 1])} to {bytes_text(SIZES[limit])}"


def rows(predicted: dict[int, dict[str, float]], measured: dict[int, dict[str, float]]) -> list[Row]:
    """Return a row a size: predicted and measured milliseconds of each method, and the cheapest."""
    from hetero_mtf.units import bytes_text

    return [
        table_row(
            {
                "size": bytes_text(size),
                **{f"{method}_ms": [1e3 * seconds[size][method] for seconds in (predicted, measured)] for method in METHODS},
                "cheapest_predicted": min(METHODS, key=predicted[size].__getitem__),
                "cheapest_measured": min(METHODS, key=measured[size].__getitem__),
            }
        )
        for size in SIZES
    ]


@click.command(help=__doc__)
@click.option("--shares", default="0.5,0.5,0.5,0.5", show_default=True, help="Share of a core of each worker.")
@click.option("--windows", "count", default=3, show_default=True, help="Windows; a figure is their median.")
@output_options()
def main(shares: str, count: int, output: Output) -> None:
    """Measure links and all-reduces, and print the tables."""
    import hetero_mtf as hm
    from hetero_mtf.calibration.windows import Windows
    from hetero_mtf.planning.cost.all_reduce import priced
    from hetero_mtf.planning.layout.records import CollectiveRule

    windows = Windows(WINDOW_S, count)
    with hm.Cluster.parse(f"emulate:{shares}") as cluster:
        links = measured_links(cluster, windows)
        measured = {size: measure(cluster, size, windows) for size in SIZES}
    prices = {method: priced(CollectiveRule("all_reduce", method), links) for method in METHODS}
    predicted = {size: {method: price.seconds(size) for method, price in prices.items()} for size in SIZES}
    latencies, slownesses = ([row[j] for i, row in enumerate(m) for j in range(len(row)) if i != j] for m in _matrices(links))
    extremes = [1e3 * min(latencies), 1e3 * max(latencies), 1e-6 / max(slownesses), 1e-6 / min(slownesses)]
    note = "Links: latency {:.2f} to {:.2f} ms, bandwidth {:.0f} to {:.0f} MB/s.".format(*extremes)
    table, crossovers = rows(predicted, measured), [_crossover(a, b, prices, measured) for a, b in itertools.combinations(METHODS, 2)]
    crossing = [table_row(dict(zip(("first", "second", "predicted", "measured"), crossover))) for crossover in crossovers]
    for form, each, notes in ((TABLE, table, [note]), (CROSSOVERS, crossing, [])):
        click.echo(f"{shown(form, each, notes)}\n")
        output.publish(form, each, notes)
    figures = {"latency_s": links.latency_s, "seconds_per_byte": links.seconds_per_byte, "predicted_s": predicted, "measured_s": measured}
    output.record({"shares": shares, **figures, "crossovers": crossovers})


def _matrices(links: Any) -> tuple[Any, Any]:
    return links.latency_s, links.seconds_per_byte


def _crossover(first: str, second: str, prices: dict[str, Any], measured: dict[int, dict[str, float]]) -> list[str]:
    times = [[measured[size][method] for size in SIZES] for method in (first, second)]
    return [first, second, predicted_crossover(prices[first].seconds, prices[second].seconds), measured_crossover(*times)]


if __name__ == "__main__":
    main()
