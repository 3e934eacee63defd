from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.names import CLOCKED_SCHEDULES
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, Table, Task, clock_table, in_flight, kept, least_depths
from hetero_mtf.planning.schedule.simulator import Entry, PipelineCosts, Simulation, chain_s, ideal_bubble, passes_s, simulate
from tests.cases import each

seeds, counts = st.integers(0, 10**6), st.integers(1, 10)


def apart(stages: int) -> list[list[int]]:
    return [[stage] for stage in range(stages)]


def drawn(seed: int, alike: bool, stages: int = 0) -> PipelineCosts:
    """Return random costs; `alike` where forward is the same part of all of them."""
    rng = np.random.default_rng(seed)
    stages = stages or int(rng.integers(1, 7))
    own = rng.random(stages) ** rng.choice([0.3, 1.0, 3.0]) * (rng.random(stages) > 0.1)
    sent = rng.random(stages - 1) * rng.choice([0.0, 0.1, 1.0, 2.0])
    part = rng.random() if alike else rng.random(stages)
    sent_part = part if alike else rng.random(stages - 1)
    return PipelineCosts(own * part, own * (1 - part), sent * sent_part, sent * (1 - sent_part))


def places(costs: PipelineCosts) -> tuple[np.ndarray, np.ndarray]:
    """Return forward and backward seconds of all stages, then all transfers."""
    forward = np.concatenate([costs.forward_s, costs.send_forward_s])
    return forward, np.concatenate([costs.backward_s, costs.send_backward_s])


def chain(costs: PipelineCosts, microbatches: int) -> float:
    both = np.add(costs.forward_s, costs.backward_s), np.add(costs.send_forward_s, costs.send_backward_s)
    return float(chain_s(*both, microbatches))


def depths_of(costs: PipelineCosts) -> tuple[int, ...]:
    return least_depths(np.add(costs.forward_s, costs.backward_s), np.add(costs.send_forward_s, costs.send_backward_s))


def table_of(schedule: str, costs: PipelineCosts, microbatches: int, depths: Sequence[int] | None = None) -> Table:
    return clock_table(schedule, apart(len(costs.forward_s)), microbatches, depths)


@given(seeds, counts, st.booleans())
def test_fill_drain_takes_the_sum_of_all_and_the_longest_of_each_pass_for_each_further_microbatch(
    seed: int, microbatches: int, shared: bool
) -> None:
    costs = dataclasses.replace(drawn(seed, alike=False), shared_links=shared)
    forward, backward = places(costs)
    wanted = forward.sum() + backward.sum() + (microbatches - 1) * (forward.max() + backward.max())
    step_s = simulate(costs, table_of("fill_drain", costs, microbatches)).passes_s
    assert step_s == pytest.approx(wanted) and step_s >= chain(costs, microbatches) * (1 - 1e-9)


@given(seeds, counts, st.booleans())
def test_fill_drain_equals_the_objective_of_allocators_where_passes_are_alike(seed: int, microbatches: int, shared: bool) -> None:
    costs = dataclasses.replace(drawn(seed, alike=True), shared_links=shared)
    assert simulate(costs, table_of("fill_drain", costs, microbatches)).passes_s == pytest.approx(chain(costs, microbatches))


@given(seeds, counts, st.booleans(), st.booleans())
def test_one_forward_one_backward_with_enough_in_flight_is_no_slower_than_fill_drain(
    seed: int, microbatches: int, alike: bool, least: bool
) -> None:
    costs = drawn(seed, alike)
    stages = len(costs.forward_s)
    depths = depths_of(costs) if least else [2 * (stages - stage) - 1 for stage in range(stages)]
    step_s = simulate(costs, table_of("1f1b", costs, microbatches, depths)).passes_s
    assert step_s <= simulate(costs, table_of("fill_drain", costs, microbatches)).passes_s * (1 + 1e-9)
    if alike:
        assert step_s <= chain(costs, microbatches) * (1 + 1e-9)


@given(seeds, counts)
def test_one_forward_one_backward_equals_the_objective_where_no_place_is_slower_than_the_last_stage(seed: int, microbatches: int) -> None:
    costs = drawn(seed, alike=True)
    forward, backward = places(costs)
    last = len(costs.forward_s) - 1
    costs.forward_s[last], costs.backward_s[last] = forward.max(), backward.max()
    assert simulate(costs, table_of("1f1b", costs, microbatches, depths_of(costs))).passes_s == pytest.approx(chain(costs, microbatches))


