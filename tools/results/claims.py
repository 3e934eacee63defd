"""The index of results: each claim with what was wanted, what was reached, and the page that has the table."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from hetero_mtf.errors import DataError
from hetero_mtf.report.table import NOTHING, Table
from tools.results.records import Column, ResultSet, Row
from tools.results.tables import CROSS, SIGNS, TICK, limit_text


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim that a column of a table bears out or not.

    Parameters
    ----------
    text : the claim, without numbers.
    name : of the results.
    key : of the column, which has targets.
    page : that has the table, below docs/results, without its ending.
    only : column key -> text that rows have which the claim is about; empty for all rows.
    is_first : whether the README shows it.
    """

    text: str
    name: str
    key: str
    page: str
    only: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_first: bool = False


@dataclasses.dataclass(frozen=True)
class Gain:
    """How many times as fast plans are as the fastest device alone, of which nothing is wanted.

    Parameters
    ----------
    text, name, page : as for `Claim`.
    key : column of the plan's milliseconds.
    alone : column of each device's milliseconds alone.
    is_first : as for `Claim`.
    """

    text: str
    name: str
    key: str
    page: str
    alone: str = "alone_ms"
    is_first: bool = False


_RIVALS = ("rivals", "times_ours", "rivals")
_BESIDE = tuple(
    {"arrangement": name}
    for name in ("MultiWorkerMirroredStrategy", "DistributedDataParallel", "DistributedDataParallel, unequal by hand")
)
CLAIMS = (
    Claim("Training begins soon: the first step after, s", "time_to_train", "first_step_s", "start", is_first=True),
    Claim("A training ends, s; the target is one device with 5 % and 5 s, all counted", "time_to_train", "end_s", "start"),
    Claim("A training is ahead of one device soon, s", "time_to_gain", "even_s", "start"),
    Claim("Part of the gain of the best plan, given from the start", "time_to_gain", "part", "start"),
    Claim("Simulated trainings that end later than one device with 5 % and 5 s", "start_regret", "slower", "start"),
    Claim("Part of the best plan's gain, in simulation", "start_gain", "gained", "start"),
    Gain("Known networks, times as fast as the fastest device alone", "auto_efficiency", "auto_ms", "auto", is_first=True),
    Gain("Networks drawn at random, times as fast as the fastest device alone", "unseen", "after_ms", "auto", is_first=True),
    Claim("Plans of `auto` are near the ideal", "auto_efficiency", "efficiency", "auto"),
    Claim("Unequal filters beat equal ones, times as fast", "uneven_split", "times_equal", "splits"),
    Claim("Unequal samples beat equal batches elsewhere, times as fast", "uneven_batch", "times_planned", "splits"),
    Claim("A mixture of both beats each of them, times as fast", "hybrid", "times_hybrid", "splits"),
    Claim("`auto` beats equal batches of MultiWorkerMirroredStrategy, times as fast", *_RIVALS, _BESIDE[0], is_first=True),
    Claim("`auto` beats equal batches of DistributedDataParallel, times as fast", *_RIVALS, _BESIDE[1], is_first=True),
    Claim("`auto` keeps up with unequal batches by hand there, times as fast", *_RIVALS, _BESIDE[2]),
    Claim("One device through a `Trainer` is as fast as one elsewhere, times as fast", "rivals_one_device", "times_ours", "rivals"),
    Claim("`hm.distribute` on one device beside Keras without jit, times as long", "overhead", "distributed_times_keras_no_jit", "step"),
    Claim("Feeding two devices costs little, ms a step", "feeding", "more_ms", "step"),
    Claim("Graphs are built soon, s", "graph_size", "build_s", "step"),
    Claim("28 plans are predicted before they are measured, error", "prediction", "error", "predictions"),
    Claim("The plan ranked first is near the best one measured, regret", "prediction_ranks", "regret", "predictions"),
    Claim("Planning large clusters takes seconds", "planner", "cpu_s", "solvers"),
    Claim("The genetic allocator reaches the optimum within 1 %, part of the chains", "genetic", "near_after", "solvers"),
    Claim("So it does on chains of single operations", "genetic_operations", "near_after", "solvers"),
    Claim("Published layer graphs are solved to the same optimum, difference", "others_layer_graphs", "chain_off", "solvers"),
    Claim("Partitions are near the bound", "pipeline", "part_of_j", "pipelines"),
    Claim("Pipelines beat model parallelism without microbatches, times as fast", "pipeline", "times_naive", "pipelines"),
    Claim("Without a flush stages hardly wait: part of the ceiling", "late_speed", "reached", "without_flush"),
    Claim("Without a flush accuracy is as with one, points", "late_accuracy", "difference", "without_flush"),
    Claim("Mixed precision learns as float32 does, points", "precision", "difference", "precision"),
    Claim("A throttled device is noticed soon, steps", "rebalancing", "steps", "rebalancing"),
    Claim("The plan moved to is as fast as the best one", "rebalancing", "speed", "rebalancing"),
    Claim("Without lost workers the weights are those of one device", "faults", "error", "rebalancing"),
    Claim("Over two changes of devices losses are those of one device", "changing_devices", "error", "rebalancing"),
    Claim("3D-ResAttNet-18 beats the best equal split, times as fast", "resattnet", "times_equal", "mri", is_first=True),
    Claim("Peak memory is predicted, off by", "memory", "off", "memory"),
    Claim("A volume in slabs beats the fast device alone, times as fast", "slab_speed", "times_fast", "volumes"),
    Claim("It is no slower than the best plan without slabs, times as fast", "slab_speed", "times_others", "volumes"),
    Claim("Curves over the thickness of slabs hold, off by", "slab_curves", "median", "volumes"),
    Claim("In slabs the fast device needs less memory, part of one device's", "slab_memory", "of_single", "volumes"),
)


