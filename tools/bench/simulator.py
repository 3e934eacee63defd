"""Claim: on 50 blocks and 8 devices a hundred thousand allocations a second are simulated together, a million priced.

Random allocations: 50 blocks, activations that shrink and weights that grow, cut into 8 stages in a random order of 8 devices with speeds
1:1 to 1:4. Each row turns allocations into seconds of a step by one function of `planning.schedule.simulator`, the seconds of the
stages being looked up included. Beside it the median ratio to J. No TensorFlow.

    python tools/bench/simulator.py [--blocks 50] [--devices 8] [--microbatches 8] [--json simulator.json]
"""

from __future__ import annotations

import functools
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import click
import numpy as np

from hetero_mtf.planning.schedule.clock_table import Table, clock_table
from hetero_mtf.planning.schedule.simulator import PipelineCosts, chain_s, passes_s, simulate
from tools.bench.comparison.measured import markdown, record

COLUMNS = ["function", "schedule", "at once", "evaluations a second", "seconds / J (median)"]
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
        self.ends_s = np.concatenate([np.zeros((devices, 1)), np.cumsum(own_s * slowness[:, None], axis=1)], axis=1)
        self.sent_s = np.linspace(2e-3, 2e-4, blocks - 1)  # in front of blocks 1, 2, ..., there and back
        cuts = [np.sort(rng.choice(blocks - 1, devices - 1, replace=False)) + 1 for _ in range(AT_ONCE)]
        self.cuts = np.array(cuts)
        self.order = rng.permuted(np.tile(np.arange(devices), (AT_ONCE, 1)), axis=1)

    def seconds(self, rows: slice) -> Seconds:
        """Return what the stages and transfers of some allocations take."""
        cuts, order = self.cuts[rows], self.order[rows]
        ends = np.pad(cuts, ((0, 0), (0, 1)), constant_values=self.ends_s.shape[1] - 1)
        begins = np.pad(cuts, ((0, 0), (1, 0)))
        return self.ends_s[order, ends] - self.ends_s[order, begins], self.sent_s[cuts - 1]


def priced(found: Seconds, microbatches: int) -> np.ndarray:
    """Return J of each."""
    return chain_s(*found, microbatches)


def at_once(found: Seconds, table: Table) -> np.ndarray:
    """Return the simulated passes of all together."""
    own_s, sent_s = found
    return passes_s(own_s * FORWARD_PART, own_s * (1 - FORWARD_PART), sent_s * FORWARD_PART, sent_s * (1 - FORWARD_PART), table)


def one_by_one(found: Seconds, table: Table) -> np.ndarray:
    """Return the simulated passes of each, with time line and bytes."""
    parts = FORWARD_PART, 1 - FORWARD_PART
    costs = [PipelineCosts(*(own_s * part for part in parts), *(sent_s * part for part in parts)) for own_s, sent_s in zip(*found)]
    return np.array([simulate(each, table).passes_s for each in costs])


def rate(evaluate: Callable[[Seconds], np.ndarray], allocations: Allocations, count: int) -> tuple[float, np.ndarray]:
    """Return evaluations a second, the median of some rounds, and the seconds of the last."""
    spent, found = [], np.zeros(0)
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        found = evaluate(allocations.seconds(slice(0, count)))
        spent.append(time.perf_counter() - begun)
    return count / float(np.median(spent)), found


@click.command(help=__doc__)
@click.option("--blocks", default=50, show_default=True)
@click.option("--devices", default=8, show_default=True)
@click.option("--microbatches", default=8, show_default=True)
@click.option("--json", "path", help="File to write the figures to.")
def main(blocks: int, devices: int, microbatches: int, path: str | None) -> None:
    """Price and simulate the same allocations, and print how many a second."""
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
    found: list[dict[str, Any]] = []
    for function, schedule, count, evaluate in wanted:
        a_second, step_s = rate(evaluate, allocations, count)
        ratio = float(np.median(step_s / priced(allocations.seconds(slice(0, count)), microbatches)))
        found.append({"function": function, "schedule": schedule, "at_once": count, "a_second": a_second, "ratio": ratio})
    rows = [[e["function"], e["schedule"], e["at_once"], f"{e['a_second']:,.0f}", f"{e['ratio']:.3f}"] for e in found]
    click.echo(markdown(COLUMNS, rows))
    record(path, " ".join(["python", *sys.argv]), {"blocks": blocks, "devices": devices, "microbatches": microbatches, "rows": found})


if __name__ == "__main__":
    main()
