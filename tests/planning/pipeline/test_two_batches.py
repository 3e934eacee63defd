from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import candidate_plans, may_halve_batches, plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict, stage_cost
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.pipeline.group_stages import with_samples
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.two_batches import predict_two_batches
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import attention_net, deep_net, pair_net, profile_of

BATCH = 8


def profile(hidden: float, bandwidth: float = 1e6) -> Profile:
    plain = profile_of(pair_net(8, 8, 64), [1e7, 1e7], latency_s=1e-4, bandwidth=bandwidth, batch_size=BATCH)
    return dataclasses.replace(plain, links=tuple(dataclasses.replace(link, hidden=hidden) for link in plain.links))


def filters(each: Profile) -> Stage:
    return Plan.filters(each.graph, [1.0, 1.0], each.cluster, BATCH).stages[0]


def one_after_the_other_s(each: Profile, stage: Stage) -> tuple[float, float]:
    """Return the seconds of both halves without overlap, and those of the collectives that layers wait for."""
    half = stage_cost(MicrobatchCosts(each).at(BATCH // 2), with_samples(stage, BATCH // 2), beside=False)
    sent_s = 2 * (half.forward.communication_s[0] + half.backward.communication_s[0])
    return 2 * half.microbatch_s + half.finish.seconds, sent_s


@pytest.mark.parametrize("hidden", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("bandwidth", [1e5, 1e6, 1e7])
def test_overlap_saves_at_most_what_is_hidden_and_never_costs(hidden: float, bandwidth: float) -> None:
    each = profile(hidden, bandwidth)
    stage = filters(each)
    predicted = predict_two_batches(MicrobatchCosts(each), stage)
    without_s, sent_s = one_after_the_other_s(each, stage)
    assert without_s - hidden * sent_s - 1e-9 <= predicted.step_s <= without_s + 1e-9
    assert predicted.step_s >= sent_s
    for part in predicted.parts:
        assert part.compute_s + part.communication_s + part.idle_s == pytest.approx(predicted.step_s)
    assert predicted.forward_s + predicted.backward_s + predicted.update_s == pytest.approx(predicted.step_s)


def test_hidden_collectives_of_one_half_go_on_while_the_other_computes() -> None:
    each = profile(1.0)
    stage = filters(each)
    without_s, sent_s = one_after_the_other_s(each, stage)
    predicted = predict_two_batches(MicrobatchCosts(each), stage)
    assert predicted.step_s < without_s - 0.3 * min(sent_s, without_s - sent_s)
    assert predicted.step_s < predict(Costs(each), stage).step_s
    assert predicted.parts[0].compute_s == pytest.approx(predict(Costs(each), stage).parts[0].compute_s)


def test_one_device_and_a_split_of_samples_have_nothing_to_hide() -> None:
    each = profile(1.0)
    for split in (Plan.single(each.graph, 1, each.cluster, BATCH), Plan.batch(each.graph, [4, 4], each.cluster, BATCH)):
        without_s, _ = one_after_the_other_s(each, split.stages[0])
        assert predict_two_batches(MicrobatchCosts(each), split.stages[0]).step_s == pytest.approx(without_s)


def test_an_odd_batch_and_layouts_on_two_axes_are_predicted() -> None:
    graph = attention_net()
    plain = profile_of(graph, [1e7, 1e7, 1e7, 1e7], latency_s=1e-4, bandwidth=1e6, batch_size=5)
    grid = Plan.grid(graph, [3, 2], [1.0, 1.0], plain.cluster, 5).stages[0]
    predicted = predict_two_batches(MicrobatchCosts(plain), grid)
    assert predicted.step_s > 0 and len(predicted.parts) == 4 and predicted.parts[0].memory_bytes > 0


def hidden_rows() -> Profile:
    """Return a profile under which columns and rows are best and their collectives take long, but computing hides them."""
    plain = profile_of(pair_net(8, 8, 64), [1e7, 1e7], latency_s=1e-4, bandwidth=1e7, batch_size=BATCH)
    return dataclasses.replace(plain, links=tuple(dataclasses.replace(link, hidden=1.0) for link in plain.links))


def test_auto_takes_two_batches_where_they_are_faster_by_more_than_predictions_err(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetero_mtf.planning.choose.prediction_error", lambda profile, step_s: 0.0)
    each = hidden_rows()
    taken = plan(each)
    assert (taken.schedule, taken.microbatches) == ("two_batches", 2) and taken.predicted is not None
    assert taken.predicted == predict_plan(Costs(each), taken)
    in_one = taken.alternatives[0]
    assert in_one.step_s is not None and in_one.step_s > taken.predicted.step_s and "in two batches" in in_one.reason
    monkeypatch.setattr("hetero_mtf.planning.choose.prediction_error", lambda profile, step_s: 1.0)
    left = plan(each)
    assert left.schedule == "synchronous" and any("in two batches" in other.strategy for other in left.alternatives)


@pytest.mark.slow
def test_plans_in_two_batches_are_candidates_unless_the_network_mixes_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetero_mtf.planning.choose.prediction_error", lambda profile, step_s: 0.5)
    each = hidden_rows()
    assert any(candidate.schedule == "two_batches" for candidate in candidate_plans(Costs(each)))
    normed = profile_of(deep_net("trained"), [1e7, 1e7], latency_s=1e-4, bandwidth=1e7, batch_size=BATCH)
    assert not may_halve_batches(normed.graph) and may_halve_batches(each.graph)
    assert all(candidate.schedule == "synchronous" for candidate in candidate_plans(Costs(normed)))
    assert not any("two batches" in other.strategy for other in plan(normed).alternatives)
