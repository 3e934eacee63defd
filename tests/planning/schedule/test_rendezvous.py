"""Transfers that wait for their reader: two stages by hand, and what holds for all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, clock_table
from hetero_mtf.planning.schedule.simulator import PipelineCosts, Simulation, simulate

seeds, counts = st.integers(0, 10**6), st.integers(1, 10)


def run(costs: PipelineCosts, microbatches: int, schedule: str = "1f1b") -> Simulation:
    return simulate(costs, clock_table(schedule, [[stage] for stage in range(len(costs.forward_s))], microbatches))


def drawn(seed: int) -> PipelineCosts:
    rng = np.random.default_rng(seed)
    stages = int(rng.integers(1, 7))
    own, sent = rng.random((2, stages)), rng.random((2, stages - 1)) * rng.choice([0.1, 1.0, 3.0])
    return PipelineCosts(*own, *sent, shared_links=True, rendezvous=True)


def test_the_last_stage_waits_for_both_transfers_of_each_microbatch() -> None:
    costs = PipelineCosts([0.1, 1.0], [0.1, 1.0], [0.5], [0.5], shared_links=True, rendezvous=True)
    # forward and transfer of the first; then 2 s of compute each, and between them 0.5 s for the gradient and 0.5 s for the next input
    assert run(costs, 10).passes_s == pytest.approx(0.1 + 0.5 + 10 * 2.0 + 9 * 1.0 + 0.5 + 0.1)


def test_the_first_stage_waits_for_the_gradient_alone_as_what_it_sends_goes_on_beside_its_compute() -> None:
    costs = PipelineCosts([1.0, 0.1], [1.0, 0.1], [0.5], [0.5], shared_links=True, rendezvous=True)
    # two forward passes; then for each but the last two 0.5 s of gradient and 2 s of compute; 3 s to the end
    assert run(costs, 10).passes_s == pytest.approx(2.0 + 8 * 2.5 + 3.0)


def test_no_transfer_begins_before_its_reader_has_come_to_it() -> None:
    costs = PipelineCosts([0.1, 1.0, 0.2], [0.3, 1.0, 0.4], [0.5, 0.1], [0.5, 0.2], shared_links=True, rendezvous=True)
    step = run(costs, 6)
    ends = {(entry.stage, entry.microbatch, entry.step_pass): entry.end_s for entry in step.tasks}
    order = {stage: [entry for entry in step.tasks if entry.stage == stage] for stage in range(3)}
    for sent in step.transfers:
        stage = sent.stage + 1 if sent.step_pass == FORWARD else sent.stage
        at = next(at for at, entry in enumerate(order[stage]) if (entry.microbatch, entry.step_pass) == (sent.microbatch, sent.step_pass))
        assert at == 0 or sent.start_s >= order[stage][at - 1].end_s
        sender = sent.stage if sent.step_pass == FORWARD else sent.stage + 1
        assert sent.start_s >= ends[sender, sent.microbatch, sent.step_pass]


@given(seeds, counts, st.sampled_from(["1f1b", "fill_drain"]))
def test_every_step_ends_and_takes_no_less_than_where_transfers_begin_at_once(seed: int, microbatches: int, schedule: str) -> None:
    costs = drawn(seed)
    step = run(costs, microbatches, schedule)
    assert len(step.tasks) == 2 * len(costs.forward_s) * microbatches
    at_once = run(dataclasses.replace(costs, shared_links=False, rendezvous=False), microbatches, schedule)
    assert step.passes_s >= at_once.passes_s * (1 - 1e-9)


@given(seeds, counts)
def test_without_transfers_it_makes_no_difference(seed: int, microbatches: int) -> None:
    costs = dataclasses.replace(drawn(seed), send_forward_s=(), send_backward_s=())
    assert run(costs, microbatches).tasks == run(dataclasses.replace(costs, rendezvous=False), microbatches).tasks


@given(seeds, counts)
def test_a_link_serves_one_transfer_at_a_time(seed: int, microbatches: int) -> None:
    step = run(drawn(seed), microbatches)
    for boundary in {entry.stage for entry in step.transfers}:
        there = sorted((entry.start_s, entry.end_s) for entry in step.transfers if entry.stage == boundary)
        assert all(end_s <= start_s + 1e-9 for (_, end_s), (start_s, _) in zip(there, there[1:]))
    assert {entry.step_pass for entry in step.tasks} == {FORWARD, BACKWARD}