@each("stages, microbatches, shared", [*itertools.product([1, 2, 3, 5], [1, 2, 4, 9], [False, True])])
def test_even_stages_and_transfers_equal_the_objective_with_transfers_counted_as_stages(
    stages: int, microbatches: int, shared: bool
) -> None:
    depths = [2 * (stages - stage) - 1 for stage in range(stages)]
    costs = PipelineCosts([1.0] * stages, [1.0] * stages, [1.0] * (stages - 1), [1.0] * (stages - 1), shared_links=shared)
    step_s = simulate(costs, table_of("1f1b", costs, microbatches, depths)).passes_s
    assert step_s == chain(costs, microbatches) == 2 * (2 * stages - 1 + microbatches - 1)


@given(seeds, counts)
def test_the_slowest_stage_waits_for_as_much_as_the_docstring_says(seed: int, microbatches: int) -> None:
    costs = drawn(seed, alike=False)
    own, sent = np.add(costs.forward_s, costs.backward_s), np.add(costs.send_forward_s, costs.send_backward_s)
    k, depths = int(np.argmax(own)), depths_of(costs)
    behind, waits = own[k + 1 :].sum() + sent[k:].sum(), 0.0
    if depths[k] < microbatches:
        waits = sum(max(0.0, behind - (depths[k] - 1) * seconds[k]) for seconds in (costs.forward_s, costs.backward_s))
    least = own[:k].sum() + sent[:k].sum() + microbatches * own[k] + waits
    assert simulate(costs, table_of("1f1b", costs, microbatches, depths)).passes_s >= least * (1 - 1e-9)


@pytest.mark.parametrize(("stage_s", "part", "wanted"), [([2.0, 1.0], 0.5, 17.0), ([4.0, 2.0, 2.0], 0.5, 36.0)])
def test_one_forward_one_backward_beats_the_objective_where_the_slowest_stage_comes_first(
    stage_s: list[float], part: float, wanted: float
) -> None:
    forward = part * np.array(stage_s)
    costs = PipelineCosts(forward, stage_s - forward)
    assert simulate(costs, table_of("1f1b", costs, 8)).passes_s <= wanted == chain(costs, 8)
    assert simulate(costs, table_of("1f1b", costs, 8)).passes_s >= 8 * stage_s[0]


def test_too_few_in_flight_wait_for_transfers_and_enough_do_not() -> None:
    costs = PipelineCosts([1.0] * 3, [1.0] * 3, [0.5] * 2, [0.5] * 2)
    few, enough = (simulate(costs, table_of("1f1b", costs, 16, depths)).passes_s for depths in (None, depths_of(costs)))
    assert enough == chain(costs, 16) == 38.0
    assert few > 1.1 * enough


@pytest.mark.fast("fill_drain")
@pytest.mark.parametrize("schedule", CLOCKED_SCHEDULES)
@given(st.integers(1, 8), st.integers(1, 12))
def test_the_bubble_of_even_stages_is_the_ideal_one(schedule: str, stages: int, microbatches: int) -> None:
    costs = PipelineCosts([1.0] * stages, [2.0] * stages)
    found = simulate(costs, table_of(schedule, costs, microbatches))
    assert found.bubble == pytest.approx(ideal_bubble(stages, microbatches))
    assert found.bubbles == pytest.approx([found.bubble] * stages)


def check_timeline(found: Simulation, costs: PipelineCosts, table: Table, devices: Sequence[Sequence[int]]) -> None:
    """Every task for its seconds, after what it needs, and nothing twice at once on a device or in a direction of a link."""
    spans = {Task(*entry[:3]): entry for entry in found.tasks}
    sent = {Task(*entry[:3]): entry for entry in found.transfers}
    assert set(spans) == set(itertools.chain(*table)) and len(spans) == len(found.tasks)
    assert set(sent) == {task for task in spans if task.stage + 1 < len(devices)} and len(sent) == len(found.transfers)
    seconds = {FORWARD: costs.forward_s, BACKWARD: costs.backward_s}
    for task, entry in spans.items():
        assert entry.end_s - entry.start_s == pytest.approx(np.ravel(seconds[task.step_pass][task.stage])[0], abs=1e-9)
    for (boundary, microbatch, step_pass), entry in sent.items():
        ends = (boundary, boundary + 1) if step_pass == FORWARD else (boundary + 1, boundary)
        source, reader = (spans[Task(stage, microbatch, step_pass)] for stage in ends)
        assert source.end_s <= entry.start_s <= entry.end_s <= reader.start_s
    lines: dict[Any, list[Entry]] = {}
    for entry in found.tasks:
        for device in devices[entry.stage]:
            lines.setdefault(device, []).append(entry)
    for entry in found.transfers:
        ends = [tuple(devices[entry.stage]), tuple(devices[entry.stage + 1])]
        lines.setdefault(tuple(ends if entry.step_pass == FORWARD else ends[::-1]), []).append(entry)
    for line in lines.values():
        line.sort(key=lambda entry: (entry.start_s, entry.end_s))
        assert all(earlier.end_s <= later.start_s for earlier, later in itertools.pairwise(line))


