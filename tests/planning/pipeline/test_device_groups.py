"""Groups of devices that stages of a pipeline may have, in one replica or in several, and pipelines that are made of them."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import PlanError
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.layout.blocks import blocks
from hetero_mtf.planning.pipeline import search as pipeline
from hetero_mtf.planning.pipeline.device_groups import DeviceGroups, can_replicate, distinct, replicated_groups, resized, undivided_groups
from hetero_mtf.planning.pipeline.group_stages import GroupStages
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, boundaries_s
from hetero_mtf.planning.pipeline.search import PipelineOptions, best_pipeline, chain_problem
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import profile_of, residual_net

BATCH = 16


def eight(speeds: tuple[float, ...] = (8e6, 7e6, 6e6, 5e6, 4e6, 3e6, 2e6, 1e6)) -> Profile:
    return profile_of(residual_net(8), list(speeds), batch_size=BATCH)


@pytest.fixture(scope="module")
def costs() -> MicrobatchCosts:
    return MicrobatchCosts(eight())


def test_among_four_devices_any_may_share_a_stage_and_among_more_neighbours_in_speed() -> None:
    assert {len(group) for group in undivided_groups([3, 0, 1, 2]).groups} == {1, 2, 3} and len(undivided_groups([3, 0, 1, 2]).groups) == 14
    assert undivided_groups([4, 0, 1, 2, 3]).groups[5:] == ((0, 4), (0, 1), (1, 2), (2, 3))
    assert undivided_groups([1, 0], several=False) == DeviceGroups(((1,), (0,)))


def test_devices_are_dealt_so_that_a_stage_or_a_replica_has_those_that_are_alike(costs: MicrobatchCosts) -> None:
    devices = distinct(costs.full_batch)
    assert devices == list(range(8))
    alike, apart = replicated_groups(costs.full_batch, devices, 2)
    assert alike.groups == ((0, 1), (2, 3), (4, 5), (6, 7)) and apart.groups == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert sum(alike.replicas) == sum(apart.replicas) == BATCH
    assert apart.replicas[0] > alike.replicas[0] > alike.replicas[1] > apart.replicas[1]


def test_a_replica_may_be_a_host_of_its_own(costs: MicrobatchCosts) -> None:
    profile = costs.profile
    hosts = ["a", "b", "b", "a", "a", "b", "b", "a"]
    devices = tuple(dataclasses.replace(device, host=host) for device, host in zip(profile.cluster.devices, hosts))
    spread = dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=devices))
    dealt = [device_groups.groups for device_groups in replicated_groups(MicrobatchCosts(spread).full_batch, range(8), 2)]
    assert ((0, 1), (3, 2), (4, 5), (7, 6)) in dealt


def test_too_few_devices_make_no_replicas_of_two_stages(costs: MicrobatchCosts) -> None:
    assert replicated_groups(costs.full_batch, [0, 1, 2], 2) == []
    assert {device_groups.groups for device_groups in replicated_groups(costs.full_batch, [0, 1, 2, 3], 2)} == {
        tuple(itertools.permutations(range(4), 2))
    }


def test_samples_are_dealt_again_by_the_slowest_stage_of_each_replica(costs: MicrobatchCosts) -> None:
    device_groups, at = DeviceGroups(((0, 7), (1, 6)), (8, 8)), costs.at(8)
    stages = [(range(4), (0, 7)), (range(4, 9), (1, 6))]
    found = resized(at, device_groups, stages)
    tables = [[at.batch_rows(layers)[group[row]] for layers, group in stages] for row in range(2)]
    best = min(range(1, 8), key=lambda n: max(max(float(table[count]) for table in tables[row]) for row, count in enumerate((n, 8 - n))))
    assert found.replicas == (2 * best, 16 - 2 * best) and found.groups == device_groups.groups and best > 4


def test_a_block_that_mixes_samples_is_not_replicated(costs: MicrobatchCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = blocks(costs.profile.graph)
    assert can_replicate(costs.full_batch, chain)
    monkeypatch.setattr(type(kind_of(costs.profile.graph.layers[chain[-1][-1]])), "mixes_samples", True, raising=False)
    assert not can_replicate(costs.full_batch, chain)


def test_a_replicated_pipeline_is_the_best_of_its_teams_and_a_plan(costs: MicrobatchCosts) -> None:
    made = hm.plan(costs.profile, strategy="pipeline", pipeline=PipelineOptions(replicas=2, microbatches=4, stages=3))
    assert len(made.replicas) == 2 and sum(made.replicas) == BATCH and len(made.stages) == 3
    assert all(len(stage.devices) == 2 for stage in made.stages) and made.replicas[0] > made.replicas[1]
    assert {entry.samples for stage in made.stages for entry in stage.layouts if entry.samples} == {made.replicas}
    assert made.proof is not None and "in 2 replicas" in made.proof.space
    made.check(costs.profile.graph)
    assert Plan.from_json(made.to_json()) == made


def test_the_chain_of_replicas_knows_what_a_replicated_stage_costs(costs: MicrobatchCosts) -> None:
    stages, device_groups = GroupStages(costs.at(4), 4), DeviceGroups(((0, 1), (2, 3), (4, 5)), (10, 6))
    problem = chain_problem(stages, device_groups, PipelineOptions(microbatches=4))
    chain = blocks(costs.profile.graph)
    for at, block in enumerate(chain):
        stage, cost = stages.best(block, (2, 3), device_groups.replicas)
        assert problem.seconds[1, at] == pytest.approx(stages.seconds(cost))
        assert {entry.samples for entry in stage.layouts if entry.samples} <= {(3, 1)}  # 10:6 of 4 samples
    held = problem.needed_bytes(0, 0, len(chain), 1)
    kept, fixed = problem.kept_bytes.sum(), problem.fixed_bytes.sum()
    assert held == pytest.approx([fixed + kept * 10 / 16, fixed + kept * 6 / 16])


def test_replicas_send_to_their_own_only(costs: MicrobatchCosts) -> None:
    profile = costs.profile
    slow = tuple(dataclasses.replace(link, latency_s=9.0) if {link.source, link.destination} == {0, 3} else link for link in profile.links)
    far = MicrobatchCosts(dataclasses.replace(profile, links=slow))
    device_groups = DeviceGroups(((0, 1), (2, 3)), (10, 6))
    problem = chain_problem(GroupStages(far.at(4), 4), device_groups, PipelineOptions(microbatches=4))
    assert problem.transfer_s(0, 1, 1) < 1.0
    crossed = dataclasses.replace(problem, replicas=1)
    assert crossed.transfer_s(0, 1, 1) > 18.0
    with pytest.raises(PlanError, match="group 0 has 2 devices, and 3 replicas need one each"):
        dataclasses.replace(problem, replicas=3)
    found = best_pipeline(far, PipelineOptions(replicas=2, microbatches=4, stages=2))
    sent = boundaries_s(far.at(4), [dataclasses.replace(stage) for stage in found.pipeline.stages])
    assert np.isfinite(sent).all() and problem.value(Allocation((0, 2), (0, 1))) < math.inf


def test_replicas_whose_better_samples_do_not_fit_keep_those_that_do(costs: MicrobatchCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = pipeline.chain_problem, []

    def first_only(stages: GroupStages, device_groups: DeviceGroups, options: PipelineOptions) -> ChainProblem:
        asked.append(device_groups.replicas)
        if len(asked) == 2:
            raise PlanError("no allocation fits; add memory")
        return real(stages, device_groups, options)

    monkeypatch.setattr(pipeline, "chain_problem", first_only)
    monkeypatch.setattr(pipeline, "replicated_groups", lambda *given: [DeviceGroups(((0, 7), (1, 6)), (8, 8))])
    found = best_pipeline(costs, PipelineOptions(replicas=2, microbatches=2))
    assert found.pipeline.execution.replicas == (8, 8) and len(asked) == 2 and asked[1] != (8, 8)


@pytest.mark.slow
def test_alike_devices_in_plenty_are_better_replicated() -> None:
    profile = eight((1e6,) * 8)
    made = hm.plan(profile, strategy="pipeline")
    alone = hm.plan(profile, strategy="pipeline", pipeline=PipelineOptions(replicas=1))
    assert len(made.replicas) > 1 and not alone.replicas
    assert made.predicted is not None and alone.predicted is not None and made.predicted.step_s < alone.predicted.step_s


@pytest.mark.fast(
    '3-options0-2 replicas of a pipeline of 2 stages or more cannot be made of 3 devices; ask for one replica',
    '8-options5-16 microbatches .* leave some of 4 replicas none; ask for 4 at most',
)
@pytest.mark.parametrize(
    ("devices", "options", "text"),
    [
        (3, PipelineOptions(replicas=2), "2 replicas of a pipeline of 2 stages or more cannot be made of 3 devices; ask for one replica"),
        (8, PipelineOptions(replicas=5), "5 replicas of a pipeline of 2 stages or more cannot be made of 8 devices; ask for 4 at most"),
        (8, PipelineOptions(replicas=4, stages=3), "4 replicas of a pipeline of 3 stages cannot be made of 8 devices; ask for 2 at most"),
        (8, PipelineOptions(replicas=2, groups=False), "cannot be made of 8 devices; ask for one replica"),
        (8, PipelineOptions(replicas=0), "0 replicas of a pipeline .* cannot be made of 8 devices; ask for 4 at most"),
        (8, PipelineOptions(replicas=4, microbatches=16), "16 microbatches .* leave some of 4 replicas none; ask for 4 at most"),
    ],
)
def test_replicas_that_cannot_be_are_refused(devices: int, options: PipelineOptions, text: str) -> None:
    profile = profile_of(residual_net(8), [1e6] * devices, batch_size=BATCH)
    with pytest.raises(PlanError, match=text):
        hm.plan(profile, strategy="pipeline", pipeline=options)
