"""What each device is worth to a pipeline."""

from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import single_stage
from hetero_mtf.planning.layout.records import DeviceContribution
from hetero_mtf.planning.pipeline.contribution import pipeline_contributions
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.search import PipelineOptions, best_pipeline
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.report.plan_facts import facts, reported_plan
from tests.planning.networks import Net, profile_of


def profile(*speeds: float, **options: float) -> Profile:
    net = Net()
    for at in range(6):
        net.conv(f"conv{at}", 8)
    return profile_of(net.graph(), speeds, 1e-4, batch_size=8, **options)  # type: ignore[arg-type]


def contributions(of: Profile, made: Plan) -> dict[str, DeviceContribution]:
    costs = MicrobatchCosts(of)
    made = made if made.predicted is not None else dataclasses.replace(made, predicted=predict_plan(costs.full_batch, made))
    return {each.device: each for each in pipeline_contributions(costs, made)}


def best_s(of: Profile, **options: object) -> float:
    return best_pipeline(MicrobatchCosts(of), PipelineOptions(microbatches=4, **options)).prediction.step_s  # type: ignore[arg-type]


def test_without_one_of_two_devices_the_other_is_alone() -> None:
    of = profile(2e6, 1e6)
    made = plan(of, strategy="pipeline", pipeline=PipelineOptions(microbatches=4))
    found, costs = contributions(of, made), MicrobatchCosts(of).full_batch
    alone = [predict(costs, single_stage(of.graph, device)).step_s for device in range(2)]
    assert [found[f"worker:{device}"].step_s for device in range(2)] == [alone[1], alone[0]]
    assert made.predicted is not None
    assert found["worker:0"].reason == f"leaving out worker:0 makes a step {alone[1] / made.predicted.step_s:.2f} times as long"


def test_without_one_of_three_the_others_take_the_best_pipeline_of_theirs() -> None:
    of = profile(2e6, 1.5e6, 1e6)
    made = plan(of, strategy="pipeline", pipeline=PipelineOptions(microbatches=4))
    assert set(made.used) == {0, 1, 2}
    assert contributions(of, made)["worker:2"].step_s == pytest.approx(best_s(profile(2e6, 1.5e6)))


def test_the_schedule_and_recomputation_of_the_plan_are_kept() -> None:
    of, kept = profile(2e6, 1.5e6, 1e6), {"schedule": "fill_drain", "recompute": True}
    made = plan(of, strategy="pipeline", pipeline=PipelineOptions(microbatches=4, **kept))  # type: ignore[arg-type]
    steps = [best_s(of, devices=(0, 1), **options) for options in (kept, {**kept, "schedule": "1f1b"}, {**kept, "recompute": False})]
    assert contributions(of, made)["worker:2"].step_s == pytest.approx(steps[0]) and min(abs(step - steps[0]) for step in steps[1:]) > 1e-6


def test_a_device_that_is_not_used_is_told_with_the_best_pipeline_it_is_in() -> None:
    of = profile(2e6, 1.5e6, 1e6)
    made = plan(of, strategy="pipeline", pipeline=PipelineOptions(microbatches=4, devices=(0, 1)))
    assert set(made.used) == {0, 1}
    found = contributions(of, made)["worker:2"]
    assert not found.used and found.step_s == pytest.approx(best_s(of))
    assert found.reason.startswith("using worker:2 as well makes a step 0.")
    slow = profile(2e6, 1.5e6, 1e3)
    bad = Plan.pipeline(slow.graph, [1, 2], [[0], [1]], [[1], [1]], slow.cluster, 8, microbatches=4)
    lazy = contributions(slow, bad)["worker:2"]
    assert lazy.step_s is not None and lazy.step_s > 1.2 * best_s(slow, devices=(0, 1)), "a better plan without it is not told"


@pytest.mark.slow
def test_the_plans_own_stages_are_tried_where_groups_are_too_many_to_search() -> None:
    of = profile(*[1e6] * 6)
    made = Plan.pipeline(of.graph, [1, 4], [[0, 1, 2], [3, 4, 5]], [[1] * 3] * 2, of.cluster, 8, microbatches=4, split="batch")
    found = contributions(of, made)
    assert found["worker:0"].step_s is not None and found["worker:0"].step_s < best_s(of, groups=False, devices=(1, 2, 3, 4, 5))
    fewer = Plan.pipeline(of.graph, [1, 4], [[0, 1], [3, 4, 5]], [[1] * 2, [1] * 3], of.cluster, 8, microbatches=4, split="batch")
    more = contributions(of, fewer)["worker:2"]
    assert not more.used and more.step_s is not None and more.step_s < best_s(of), "which has groups of two at most"


def test_layers_of_a_device_that_was_alone_go_to_a_neighbour() -> None:
    of = profile(*[1e6] * 6)
    made = Plan.pipeline(
        of.graph, [1, 3, 5], [[0, 1], [2], [3, 4, 5]], [[1] * 2, [1], [1] * 3], of.cluster, 8, microbatches=4, split="batch"
    )
    merged = [Plan.pipeline(of.graph, [1, at], [[0, 1], [3, 4, 5]], [[1] * 2, [1] * 3], of.cluster, 8, 4, split="batch") for at in (3, 5)]
    steps = [predict_plan(MicrobatchCosts(of).full_batch, other) for other in merged]
    found = contributions(of, made)["worker:2"].step_s
    assert found is not None and found <= min(step.step_s for step in steps if step is not None) * (1 + 1e-9)


@pytest.mark.fast("filled, drained and computed again")
@pytest.mark.parametrize(
    "made",
    [
        {"starts": [1, 4], "devices": [[0, 1], [2, 3]], "shares": [[1], [1]], "replicas": [5, 3]},
        {"starts": [1, 2, 4, 5], "devices": [[0], [1], [0], [1]], "shares": [[1]] * 4, "schedule": "interleaved"},
        {"starts": [1, 4], "devices": [[0], [2]], "shares": [[1], [1]], "schedule": "fill_drain", "recompute": True},
    ],
    ids=["replicas", "interleaved", "filled, drained and computed again"],
)
def test_every_pipeline_says_what_its_devices_are_worth(made: dict[str, object]) -> None:
    of = profile(2e6, 1.5e6, 1.5e6, 1e6)
    typed = Plan.pipeline(of.graph, cluster=of.cluster, batch_size=8, microbatches=2, **made)  # type: ignore[arg-type]
    found = contributions(of, typed)
    assert {name for name, each in found.items() if each.used} == {typed.devices[device] for device in typed.used}
    assert len(found) == 4 and all(each.step_s is not None for each in found.values())
    told = next(section for section in facts(reported_plan(typed, of)) if section.title == "Contribution of each device")
    assert told.table is not None and [row[0] for row in told.table.rows] == list(found)


def test_a_device_without_which_nothing_fits_says_so() -> None:
    of = profile(1e6, 1e6)
    made = plan(of, strategy="pipeline", pipeline=PipelineOptions(microbatches=4))
    tight = dataclasses.replace(of, memory=tuple(dataclasses.replace(pool, free_bytes=1) for pool in of.memory))
    found = contributions(tight, made)
    assert [each.reason for each in found.values()] == [f"no plan without worker:{d} was found that fits in memory" for d in (0, 1)]


def test_what_nothing_predicts_has_no_worth_to_tell() -> None:
    of = profile(1e6, 1e6)
    typed = Plan.pipeline(of.graph, [1, 4], [[0], [1]], [[1], [1]], of.cluster, 8, microbatches=2, schedule="synchronous")
    assert reported_plan(typed, of).plan.contributions == ()