@given(seeds, st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=2, unique=True), min_size=1, max_size=6), st.integers(1, 6))
def test_a_time_line_is_one_that_could_happen_wherever_the_stages_are(seed: int, devices: list[list[int]], microbatches: int) -> None:
    costs = drawn(seed, alike=False, stages=len(devices))
    table = clock_table("interleaved", devices, microbatches)
    found = simulate(costs, table, devices)
    check_timeline(found, costs, table, devices)
    assert found.passes_s == max(entry.end_s for entry in found.tasks)
    busiest = max(sum(np.add(costs.forward_s, costs.backward_s)[s] for s, m in enumerate(devices) if d in m) for d in range(4))
    assert found.passes_s >= microbatches * busiest * (1 - 1e-9)
    assert all(-1e-9 <= bubble <= 1 for bubble in found.bubbles)


@given(seeds, counts, st.booleans())
def test_a_time_line_is_one_that_could_happen_for_unequal_microbatches(seed: int, microbatches: int, deep: bool) -> None:
    even = drawn(seed, alike=False)
    sizes = np.random.default_rng(seed).integers(1, 5, microbatches)
    costs = PipelineCosts(*(np.outer(array, sizes) for array in dataclasses.astuple(even)[:4]))
    table = table_of("1f1b", even, microbatches, depths_of(even) if deep else None)
    found = simulate(costs, table)
    longest = simulate(PipelineCosts(*(5 * np.asarray(array) for array in dataclasses.astuple(even)[:4])), table)
    assert found.passes_s <= longest.passes_s * (1 + 1e-9)
    many = passes_s(*(np.asarray(array)[None] for array in dataclasses.astuple(costs)[:4]), table)
    assert many[0] == pytest.approx(found.passes_s)


@pytest.mark.parametrize("schedule", ["fill_drain", "1f1b"])
@given(seeds, st.integers(1, 6), counts)
def test_many_pipelines_at_once_take_what_each_takes(schedule: str, seed: int, stages: int, microbatches: int) -> None:
    pipelines = [drawn(seed + at, alike=False, stages=stages) for at in range(4)]
    table = clock_table(schedule, apart(stages), microbatches)
    stacked = (np.stack([getattr(costs, name) for costs in pipelines]) for name in NAMES)
    assert passes_s(*stacked, table) == pytest.approx([simulate(costs, table).passes_s for costs in pipelines])


NAMES = ("forward_s", "backward_s", "send_forward_s", "send_backward_s")


@given(seeds, counts, st.floats(1.0, 3.0), st.sampled_from(NAMES))
def test_more_seconds_anywhere_never_shorten_a_step_and_a_scale_scales_it(seed: int, microbatches: int, more: float, name: str) -> None:
    costs = drawn(seed, alike=False)
    table = table_of("1f1b", costs, microbatches)
    slower = dataclasses.replace(costs, **{name: np.asarray(getattr(costs, name)) * more})
    scaled = PipelineCosts(*(np.asarray(getattr(costs, each)) * more for each in NAMES))
    step_s = simulate(costs, table).passes_s
    assert simulate(slower, table).passes_s >= step_s * (1 - 1e-9)
    assert simulate(scaled, table).passes_s == pytest.approx(more * step_s)


def test_a_shared_link_lets_its_directions_take_turns() -> None:
    costs = PipelineCosts([1.0, 1.0], [1.0, 1.0], [3.0], [3.0], shared_links=True)
    found = simulate(costs, table_of("1f1b", costs, 6, [4, 1]))
    assert all(earlier.end_s <= later.start_s for earlier, later in itertools.pairwise(found.transfers))
    apart_s = simulate(dataclasses.replace(costs, shared_links=False), table_of("1f1b", costs, 6, [4, 1])).passes_s
    assert apart_s < found.passes_s and found.passes_s >= 6 * 6


def test_updates_follow_the_last_task_of_each_device_and_those_of_one_device_follow_each_other() -> None:
    found = simulate(PipelineCosts([1.0] * 2, [1.0] * 2, update_s=[0.5, 4.0]), clock_table("1f1b", apart(2), 2))
    assert found.updates == (Entry(1, -1, "update", 5.0, 9.0), Entry(0, -1, "update", 6.0, 6.5))
    assert (found.step_s, found.passes_s) == (9.0, 6.0)
    table = clock_table("interleaved", [[0], [0]], 1)
    assert simulate(PipelineCosts([1.0] * 2, [1.0] * 2, update_s=[0.5, 4.0]), table, [[0], [0]]).step_s == 8.5


