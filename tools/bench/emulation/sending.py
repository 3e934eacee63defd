"""Claim: where shares limit only threads that compute, sending takes less time than where they limit whole processes; computing the same.

An all-reduce of 20 MB among the emulated devices of a cluster, and matrix products on each of them, under both limits. Both clusters are
open side by side and take turns; a figure is the median over rounds. Processor time of an all-reduce is read from the kernel's counters of
each thread, summed over the workers: of those that compute, and of those that only send and receive.

    python -m tools.bench.emulation.sending [--cluster 1.0,0.5] [--cluster 0.8,0.4,0.4]
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from hetero_mtf.devices.records import LIMITS
from hetero_mtf.planning.profile.spread import median_and_spread
from hetero_mtf.runtime.limits.threads import processor_s
from tools.bench.comparison.measured import cluster_text, shares_of
from tools.bench.comparison.options import rounds_option
from tools.results.output import Output, tables_option
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

CLUSTERS = ("1.0,0.5", "0.8,0.4,0.4")
TENSOR_BYTES = 20_000_000
PRODUCTS, SIZE = 16, 600  # of the matrices


@dataclasses.dataclass
class Measured:
    """What was measured under a limit.

    Parameters
    ----------
    method : how the devices are limited.
    reduce_s : (rounds,) seconds of an all-reduce.
    compute_s, other_s : (rounds,) processor seconds of an all-reduce in threads that compute, and in others.
    work_s : (devices, rounds) seconds of the matrix products on a device.
    """

    method: str
    reduce_s: list[float]
    compute_s: list[float]
    other_s: list[float]
    work_s: list[list[float]]


class Steps:
    """The steps of a cluster.

    Parameters
    ----------
    cluster : live cluster.
    stack : ends the session.
    """

    def __init__(self, cluster: Any, stack: contextlib.ExitStack) -> None:
        import tensorflow as tf

        from hetero_mtf.mesh.collectives import all_reduce

        self.cluster = cluster
        devices = [device.tf_device for device in cluster.devices]
        values, setup, products = [], [], []
        graph = tf.Graph()
        with graph.as_default(), graph.container(stack.enter_context(cluster.container("bench")).name):
            for place, device in enumerate(devices):
                with tf.device(device):
                    cell = tf.compat.v1.get_variable(f"value{place}", initializer=tf.zeros([TENSOR_BYTES // 4]), use_resource=True)
                    matrix = tf.compat.v1.get_variable(f"matrix{place}", initializer=tf.ones([SIZE, SIZE]), use_resource=True)
                    setup.append([cell.initializer, matrix.initializer])
                    values.append(cell.read_value())
                    product = start = matrix.read_value()
                    for _ in range(PRODUCTS):
                        product = tf.matmul(product, start) / SIZE
                    products.append(product.op)
            reduced = [value.op for value in all_reduce(values, devices, tf.add, None)]
        session = stack.enter_context(cluster.session(graph))
        session.run(setup)
        self.reduce: Callable[[], Any] = session.make_callable(reduced)
        self.work: list[Callable[[], Any]] = [session.make_callable(product) for product in products]

    def measure(self, count: int, measured: Measured) -> None:
        """Add a round of some all-reduces, and one of the matrix products on each device."""
        before = [processor_s(process) for process in self.cluster.process_ids()]
        measured.reduce_s.append(mean_s(self.reduce, count))
        after = [processor_s(process) for process in self.cluster.process_ids()]
        for kind, seconds in ((0, measured.compute_s), (1, measured.other_s)):
            seconds.append(sum(late[kind] - early[kind] for early, late in zip(before, after)) / count)
        for work, seconds in zip(self.work, measured.work_s):
            seconds.append(mean_s(work, 2))


def mean_s(step: Callable[[], Any], count: int) -> float:
    """Return the mean seconds of some steps."""
    begun = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - begun) / count


def measure(shares: Sequence[float], rounds: int, count: int) -> dict[str, Measured]:
    """Return what was measured under each limit.

    Parameters
    ----------
    shares : (devices,) share of a core of each.
    rounds : rounds of turns.
    count : all-reduces in one round.
    """
    import hetero_mtf as hm

    steps, measured = {}, {}
    with contextlib.ExitStack() as stack:
        for limit in LIMITS:
            cluster = stack.enter_context(hm.Cluster.emulate(shares, limit=limit))
            steps[limit] = Steps(cluster, stack)
            measured[limit] = Measured(cluster.method, [], [], [], [[] for _ in shares])
            steps[limit].measure(2, Measured("", [], [], [], [[] for _ in shares]))  # warm
        for _ in range(rounds):
            for limit in LIMITS:
                steps[limit].measure(count, measured[limit])
    return measured


def rows(shares: Sequence[float], measured: dict[str, Measured]) -> list[Row]:
    """Return a row for each limit."""
    lines, process_s = [], statistics.median(measured[LIMITS[0]].reduce_s)
    for limit, each in measured.items():
        reduce_s, spread = median_and_spread(each.reduce_s)
        compute_s, other_s = statistics.median(each.compute_s), statistics.median(each.other_s)
        figures = {"reduce_ms": 1e3 * reduce_s, "spread": spread, "times": process_s / reduce_s}
        processor = {"compute_ms": 1e3 * compute_s, "other_ms": 1e3 * other_s, "left": compute_s / (compute_s + other_s)}
        work = {"work_ms": [1e3 * statistics.median(seconds) for seconds in each.work_s]}
        lines.append(table_row({"cluster": cluster_text(shares, limit), "method": each.method, **figures, **processor, **work}))
    return lines


TABLE = TableForm(
    "emulation_sending",
    "An all-reduce of 20 MB where processes are limited, and where only threads that compute are",
    (
        Column("cluster", "cluster"),
        Column("method", "limited by"),
        Column("reduce_ms", "all-reduce ms", ".0f"),
        Column("spread", "spread", ".0%"),
        Column("times", "x as fast", ".2f"),
        Column("compute_ms", "processor ms of threads that compute", ".0f"),
        Column("other_ms", "processor ms of other threads", ".0f"),
        Column("left", "part in threads that compute", ".0%"),
        Column("work_ms", "matrix products ms, each device", ".0f"),
    ),
    case=("cluster",),
)


@click.command(help=__doc__)
@click.option("--cluster", "clusters", multiple=True, default=CLUSTERS, show_default=True, help="Shares, several times for more clusters.")
@rounds_option(7)
@click.option("--reductions", default=5, show_default=True, help="All-reduces in one round.")
@tables_option
def main(clusters: Sequence[str], rounds: int, reductions: int, output: Output) -> None:
    """Measure, print the table."""
    lines = []
    for text in clusters:
        shares = shares_of(text)
        lines += rows(shares, measure(shares, rounds, reductions))
        output.publish(TABLE, lines)
    print(shown(TABLE, lines))


if __name__ == "__main__":
    main()
