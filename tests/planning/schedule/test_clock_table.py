from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.names import CLOCKED_SCHEDULES
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, Table, Task, clock_table, in_flight, kept, least_depths
from tests.cases import each

groups = st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True)
anywhere = st.lists(groups, min_size=1, max_size=9)
counts = st.integers(1, 12)


def apart(stages: int) -> list[list[int]]:
    return [[stage] for stage in range(stages)]


def check_legal(table: Table, devices: Sequence[Sequence[int]], microbatches: int) -> None:
    """Every task once, no device twice in a tick, nothing before what it needs."""
    tick = {task: at for at, now in enumerate(table) for task in now}
    wanted = itertools.product(range(len(devices)), range(microbatches), (FORWARD, BACKWARD))
    assert set(tick) == set(itertools.starmap(Task, wanted)) and len(tick) == sum(map(len, table))
    for now in table:
        busy = [device for task in now for device in devices[task.stage]]
        assert now and len(set(busy)) == len(busy)
    for stage, microbatch in itertools.product(range(len(devices)), range(microbatches)):
        forward, backward = tick[Task(stage, microbatch, FORWARD)], tick[Task(stage, microbatch, BACKWARD)]
        assert forward < backward
        if stage:
            assert tick[Task(stage - 1, microbatch, FORWARD)] < forward
            assert tick[Task(stage - 1, microbatch, BACKWARD)] > backward


@pytest.mark.parametrize("schedule", CLOCKED_SCHEDULES)
@given(st.integers(1, 9), counts)
def test_stages_on_devices_of_their_own_have_a_legal_table_of_the_fewest_ticks(schedule: str, stages: int, microbatches: int) -> None:
    devices = [[2 * stage, 2 * stage + 1] for stage in range(stages)]
    table = clock_table(schedule, devices, microbatches)
    check_legal(table, devices, microbatches)
    assert len(table) == 2 * (microbatches + stages - 1)


@given(anywhere, counts)
def test_interleaving_is_legal_wherever_the_stages_are_and_keeps_no_more_in_flight_than_a_chain(
    devices: list[list[int]], microbatches: int
) -> None:
    table = clock_table("interleaved", devices, microbatches)
    check_legal(table, devices, microbatches)
    busiest = max(sum(device in members for members in devices) for device in range(5))
    assert 2 * busiest * microbatches <= len(table) <= 2 * len(devices) * microbatches


@each("devices, stages_each, bundles", [*itertools.product([1, 2, 3, 4, 8], [1, 2, 3], [1, 2, 3])])
def test_stages_dealt_out_in_rounds_fill_and_drain_for_one_stage_a_device(devices: int, stages_each: int, bundles: int) -> None:
    microbatches = devices * bundles
    table = clock_table("interleaved", apart(devices) * stages_each, microbatches)
    check_legal(table, apart(devices) * stages_each, microbatches)
    assert len(table) == 2 * (microbatches * stages_each + devices - 1)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 17))
def test_rounds_are_legal_for_any_number_of_microbatches(devices: int, stages_each: int, microbatches: int) -> None:
    placed = apart(devices) * stages_each
    check_legal(clock_table("interleaved", placed, microbatches), placed, microbatches)


@given(st.integers(1, 9), counts)
def test_one_forward_one_backward_keeps_few_microbatches_and_fill_drain_keeps_all(stages: int, microbatches: int) -> None:
    few = tuple(min(stages - stage, microbatches) for stage in range(stages))
    assert in_flight(clock_table("1f1b", apart(stages), microbatches)) == few
    assert in_flight(clock_table("interleaved", apart(stages), microbatches)) == few
    assert in_flight(clock_table("fill_drain", apart(stages), microbatches)) == (microbatches,) * stages


@given(st.integers(1, 9), counts)
def test_interleaving_one_stage_a_device_is_one_forward_one_backward(stages: int, microbatches: int) -> None:
    tables = [clock_table(schedule, apart(stages), microbatches) for schedule in ("1f1b", "interleaved")]
    assert [set(now) for now in tables[0]] == [set(now) for now in tables[1]]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=7), counts)
def test_depths_are_kept_and_cost_no_ticks_where_they_are_enough(depths: list[int], microbatches: int) -> None:
    depths.sort(reverse=True)
    table = clock_table("1f1b", apart(len(depths)), microbatches, depths)
    check_legal(table, apart(len(depths)), microbatches)
    assert in_flight(table) == tuple(min(depth, microbatches) for depth in depths)
    assert table == clock_table("1f1b", apart(len(depths)), microbatches, np.array(depths))
    if depths[-1] == 1 and all(later < earlier for earlier, later in itertools.pairwise(depths)):
        assert len(table) == 2 * (microbatches + len(depths) - 1)


@given(st.integers(1, 8), counts)
def test_counting_transfers_as_stages_costs_no_ticks(stages: int, microbatches: int) -> None:
    table = clock_table("1f1b", apart(stages), microbatches, [2 * (stages - stage) - 1 for stage in range(stages)])
    assert len(table) == 2 * (microbatches + stages - 1)


