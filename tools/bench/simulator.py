"""Claim: on 50 blocks and 8 devices at least 100,000 allocations/s are simulated together, and J is computed for a million.

Random allocations: 50 blocks, activations that shrink and weights that grow, partitioned into 8 stages in a random order of 8
devices with speeds 1:1 to 1:4. Each row turns allocations into seconds of a step by one function of `planning.schedule.simulator`,
which includes to look up the seconds of the stages. Beside it the median ratio to J. No TensorFlow.

    python -m tools.bench.simulator [--blocks 50] [--devices 8] [--microbatches 8] [--json simulator.json]
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from hetero_mtf.planning.schedule.clock_table import Table, clock_table
from hetero_mtf.planning.schedule.simulator import PipelineCosts, chain_s, passes_s, simulate
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column

WANTED = 100_000.0  # evaluations/s, of the claim
TABLE = TableForm(
    "simulator",
    "Allocations of pipelines that are turned into seconds of a step",
    (
        Column("function", "function"),
        Column("schedule", "schedule"),
        Column("at_once", "at once", ",.0f"),
        Column("a_second", "evaluations/s", ",.0f", "at_least"),
        Column("ratio", "seconds / J (median)", ".3f"),
    ),
)
FORWARD_PART = 1 / 3  # of a block's seconds; the backward pass does two convolutions for one
ROUNDS = 5
AT_ONCE = 2000

Seconds = tuple[np.ndarray, np.ndarray]  # (allocations, stages) of stages and (allocations, stages - 1) of transfers, there and back


class Allocations:
    """Random allocations of one network on one cluster.

    Parameters
    ----------
    blocks, devices : how many; as many stages as devices.
    seed : of the network, the cluster and the allocations.
    """

    def __init__(self, blocks: int, devices: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        own_s = rng.uniform(0.5, 1.5, blocks) * 1e-3
        slowness = rng.uniform(1, 4, devices)
        self.prefix_s = np.concatenate([np.zeros((devices, 1)), np.cumsum(own_s * slowness[:, None], axis=1)], axis=1)
        self.sent_s = np.linspace(2e-3, 2e-4, blocks - 1)  # in front of blocks 1, 2, ..., there and back
        boundaries = [np.sort(rng.choice(blocks - 1, devices - 1, replace=False)) + 1 for _ in range(AT_ONCE)]
        self.boundaries = np.array(boundaries)
        self.order = rng.permuted(np.tile(np.arange(devices), (AT_ONCE, 1)), axis=1)

    def seconds(self, rows: slice) -> Seconds:
        """Return what the stages and transfers of some allocations take."""
        boundaries, order = self.boundaries[rows], self.order[rows]
        end = np.pad(boundaries, ((0, 0), (0, 1)), constant_values=self.prefix_s.shape[1] - 1)
        begin = np.pad(boundaries, ((0, 0), (1, 0)))
        return self.prefix_s[order, end] - self.prefix_s[order, begin], self.sent_s[boundaries - 1]


def priced(spent_s: Seconds, microbatches: int) -> np.ndarray:
    """Return J of each."""
    return chain_s(*spent_s, microbatches)


def at_once(spent_s: Seconds, table: Table) -> np.ndarray:
    """Return the simulated passes of all together."""
    own_s, sent_s = spent_s
    return passes_s(own_s * FORWARD_PART, own_s * (1 - FORWARD_PART), sent_s * FORWARD_PART, sent_s * (1 - FORWARD_PART), table)


def one_by_one(spent_s: Seconds, table: Table) -> np.ndarray:
    """Return the simulated passes of each, with time line and bytes."""
    parts = FORWARD_PART, 1 - FORWARD_PART
    costs = [PipelineCosts(*(own_s * part for part in parts), *(sent_s * part for part in parts)) for own_s, sent_s in zip(*spent_s)]
    return np.array([simulate(each, table).passes_s for each in costs])


def rate(evaluate: Callable[[Seconds], np.ndarray], allocations: Allocations, count: int) -> tuple[float, np.ndarray]:
    """Return evaluations/s, the median of some rounds, and the seconds of the last."""
    spent, step_s = [], np.zeros(0)
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        step_s = evaluate(allocations.seconds(slice(0, count)))
        spent.append(time.perf_counter() - begun)
    return count / float(np.median(spent)), step_s


@click.command(help=__doc__)
@click.option("--blocks", default=50, show_default=True, help="Blocks of the network.")
@click.option("--devices", default=8, show_default=True, help="Devices, and stages.")
@click.option("--microbatches", default=8, show_default=True, help="Microbatches of a batch.")
@output_options()
def main(blocks: int, devices: int, microbatches: int, output: Output) -> None:
    """Price and simulate the same allocations, and print how many per second."""
    allocations = Allocations(blocks, devices, seed=0)
    places = [[stage] for stage in range(devices)]
    counted = [2 * (devices - stage) - 1 for stage in range(devices)]
    tables = {
        "fill_drain": clock_table("fill_drain", places, microbatches),
        "1f1b": clock_table("1f1b", places, microbatches),
        "1f1b, transfers counted as stages": clock_table("1f1b", places, microbatches, counted),
    }
    wanted: list[tuple[str, str, int, Callable[[Seconds], np.ndarray]]] = [
        ("chain_s", "any: J", AT_ONCE, functools.partial(priced, microbatches=microbatches))
    ]
    for name, table in tables.items():
        wanted.append(("passes_s", name, AT_ONCE, functools.partial(at_once, table=table)))
        wanted.append(("simulate", name, 100, functools.partial(one_by_one, table=table)))
    records: list[dict[str, Any]] = []
    for function, schedule, count, evaluate in wanted:
        a_second, step_s = rate(evaluate, allocations, count)
        ratio = float(np.median(step_s / priced(allocations.seconds(slice(0, count)), microbatches)))
        records.append({"function": function, "schedule": schedule, "at_once": count, "a_second": a_second, "ratio": ratio})
    rows = [table_row(entry, {"a_second": WANTED if entry["function"] == "passes_s" else None}) for entry in records]
    output.report(TABLE, rows)
    output.record({"blocks": blocks, "devices": devices, "microbatches": microbatches, "rows": records})


if __name__ == "__main__":
    main()