def highlights_table(results: Mapping[str, ResultSet]) -> str:
    """Return the table of the README in Markdown.

    Parameters
    ----------
    results : name -> results.

    Raises
    ------
    DataError
        As `claims_table`.
    """
    rows = []
    for claim in (claim for claim in CLAIMS if claim.is_first):
        text, _, reached, _, link = _entries(claim, results)
        rows.append((text, reached, link.replace("](", "](docs/")))
    return Table(("claim", "median (range)", "table"), tuple(rows), left=3).markdown()


def claims_table(results: Mapping[str, ResultSet]) -> str:
    """Return the index in Markdown.

    Parameters
    ----------
    results : name -> results.

    Raises
    ------
    DataError
        If a claim is of no results, no column, or one without targets.
    """
    headings = ("claim", "target", "reached: median (range)", "met", "table")
    return Table(headings, tuple(_entries(claim, results) for claim in CLAIMS), left=5).markdown()


def _entries(claim: Claim | Gain, results: Mapping[str, ResultSet]) -> tuple[str, ...]:
    found = results.get(claim.name)
    link = f"[{claim.page}](results/{claim.page}.md)"
    if isinstance(claim, Gain):
        gains = [min(row.lists[claim.alone]) / row.numbers[claim.key] for row in found.rows if claim.key in row.numbers] if found else []
        if not gains:
            raise DataError(f"the results {claim.name} have no {claim.key}", "correct tools/results/claims.py")
        return claim.text, NOTHING, _range(gains, ".2f"), NOTHING, link
    column = None if found is None else next((column for column in found.columns if column.key == claim.key), None)
    if found is None or column is None:
        raise DataError(f"the claim {claim.text!r} is of {claim.name}, {claim.key}, which is not there", "correct tools/results/claims.py")
    rows = [row for row in found.rows if _is_judged(row, column) and all(row.texts.get(key) == text for key, text in claim.only.items())]
    if not rows:
        raise DataError(f"nothing is wanted in the column {claim.key} of {claim.name}", "correct tools/results/claims.py")
    met = sum(not row.misses(column) for row in rows)
    verdict = TICK if met == len(rows) else f"{CROSS} {met} of {len(rows)}"
    values = [row.numbers[column.key] for row in rows]
    reached = _range([abs(value) for value in values] if column.target == "within" else values, column.number.removeprefix("+"))
    return claim.text, _targets(column, rows), reached, verdict, link


def _is_judged(row: Row, column: Column) -> bool:
    return row.limit(column) is not None and column.key in row.numbers


def _targets(column: Column, rows: Sequence[Row]) -> str:
    limits = sorted({limit for row in rows if (limit := row.limit(column)) is not None})
    texts = list(dict.fromkeys(limit_text(column, limit) for limit in (limits[0], limits[-1])))
    return f"{SIGNS[column.target]} {' to '.join(texts)}"


def _range(values: Sequence[float], number: str) -> str:
    median, low, high = (format(value, number) for value in (statistics.median(values), min(values), max(values)))
    return median if low == high else f"{median} ({low} to {high})"