@pytest.mark.parametrize("schedule", CLOCKED_SCHEDULES)
@given(counts)
def test_activations_are_kept_where_the_backward_pass_is_the_next_task_of_every_device(schedule: str, microbatches: int) -> None:
    devices = [[0, 1], [2], [0, 3], [2]] if schedule == "interleaved" else apart(3)
    tasks = list(itertools.chain(*clock_table(schedule, devices, microbatches)))
    expected = set()
    for stage, microbatch in itertools.product(range(len(devices)), range(microbatches)):
        order = {device: [task for task in tasks if device in devices[task.stage]] for device in devices[stage]}
        places = {device: mine.index(Task(stage, microbatch, FORWARD)) + 1 for device, mine in order.items()}
        if all(order[device][at] == Task(stage, microbatch, BACKWARD) for device, at in places.items()):
            expected.add((stage, microbatch))
    assert kept(tasks, devices) == expected and {(len(devices) - 1, microbatches - 1)} <= expected


@pytest.mark.parametrize("schedule", CLOCKED_SCHEDULES)
@given(st.permutations(range(5)), st.integers(1, 8))
def test_the_names_of_devices_do_not_matter(schedule: str, names: list[int], microbatches: int) -> None:
    devices = [[0, 3], [1], [2, 4]] if schedule != "interleaved" else [[0, 3], [1], [0, 2], [1, 3], [4]]
    renamed = [[names[device] for device in members] for members in devices]
    assert clock_table(schedule, renamed, microbatches) == clock_table(schedule, devices, microbatches)


@given(st.integers(2, 7), st.integers(1, 8))
def test_draining_is_filling_read_from_the_end(stages: int, microbatches: int) -> None:
    table = clock_table("fill_drain", apart(stages), microbatches)
    other = {FORWARD: BACKWARD, BACKWARD: FORWARD}
    assert table == tuple(tuple(Task(s, m, other[p]) for s, m, p in now) for now in reversed(table))


@given(st.lists(st.integers(1, 100), min_size=1, max_size=7), st.data())
def test_least_depths_satisfy_their_rule_and_no_smaller_ones_do(stage_s: list[int], data: st.DataObject) -> None:
    transfer_s = data.draw(st.lists(st.integers(0, 100), min_size=len(stage_s) - 1, max_size=len(stage_s) - 1))
    depths, largest = least_depths(stage_s, transfer_s), max([*stage_s, *transfer_s])

    def enough(tried: Sequence[int]) -> bool:
        runs = itertools.combinations(range(len(stage_s)), 2)
        inside = [(s, q, sum(stage_s[s : q + 1]) + sum(transfer_s[s:q])) for s, q in runs]
        return all((tried[s] - tried[q] + 1) * largest >= seconds for s, q, seconds in inside)

    assert enough(depths) and depths[-1] == 1 and list(depths) == sorted(depths, reverse=True)
    assert all(depth <= 2 * (len(stage_s) - stage) - 1 for stage, depth in enumerate(depths))
    for stage in range(len(depths) - 1):
        fewer = [depth - (at <= stage) for at, depth in enumerate(depths)]
        assert not enough(fewer) or fewer[stage] < fewer[stage + 1]
    clock_table("1f1b", apart(len(stage_s)), 4, depths)


def test_even_stages_keep_what_the_papers_do_and_transfers_as_long_as_stages_count_as_stages() -> None:
    for stages in range(1, 9):
        assert least_depths([0.3] * stages) == tuple(range(stages, 0, -1))
        assert least_depths([0.3] * stages, [0.3] * (stages - 1)) == tuple(2 * (stages - s) - 1 for s in range(stages))
    assert least_depths([0.0, 0.0]) == (1, 1) and least_depths(np.array([1.0, 0.5]), np.array([0.1])) == (2, 1)


@pytest.mark.parametrize(
    ("schedule", "devices", "microbatches", "depths", "message"),
    [
        ("gpipe", [[0]], 1, None, "there is no schedule 'gpipe'; use one of fill_drain, 1f1b, interleaved"),
        ("1f1b", [[0]], 0, None, "a step of 0 microbatches does nothing; use at least 1"),
        ("1f1b", [], 1, None, "a pipeline of no stages computes nothing; give the devices of at least one stage"),
        ("1f1b", [[0], []], 1, None, "stage 1 has no device; give it one, or join its layers to a neighbour"),
        ("1f1b", [[0, 1, 0]], 1, None, r"stage 0 has a device twice among \[0, 1, 0\]; name each once"),
        ("1f1b", [[0], [1], [0, 2]], 1, None, r"device 0 is in stages \[0, 2\], which schedule '1f1b' .* use 'interleaved'"),
        ("fill_drain", [[1], [1]], 1, None, r"device 1 is in stages \[0, 1\], which schedule 'fill_drain'"),
        ("fill_drain", [[0]], 1, [1], "schedule 'fill_drain' has no depths to choose; leave them out, or use '1f1b'"),
        ("1f1b", [[0], [1]], 1, [1], "there are 1 depths for 2 stages; give one a stage"),
        ("1f1b", [[0], [1]], 1, [1, 2], r"depths \[1, 2\] let a stage wait for ever; use at least 1 in the last"),
        ("1f1b", [[0], [1]], 1, [1, 0], r"depths \[1, 0\] let a stage wait for ever"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(
    schedule: str, devices: list[list[int]], microbatches: int, depths: list[int] | None, message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        clock_table(schedule, devices, microbatches, depths)