@given(st.integers(1, 6), counts, st.sampled_from(["fill_drain", "1f1b"]), st.booleans())
def test_a_device_keeps_what_its_microbatches_in_flight_keep(stages: int, microbatches: int, schedule: str, recompute: bool) -> None:
    table = clock_table(schedule, apart(stages), microbatches)
    costs = PipelineCosts([1.0] * stages, [1.0] * stages, (), (), (), [100.0] * stages, [10.0] * stages, [1.0] * stages, recompute)
    found = simulate(costs, table)
    assert found.in_flight == in_flight(table)
    each = [held - 1 + 10 for held in found.in_flight] if recompute else [10 * held for held in found.in_flight]
    assert found.peak_bytes == tuple(100.0 + kept for kept in each)


@pytest.mark.parametrize("schedule", ["1f1b", "fill_drain"])
def test_recomputation_takes_the_forward_pass_twice_unless_the_backward_pass_follows_it_at_once(schedule: str) -> None:
    costs, table = drawn(3, alike=False), table_of(schedule, drawn(3, alike=False), 5)
    again = simulate(dataclasses.replace(costs, recompute=True), table)
    stages = len(costs.forward_s)
    assert again.again == frozenset(itertools.product(range(stages), range(5))) - kept(itertools.chain(*table), apart(stages))
    backward = np.repeat(np.asarray(costs.backward_s)[:, None], 5, axis=1)
    for stage, microbatch in again.again:
        backward[stage, microbatch] += costs.forward_s[stage]
    assert dataclasses.replace(again, again=frozenset()) == simulate(dataclasses.replace(costs, backward_s=backward), table)
    assert again.step_s > simulate(costs, table).step_s


def test_stages_on_one_device_share_its_memory_at_each_moment_and_unequal_microbatches_keep_their_own() -> None:
    costs = PipelineCosts([1.0] * 2, [1.0] * 2, fixed_bytes=[100, 200], kept_bytes=[[3, 2], [7, 5]])
    assert simulate(costs, clock_table("1f1b", apart(2), 2)).peak_bytes == (105.0, 207.0)
    table = clock_table("interleaved", [[0], [0]], 2)
    order = [task for tick in table for task in tick]
    held, most = 0, 0
    for stage, microbatch, step_pass in order:
        held += [[3, 2], [7, 5]][stage][microbatch] * (1 if step_pass == FORWARD else -1)
        most = max(most, held)
    assert simulate(costs, table, [[0], [0]]).peak_bytes == (300.0 + most,) * 2


def test_costs_of_nothing_take_no_time() -> None:
    found = simulate(PipelineCosts([0.0] * 3, [0.0] * 3), clock_table("1f1b", apart(3), 2))
    assert (found.step_s, found.bubble, found.peak_bytes) == (0.0, 0.0, (0.0,) * 3)
    assert ideal_bubble(1, 1) == 0.0 and float(chain_s([0.0], [], 5)) == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forward_s": [1.0]}, "a table of 8 tasks, 2 stages and 2 microbatches does not fit costs of 1 stages and devices of 1; make it"),
        ({"backward_s": [1.0] * 3}, r"backward_s has shape \(3,\) for 2 places and 2 microbatches; give \(2,\) or \(2, 2\)"),
        ({"send_forward_s": [1.0] * 2}, r"send_forward_s has shape \(2,\) for 1 places and 2 microbatches; give \(1,\) or \(1, 2\)"),
        ({"update_s": [1.0, -1.0]}, r"update_s holds -1.0, which is no cost; give finite values that are not negative"),
        ({"kept_bytes": [1.0, np.inf]}, r"kept_bytes holds inf, which is no cost"),
        ({"forward_s": [1.0, np.nan]}, r"forward_s holds nan, which is no cost"),
    ],
)
def test_costs_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    costs = dataclasses.replace(PipelineCosts([1.0] * 2, [1.0] * 2), **changes)
    with pytest.raises(PlanError, match=message):
        simulate(costs, clock_table("1f1b", apart(2), 2))


def test_many_pipelines_of_other_stages_than_the_table_are_refused() -> None:
    ones = np.ones((3, 2))
    with pytest.raises(PlanError, match="a table of 3 stages does not fit costs of 2; make it by clock_table for the same stages"):
        passes_s(ones, ones, ones[:, :1], ones[:, :1], clock_table("1f1b", apart(3), 2))


def test_a_step_of_nothing_is_refused() -> None:
    with pytest.raises(PlanError, match="a table of 0 tasks, 0 stages and 0 microbatches does not fit"):
        simulate(PipelineCosts([], []), ())


def test_an_order_that_waits_for_itself_is_refused() -> None:
    tasks = [Task(0, 0, BACKWARD), Task(0, 0, FORWARD)]
    with pytest.raises(PlanError, match="2 tasks of the table wait for each other; make it by clock_table"):
        simulate(PipelineCosts([1.0], [1.0]), ((tasks[0],), (tasks[1],)))
