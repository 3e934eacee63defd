"""Strategy pipeline: the best cut of what the profile allows, laid out, simulated and compared with all other strategies."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import NothingToSplitError, PlanError, ProfileError
from hetero_mtf.planning.allocation.allocate import Allocated
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.choose import candidate_plans, plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.blocks import blocks
from hetero_mtf.planning.layout.stage_from_layouts import unsplit_stage
from hetero_mtf.planning.pipeline.device_groups import DeviceGroups
from hetero_mtf.planning.pipeline.group_stages import GroupStages, with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, boundaries_s, predict_pipeline
from hetero_mtf.planning.pipeline.search import PipelineOptions, _depths, best_pipeline, chain_problem
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.clock_table import least_depths
from hetero_mtf.planning.schedule.execution import Execution
from tests.planning.networks import deep_net, profile_of, residual_net

BATCH = 8


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profile_of(residual_net(8), [1e6, 5e5, 3e5], batch_size=BATCH)


def test_the_pipeline_found_is_the_best_cut_of_all(profile: Profile) -> None:
    costs, options = MicrobatchCosts(profile), PipelineOptions(microbatches=4, stages=2)
    found = best_pipeline(costs, options)
    stages, chain = GroupStages(costs.at(2), 4), blocks(profile.graph)
    groups = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    problem = chain_problem(stages, DeviceGroups(tuple(groups)), options)
    pairs = [(a, b) for a, b in itertools.permutations(range(6), 2) if set(groups[a]).isdisjoint(groups[b])]
    every = [problem.value(Allocation((0, cut), pair)) for cut in range(1, len(chain)) for pair in pairs]
    assert found.allocated.value == pytest.approx(min(every)) and found.allocated.status == "optimal"
    assert [layer for stage in found.pipeline.stages for layer in stage.layers] == list(range(len(profile.graph.layers)))
    assert set(chain[0]) <= set(found.pipeline.stages[0].layers)


def test_on_single_devices_the_simulated_step_is_the_objective_and_the_end_of_the_step(profile: Profile) -> None:
    costs = MicrobatchCosts(profile)
    found = best_pipeline(costs, PipelineOptions(microbatches=1, stages=2))
    apart = [stage for stage in found.pipeline.stages if len(stage.devices) == 1]
    if len(apart) == 2:  # one microbatch: nothing overlaps but the updates
        assert found.simulation.passes_s <= found.allocated.value <= found.prediction.step_s + 1e-9
    assert found.prediction.step_s == pytest.approx(found.simulation.step_s + found.prediction.launch_s)


@pytest.mark.parametrize("recompute", [False, True])
def test_a_stage_on_one_device_costs_what_the_chain_problem_has(profile: Profile, recompute: bool) -> None:
    stages = GroupStages(MicrobatchCosts(profile).at(2), 4, recompute)
    for block in blocks(profile.graph):
        alone = stages.alone(block)
        for device in range(3):
            cost = stages.cost(unsplit_stage(stages.costs.graph, block, device))
            assert alone[device] == pytest.approx(stages.seconds(cost))


@pytest.mark.parametrize("schedule", ["1f1b", "fill_drain"])
def test_one_microbatch_is_computed_once_with_recomputation_too(profile: Profile, schedule: str) -> None:
    kept, again = (
        best_pipeline(MicrobatchCosts(profile), PipelineOptions(microbatches=1, stages=2, schedule=schedule, recompute=recompute))
        for recompute in (False, True)
    )
    assert again.allocated.value == kept.allocated.value and again.prediction.step_s == kept.prediction.step_s
    assert not again.simulation.again


def test_a_group_takes_the_cheapest_of_its_splits_with_all_its_samples(profile: Profile) -> None:
    stages = GroupStages(MicrobatchCosts(profile).at(4), 2)
    layers = tuple(range(len(profile.graph.layers)))
    stage, cost = stages.best(layers, (0, 1))
    slower = [stages.cost(other) for form in ("pairs", "gather", "batch") for other in stages._split(layers, (0, 1), form)]
    assert stages.seconds(cost) == min(stages.seconds(other) for other in slower)
    again = with_samples(stages._split(layers, (0, 1), "batch")[0], BATCH)
    assert all(sum(entry.samples) == BATCH for entry in again.layouts if entry.samples)


def test_parts_of_the_predicted_step_add_up_on_every_device(profile: Profile) -> None:
    found = best_pipeline(MicrobatchCosts(profile))
    assert {part.device for part in found.prediction.parts} == {f"worker:{d}" for s in found.pipeline.stages for d in s.devices}
    for part in found.prediction.parts:
        assert part.compute_s + part.communication_s + part.idle_s >= found.prediction.step_s - 1e-9 and part.memory_bytes > 0
    again = dataclasses.replace(found.pipeline, execution=dataclasses.replace(found.pipeline.execution, recompute=True))
    slower, _ = predict_pipeline(MicrobatchCosts(profile), again)
    assert slower.step_s > found.prediction.step_s


def test_what_crosses_a_border_is_charged_for_its_bytes_and_each_reader() -> None:
    graph = residual_net(8)
    profile = profile_of(graph, [1e6, 5e5, 3e5], batch_size=BATCH)
    costs = MicrobatchCosts(profile).full_batch
    ends = (0, 3, 5, len(graph.layers))
    stages = [unsplit_stage(costs.graph, range(a, b), d) for d, (a, b) in enumerate(itertools.pairwise(ends))]
    found = boundaries_s(costs, stages)
    assert found.shape == (2,) and (found > 0).all()
    lonely = dataclasses.replace(profile, links=())
    with pytest.raises(ProfileError, match="no link between the stages of worker:. and worker:.; calibrate again"):
        boundaries_s(MicrobatchCosts(lonely).full_batch, stages)


def test_a_plan_by_strategy_pipeline_says_how_good_its_cut_is_and_goes_through_a_file(profile: Profile, tmp_path: object) -> None:
    made = hm.plan(profile, strategy="pipeline", pipeline=hm.PipelineOptions(microbatches=4, schedule="fill_drain", recompute=True))
    assert (made.strategy, made.microbatches, made.schedule, made.recompute) == ("pipeline", 4, "fill_drain", True)
    assert made.proof is not None and made.proof.status == "optimal" and made.proof.gap == 0 and not made.depths
    assert Plan.from_json(made.to_json()) == made
    made.check(profile.graph)


@pytest.mark.fast("equal")
@pytest.mark.parametrize("allocator", ["equal", "proportional", "genetic", "exact"])
def test_no_allocator_is_below_the_exact_one(profile: Profile, allocator: str) -> None:
    options = PipelineOptions(allocator=allocator, microbatches=4, time_limit_s=5.0)
    exact = best_pipeline(MicrobatchCosts(profile), PipelineOptions(allocator="exact", microbatches=4))
    assert best_pipeline(MicrobatchCosts(profile), options).allocated.value >= exact.allocated.value * (1 - 1e-9)


@pytest.mark.slow
def test_auto_says_why_a_pipeline_lost_or_takes_it(profile: Profile) -> None:
    made = plan(profile)
    names = [alternative.strategy for alternative in made.alternatives]
    assert (made.strategy == "pipeline") != ("pipeline" in names)
    best = min(a.step_s for a in made.alternatives if a.step_s is not None)
    assert made.predicted is not None and made.predicted.step_s <= best * (1 + 1e-9)
    if "pipeline" in names:
        lost = made.alternatives[names.index("pipeline")]
        assert "microbatches leave equal stages idle for" in lost.reason and lost.bottleneck is not None


@pytest.mark.slow
def test_auto_takes_a_pipeline_over_slow_links_but_not_one_that_changes_the_numbers_of_one_device() -> None:
    plain, frozen, normed = (profile_of(deep_net(norm), [1e8, 1e8], 1e-3, 1e5, 16) for norm in ("", "frozen", "trained"))
    assert plan(plain).strategy == plan(frozen).strategy == "pipeline"  # a frozen norm takes no statistics
    made = plan(normed)
    lost = next(alternative for alternative in made.alternatives if alternative.strategy == "pipeline")
    assert made.strategy == "single" and made.predicted is not None
    assert lost.step_s is not None and lost.step_s < made.predicted.step_s
    assert "its layers take statistics of one of 16 microbatches, not of the batch, so it has to be asked for" in lost.reason
    assert plan(normed, strategy="pipeline").strategy == plan(normed, pipeline=PipelineOptions(microbatches=4)).strategy == "pipeline"


def test_a_pipeline_that_gains_less_than_predictions_err_is_left_for_one_device() -> None:
    planned = plan(profile_of(deep_net(""), [1e8, 2e7], 1e-3, 1e5, 16))
    assert planned.strategy == "pipeline" and planned.predicted is not None
    planned = plan(profile_of(deep_net(""), [1e8, 1.7e7], 1e-3, 1e5, 16))
    lost = next(alternative for alternative in planned.alternatives if alternative.strategy == "pipeline")
    assert planned.strategy == "single" and planned.predicted is not None
    assert lost.step_s is not None and lost.step_s < planned.predicted.step_s < lost.step_s * 1.11
    assert "within the error of 10% that predictions have" in lost.reason


@pytest.mark.slow
def test_pipelines_are_among_the_candidates_unless_they_change_the_numbers_of_one_device() -> None:
    plain, normed = (Costs(profile_of(deep_net(norm), [1e8, 1e8], 1e-3, 1e5, 16)) for norm in ("", "trained"))
    assert candidate_plans(plain)[0].strategy == "pipeline"
    assert all(candidate.strategy != "pipeline" for candidate in candidate_plans(normed))


def test_no_pipeline_is_passed_over_where_batch_norm_takes_longer_over_a_split_batch(profile: Profile) -> None:
    norm = next(index for index, layer in enumerate(profile.graph.layers) if layer.kind == "BatchNormalization")
    unsplit = [c for c in profile.curves if (c.layer, c.dimension) == (norm, "output") and c.step_pass != "update"]
    split = [dataclasses.replace(c, dimension="batch", units=(1, 8), seconds=(12 * c.seconds[-1], 100 * c.seconds[-1])) for c in unsplit]
    costs = MicrobatchCosts(dataclasses.replace(profile, curves=(*profile.curves, *split)))
    best = best_pipeline(costs, PipelineOptions(groups=False)).prediction.step_s
    steps = [best_pipeline(costs, PipelineOptions(microbatches=count, groups=False)).prediction.step_s for count in (2, 4, 8)]
    assert best == pytest.approx(min(steps))


def test_impossible_pipelines_say_what_is_possible(profile: Profile) -> None:
    with pytest.raises(PlanError, match="9 microbatches cannot be made of a batch of 8 samples; use from 1 to 8"):
        plan(profile, strategy="pipeline", pipeline=PipelineOptions(microbatches=9))
    with pytest.raises(PlanError, match="strategy batch takes no options of a pipeline"):
        plan(profile, strategy="batch", pipeline=PipelineOptions())
    alone = profile_of(residual_net(8), [1e6], batch_size=BATCH)
    with pytest.raises(NothingToSplitError, match="the cluster 1 devices, and a pipeline needs two of each"):
        plan(alone, strategy="pipeline")
    with pytest.raises(PlanError, match="stages"):
        plan(profile, strategy="pipeline", pipeline=PipelineOptions(stages=40))


def test_a_pipeline_that_does_not_fit_says_by_how_much(profile: Profile) -> None:
    small = tuple(dataclasses.replace(pool, free_bytes=1000) for pool in profile.memory)
    with pytest.raises(PlanError, match="fits into memory"):
        plan(dataclasses.replace(profile, memory=small), strategy="pipeline")


def test_deeper_stages_are_taken_only_where_memory_allows(profile: Profile) -> None:
    found = best_pipeline(MicrobatchCosts(profile), PipelineOptions(microbatches=8, stages=2))
    assert len(found.pipeline.execution.depths) == 2 and found.pipeline.execution.depths[0] >= found.pipeline.execution.depths[1] >= 1
    shallow = Pipeline(found.pipeline.stages, Execution("1f1b", 8, depths=(2, 1)))
    deep, _ = predict_pipeline(MicrobatchCosts(profile), found.pipeline)
    flat, _ = predict_pipeline(MicrobatchCosts(profile), shallow)
    assert deep.step_s <= flat.step_s + 1e-9
    assert np.isfinite(deep.step_s)


@pytest.mark.slow
def test_whoever_asks_hears_every_generation_and_every_answer(profile: Profile) -> None:
    bars: list[tuple[int, int]] = []
    heard: list[tuple[int, float]] = []
    options = PipelineOptions(
        allocator="genetic",
        stages=2,
        progress=lambda generation, generations, best_s: bars.append((generation, generations)),
        on_allocated=lambda problem, found: heard.append((problem.microbatches, found.value)),
    )
    found = best_pipeline(MicrobatchCosts(profile), options)
    assert sorted(count for count, _ in heard) == [2, 4, 8] and (found.pipeline.execution.microbatches, found.allocated.value) in heard
    assert bars[0][0] == 1 and [generation for generation, _ in bars].count(1) == 3
    assert options == PipelineOptions(allocator="genetic", stages=2)


def test_stages_are_as_deep_as_slow_links_ask_if_memory_allows() -> None:
    slow = profile_of(residual_net(8), [1e6, 1e6], latency_s=0.3, batch_size=BATCH)
    heard: list[tuple[ChainProblem, Allocated]] = []
    options = PipelineOptions(microbatches=8, stages=2, groups=False, on_allocated=lambda *both: heard.append(both))
    found = best_pipeline(MicrobatchCosts(slow), options)
    ((problem, chosen),) = heard
    stages, transfers = problem.spent_s(chosen.allocation)
    assert found.pipeline.execution.depths == least_depths(stages.tolist(), transfers.tolist()) and found.pipeline.execution.depths > (2, 1)
    held = [float(problem.needed_bytes(group, first, end, 2 - at)[0]) for at, (group, first, end) in enumerate(_runs(problem, chosen))]
    tight = np.zeros(2)
    tight[[problem.groups[group][0] for group in chosen.allocation.groups]] = held
    assert _depths(dataclasses.replace(problem, memory_bytes=tight), chosen, stages.tolist()) == (2, 1)


def _runs(problem: ChainProblem, chosen: Allocated) -> list[tuple[int, int, int]]:
    return chosen.allocation.runs(problem.blocks)
