from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.hidden_sums import HiddenSums
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.link_cost import ring
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import Prediction
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from tests.cases import examples
from tests.planning.layout_objective import spent
from tests.planning.networks import Net, attention_net, frozen, pair_net, profile_of, residual_net

BATCH = 4


def predicted(profile: Profile, plan: Plan) -> Prediction:
    return predict(Costs(profile), plan.stages[0])


def work(graph: LayerGraph) -> float:
    return 3.1 * BATCH * sum(layer.flops for layer in graph.layers)


def bytes_of(graph: LayerGraph, name: str) -> float:
    return next(4 * BATCH * math.prod(layer.output_shape) for layer in graph.layers if layer.name == name)


def test_one_device_takes_the_sum_of_its_layers_and_never_waits() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6, 5e5], latency_s=1.0)
    found = predicted(profile, Plan.single(graph, 1, profile.cluster, BATCH))
    assert found.step_s == pytest.approx(work(graph) / 5e5)
    assert (found.forward_s / found.step_s, found.backward_s / found.step_s) == (pytest.approx(1 / 3.1), pytest.approx(2 / 3.1))
    (part,) = found.parts
    assert part.device == "worker:1" and part.compute_s == pytest.approx(found.step_s) and (part.communication_s, part.idle_s) == (0.0, 0.0)


def test_calling_a_step_and_feeding_its_batch_come_on_top_whatever_the_plan_and_all_devices_wait_meanwhile() -> None:
    graph = pair_net()
    plain = profile_of(graph, [1e6, 5e5])
    called = dataclasses.replace(plain, launch_s=2.0, feed_s_per_byte=0.5)
    more_s = 2.0 + 0.5 * 4 * BATCH * math.prod(graph.layers[0].output_shape)
    for plan in (Plan.single(graph, 1, plain.cluster, BATCH), Plan.equal(graph, plain.cluster, BATCH)):
        before, after = predicted(plain, plan), predicted(called, plan)
        assert before.launch_s == 0.0 and after.launch_s == more_s and after.step_s == pytest.approx(before.step_s + more_s)
        assert (after.forward_s, after.backward_s) == (before.forward_s, before.backward_s)
        for old, new in zip(before.parts, after.parts):
            assert (new.compute_s, new.communication_s) == (old.compute_s, old.communication_s) and new.idle_s == pytest.approx(
                old.idle_s + more_s
            )


@pytest.mark.parametrize(("bucket_bytes", "messages"), [(0, 6), (4 * 24, 5), (None, 1)])
def test_every_bucket_of_gradients_of_a_split_batch_is_a_message_to_each_other_processor(bucket_bytes: int | None, messages: int) -> None:
    graph = pair_net()
    plain = profile_of(graph, [1e6, 1e6, 1e6], latency_s=0.25, bandwidth=1e9)
    links = tuple(dataclasses.replace(link, message_s=0.125) for link in plain.links)
    plan, costs = Plan.batch(graph, [2, 1, 1], plain.cluster, BATCH), [Costs(plain), Costs(dataclasses.replace(plain, links=links))]
    before, after = (predict(each, plan.stages[0], bucket_bytes=bucket_bytes) for each in costs)
    assert after.step_s == pytest.approx(before.step_s + 2 * 0.125 * messages)
    assert after.parts[0].communication_s == pytest.approx(before.parts[0].communication_s + 2 * 0.125 * messages)
    alone = Plan.single(graph, 1, plain.cluster, BATCH)
    assert predicted(plain, alone) == predicted(dataclasses.replace(plain, links=links), alone)


def hiding(profile: Profile, hidden: float) -> Profile:
    return dataclasses.replace(profile, links=tuple(dataclasses.replace(link, hidden=hidden) for link in profile.links))


def test_sums_of_gradients_that_computing_hides_are_charged_from_the_end_of_the_backward_pass() -> None:
    graph = pair_net()
    plain = profile_of(graph, [1e6, 1e6], latency_s=0.0, bandwidth=1e4)
    stage = Plan.batch(graph, [2, 2], plain.cluster, BATCH).stages[0]
    before, half, after = (predict(Costs(hiding(plain, hidden)), stage) for hidden in (0.0, 0.5, 1.0))
    sums_s = before.parts[0].communication_s
    weights = [Costs(plain).memory.message_bytes[layer] for layer in range(len(graph.layers))]
    backward_s = [2 * BATCH / 2 * layer.flops / 1e6 for layer in graph.layers]
    updates_s = [0.1 * BATCH * layer.flops / 1e6 if weights[layer_index] else 0.0 for layer_index, layer in enumerate(graph.layers)]
    now = until = before.forward_s
    arrivals = {}
    for index in reversed(range(len(graph.layers))):
        now += backward_s[index]
        if weights[index]:
            until = arrivals[index] = max(until, now) + sums_s * weights[index] / sum(weights)
    for index in sorted(arrivals, reverse=True):
        now = max(now, arrivals[index]) + updates_s[index]
    assert after.step_s == pytest.approx(now) and before.step_s > half.step_s >= after.step_s
    assert after.parts[0].communication_s == pytest.approx(after.step_s - after.parts[0].compute_s)


@pytest.mark.parametrize("hidden", [0.0, 0.6, 1.0])
def test_hiding_changes_nothing_where_no_gradients_are_added_up(hidden: float) -> None:
    graph = pair_net()
    plain = profile_of(graph, [1e6, 5e5], latency_s=0.25, bandwidth=1e6)
    for plan in (Plan.single(graph, 1, plain.cluster, BATCH), Plan.equal(graph, plain.cluster, BATCH)):
        assert predicted(hiding(plain, hidden), plan) == predicted(plain, plan)


def test_a_collective_that_layers_wait_for_delays_what_is_being_sent() -> None:
    sums = HiddenSums({"mesh": np.array([0.5])})
    sums.begin("mesh", 3, np.array([[[1.0], [2.0]]]), 4.0)
    sums.delay("mesh", np.array([[[3.0], [1.0]]]), [10.0])
    sums.begin("mesh", 2, np.array([[[13.0], [13.0]]]), 2.0)
    sums.delay("mesh", np.array([[[20.0], [1.0]]]), [10.0])
    sums.begin("mesh", 1, np.array([[[30.0], [30.0]]]), 2.0)
    assert [float(sums.arrivals_s[layer].item()) for layer in (3, 2, 1)] == [4.0, 15.0, 31.0]


def test_the_slowest_device_sets_the_time_between_two_meetings() -> None:
    graph = pair_net(12, 12, 4)
    profile = profile_of(graph, [1e6, 5e5])
    found = predicted(profile, Plan.equal(graph, profile.cluster, BATCH))
    split = 3.1 * BATCH * sum(layer.flops for layer in graph.layers if layer.kind in ("Conv2D", "Dense")) / 2
    assert found.step_s == pytest.approx(split / 5e5, rel=1e-3)
    fast, slow = found.parts
    assert slow.idle_s == pytest.approx(0, abs=1e-6) and fast.idle_s == pytest.approx(found.step_s / 2, rel=1e-3)


def test_a_pair_costs_one_all_reduce_forward_and_the_head_a_gather_and_an_all_reduce_back() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6, 1e6], latency_s=0.25, bandwidth=1e6)
    found = predicted(profile, Plan.equal(graph, profile.cluster, BATCH))
    after_row, head, head_input = (bytes_of(graph, name) for name in ("second", "head", "flatten"))
    once = (0.25 + after_row / 1e6) + (0.25 + 0.6 * head / 1e6) + (0.25 + head_input / 1e6)  # the head's 5 units lie 3 to 2
    assert found.parts[0].communication_s == pytest.approx(once)


def test_gathering_after_every_layer_gathers_each_column_once_and_reduces_its_input_gradient() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6, 1e6], latency_s=0.0, bandwidth=1e6)
    found = predicted(profile, Plan.filters(graph, [1, 1], profile.cluster, BATCH, pairing="gather"))
    gathered = sum(bytes_of(graph, name) for name in ("first", "second")) / 2e6 + 0.6 * bytes_of(graph, "head") / 1e6
    reduced = 2 * sum(bytes_of(graph, name) for name in ("first", "flatten")) / 2e6
    assert found.parts[0].communication_s == pytest.approx(gathered + reduced)


@pytest.mark.parametrize(("trains", "times"), [(True, 2), (False, 1)])
def test_attention_that_is_split_adds_its_scores_up_forward_and_their_gradients_backward(trains: bool, times: int) -> None:
    graph = attention_net() if trains else frozen(attention_net())
    whole = next(i for i, layer in enumerate(graph.layers) if layer.kind == "Attention")
    profile = profile_of(graph, [1e6, 1e6], latency_s=0.25, bandwidth=1e6)
    stage = Plan.equal(graph, profile.cluster, BATCH).stages[0]
    assert stage.layouts[whole].layout == "split"
    costs, without = Costs(profile), Costs(profile)
    without.memory.score_bytes[whole] = 0
    scores = 4 * BATCH * 12 * 12
    more_s = predict(costs, stage).parts[0].communication_s - predict(without, stage).parts[0].communication_s
    assert more_s == pytest.approx(times * (0.25 + scores / 1e6))


def test_attention_whose_queries_have_fewer_channels_than_its_values_is_whole() -> None:
    graph = attention_net(8, fewer=4)
    profile = profile_of(graph, [1e6, 1e6])
    layouts = {entry.name: entry.layout for entry in Plan.equal(graph, profile.cluster, BATCH).stages[0].layouts}
    assert [layouts[name] for name in ("query", "value", "attention", "weight")] == ["column", "column", "replicated", "replicated"]


def test_a_frozen_network_sends_no_gradients_and_has_no_backward_pass() -> None:
    graph = frozen(pair_net())
    profile = profile_of(graph, [1e6, 1e6], bandwidth=1e6)
    found = predicted(profile, Plan.equal(graph, profile.cluster, BATCH))
    assert found.backward_s == 0.0
    assert found.parts[0].communication_s == pytest.approx((bytes_of(graph, "second") + 0.6 * bytes_of(graph, "head")) / 1e6)


def test_processors_on_one_device_take_turns() -> None:
    graph = pair_net(12, 12, 4)
    profile = profile_of(graph, [1e6, 1e6], same_device=True)
    alone = predicted(profile, Plan.single(graph, 0, profile.cluster, BATCH)).step_s
    assert predicted(profile, Plan.equal(graph, profile.cluster, BATCH)).step_s >= alone * (1 - 1e-9)


def test_a_layer_that_does_not_mix_may_go_unmeasured_but_a_convolution_may_not() -> None:
    graph = residual_net()
    profile = profile_of(graph, [1e6, 1e6])
    convs = {i for i, layer in enumerate(graph.layers) if layer.kind in ("Conv2D", "Dense")}
    bare = dataclasses.replace(profile, curves=tuple(c for c in profile.curves if c.layer in convs))
    assert predicted(bare, Plan.equal(graph, profile.cluster, BATCH)).step_s > 0
    none = dataclasses.replace(profile, curves=tuple(c for c in profile.curves if (c.layer, c.device) != (1, 1)))
    with pytest.raises(ProfileError, match="the profile has no forward curve for layer stem as column on worker:1; calibrate again"):
        predicted(none, Plan.equal(graph, profile.cluster, BATCH))


@pytest.mark.slow
@examples(6, 100)
@given(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any), st.sampled_from(["pairs", "gather"]), st.floats(0, 0.1))
def test_the_parts_of_every_device_add_up_to_the_step(shares: list[int], pairing: str, latency_s: float) -> None:
    graph = residual_net()
    profile = profile_of(graph, [1e6, 5e5, 2e5], latency_s=latency_s, bandwidth=1e6)
    found = predicted(profile, Plan.filters(graph, shares, profile.cluster, BATCH, pairing=pairing))
    assert found.step_s == pytest.approx(found.forward_s + found.backward_s + found.update_s)
    for part in found.parts:
        assert part.compute_s + part.communication_s + part.idle_s == pytest.approx(found.step_s)
        assert min(part.compute_s, part.communication_s, part.idle_s) >= 0 and part.memory_bytes > 0


def weight_bytes(graph: LayerGraph) -> float:
    return sum(4.0 * v.size for layer in graph.layers for v in layer.variables if v.trainable)


def test_a_split_batch_sends_the_gradients_once_before_the_update() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6, 1e6], latency_s=0.25, bandwidth=1e6)
    found = predicted(profile, Plan.batch(graph, [1, 1], profile.cluster, BATCH))
    around = ring(profile, (0, 1))
    assert found.parts[0].communication_s == pytest.approx(around.all_reduce_s(weight_bytes(graph)))
    computing = 3 * BATCH * sum(layer.flops for layer in graph.layers) / 2e6
    update = 0.1 * BATCH * sum(layer.flops for layer in graph.layers if layer.variables) / 1e6
    assert found.update_s == pytest.approx(update, rel=0.01)
    assert found.step_s == pytest.approx(computing + found.parts[0].communication_s + found.update_s, rel=1e-3)


def test_on_two_axes_units_and_samples_multiply() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6] * 4, bandwidth=1e15)
    bent = Curve(1, 0, "batch", "forward", BATCH, (1, 2, 4), (3.0, 4.0, 9.0), (0.0,) * 3)
    costs = Costs(dataclasses.replace(profile, curves=(*profile.curves, bent)))
    entry = Plan.grid(graph, [1, 1], [2, 1], profile.cluster, BATCH).stages[0].layouts[1]
    alone = costs.tables.rows(1, "column", "forward")[0, 8]
    assert spent(costs, entry, 0, 8, 2, "forward") == pytest.approx(alone * 4 / 9)
    assert spent(costs, entry, 0, 8, 2, "update") == pytest.approx(costs.tables.rows(1, "column", "update")[0, 8])


def test_two_equal_axes_halve_the_work_twice() -> None:
    graph = pair_net(12, 12, 4)
    profile = profile_of(graph, [1e6] * 4, bandwidth=1e15)
    found = predicted(profile, Plan.grid(graph, [1, 1], [1, 1], profile.cluster, BATCH))
    mixing = sum(layer.flops for layer in graph.layers if layer.kind in ("Conv2D", "Dense"))
    assert found.forward_s == pytest.approx(BATCH * mixing / 4 / 1e6, rel=1e-3)
    assert found.update_s == pytest.approx(0.1 * BATCH * mixing / 2 / 1e6, rel=1e-3)


def test_collectives_on_two_axes_send_a_rows_samples_and_a_columns_weights() -> None:
    graph = pair_net(12, 12, 4)
    profile = profile_of(graph, [1e6] * 4, bandwidth=1e6)
    found = predicted(profile, Plan.grid(graph, [3, 1], [1, 1], profile.cluster, BATCH))
    one = ring(profile, (0, 1))
    activations = [one.all_reduce_s(0.75 * bytes_of(graph, name)) for name in ("second", "flatten")] + [
        one.all_gather_s(0.75 * bytes_of(graph, "head"))
    ]
    weights = one.all_reduce_s(weight_bytes(graph) / 2)
    assert found.parts[0].communication_s == pytest.approx(math.fsum(activations) + weights, rel=1e-3)
    assert found.parts[3].communication_s == pytest.approx(math.fsum(activations) / 3 + weights, rel=1e-3)


@pytest.mark.parametrize("border", ["all_gather", "all_to_all"])
def test_a_border_sends_what_its_name_says_both_ways(border: str) -> None:
    graph = pair_net(6, 8, 8)
    profile = profile_of(graph, [1e6, 1e6], bandwidth=1e6)
    found = predicted(profile, Plan.hybrid(graph, [3, 1], profile.cluster, BATCH, border=border))
    around, flat, head = ring(profile, (0, 1)), bytes_of(graph, "flatten"), bytes_of(graph, "head")
    convs = sum(4.0 * v.size for layer in graph.layers[:3] for v in layer.variables)
    sent = around.all_reduce_s(convs)
    if border == "all_gather":
        sent += around.sent_s(1, 0.75 * flat) + around.sent_s(1, 0.75 * head) + around.all_reduce_s(flat)  # both lie 3 to 1
    else:
        sent += 2 * (0.75 * 0.25 * flat / 1e6) + around.all_reduce_s(head)
    assert found.parts[0].communication_s == pytest.approx(sent)


def test_batch_norm_over_a_split_batch_joins_two_numbers_a_channel() -> None:
    graph = residual_net(8)
    profile = profile_of(graph, [1e6] * 3, latency_s=1.0, bandwidth=1e15)
    found = predicted(profile, Plan.batch(graph, [1, 1, 1], profile.cluster, BATCH))
    around = ring(profile, (0, 1, 2))
    joined = around.all_gather_s(3 * 2 * 8 * 4) + around.all_reduce_s(2 * 8 * 4)
    assert found.parts[0].communication_s == pytest.approx(joined + around.all_reduce_s(weight_bytes(graph)))


def test_mixing_weights_sends_them_to_one_partner_after_the_update() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6] * 4, latency_s=0.25, bandwidth=1e6)
    stage = Plan.batch(graph, [1] * 4, profile.cluster, BATCH).stages[0]
    found = predict(Costs(profile), stage, "butterfly_mixing")
    assert found.parts[0].communication_s == pytest.approx(0.25 + weight_bytes(graph) / 1e6)
    assert found.update_s > found.parts[0].communication_s


def test_every_output_is_gathered_and_shared_weights_are_sent_and_updated_once() -> None:
    graph = pair_net(12, 10, 6)
    second = dataclasses.replace(graph.layers[4], name="head:2", shared_with=4)
    twice = LayerGraph((*graph.layers, second), graph.dtype, (4, 5))
    profile, once = (profile_of(g, [1e6, 1e6], bandwidth=1e6) for g in (twice, graph))
    batch, alone = (predicted(p, Plan.batch(p.graph, [1, 1], p.cluster, BATCH)) for p in (profile, once))
    assert batch.update_s == pytest.approx(alone.update_s) and batch.parts[0].communication_s == pytest.approx(
        alone.parts[0].communication_s
    )
    assert batch.forward_s > alone.forward_s and batch.parts[0].memory_bytes > alone.parts[0].memory_bytes
    apart = LayerGraph((*graph.layers, dataclasses.replace(second, shared_with=None)), graph.dtype, (4, 5))
    split = profile_of(apart, [1e6, 1e6], bandwidth=1e6)
    found, single = (predicted(p, Plan.equal(p.graph, p.cluster, BATCH)) for p in (split, once))
    more = ring(split, (0, 1)).all_gather_s(bytes_of(graph, "head"))  # the gradients of both heads meet in one all-reduce
    assert found.parts[0].communication_s == pytest.approx(single.parts[0].communication_s + more)


@examples(6, 100)
@given(st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any), st.sampled_from(["batch", "all_gather", "all_to_all", "grid"]))
def test_the_parts_of_every_device_add_up_to_the_step_of_a_split_batch(shares: list[int], form: str) -> None:
    graph = residual_net()
    profile = profile_of(graph, [1e6, 5e5, 2e5, 2e5], latency_s=0.01, bandwidth=1e6)
    if form == "batch":
        plan = Plan.batch(graph, shares, profile.cluster, BATCH)
    elif form == "grid":
        plan = Plan.grid(graph, [1 + shares[0], shares[1]], [1 + shares[2], shares[3]], profile.cluster, BATCH)
    else:
        plan = Plan.hybrid(graph, shares, profile.cluster, BATCH, border=form)
    found = predicted(profile, plan)
    assert found.step_s == pytest.approx(found.forward_s + found.backward_s + found.update_s)
    for part in found.parts:
        spent = part.compute_s + part.communication_s + part.idle_s
        assert spent == pytest.approx(found.step_s) and min(part.compute_s, part.communication_s, part.idle_s) >= 0


def test_weights_that_are_split_are_gathered_with_their_gradients_for_an_optimizer_that_needs_full_variable_variables() -> None:
    graph = pair_net()
    plain = profile_of(graph, [1e6, 1e6], 0.0, 1e3)
    gathering = dataclasses.replace(plain, optimizer=OptimizerSpec("adafactor"))
    split, replicated = Plan.filters(graph, [1, 1], plain.cluster, BATCH), Plan.batch(graph, [1, 1], plain.cluster, BATCH)
    apart = {entry.layer: max(entry.sizes) / sum(entry.sizes) for entry in split.stages[0].layouts if entry.sizes}
    gathered = sum(part * 4 * sum(v.size for v in graph.layers[layer].variables if v.trainable) for layer, part in apart.items())
    before, after = predicted(plain, split), predicted(gathering, split)
    tables = Costs(plain).tables
    assert gathered and after.parts[0].communication_s - before.parts[0].communication_s == pytest.approx(2 * gathered / 1e3)
    more_s = [
        tables.rows(entry.layer, "replicated", "update")[0, -1] - tables.rows(entry.layer, entry.layout, "update")[0, entry.sizes[0]]
        for entry in split.stages[0].layouts
        if entry.sizes
    ]
    assert after.parts[0].compute_s - before.parts[0].compute_s == pytest.approx(sum(more_s)) and min(more_s) > 0
    assert predicted(gathering, replicated).step_s == predicted(plain, replicated).step_s


def test_norms_that_need_not_wait_for_each_other_meet_once_forward_and_once_backward() -> None:
    net = Net()
    stem = net.conv("stem", 6)
    ends = []
    for name in ("left", "right"):
        net.conv(name, 6, [stem])
        ends.append(net.add("BatchNormalization", f"{name}_norm"))
    net.add("Add", "sum", ends)
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5)
    graph = net.graph()
    profile = profile_of(graph, [1e6, 1e6], latency_s=0.25, bandwidth=1e9)
    costs, by_itself = Costs(profile), Costs(profile)
    by_itself.merged = lambda stage, numbers: {}  # type: ignore[method-assign]
    stage = Plan.batch(graph, [1, 1], profile.cluster, BATCH).stages[0]
    merged, alone = predict(costs, stage), predict(by_itself, stage)
    assert alone.forward_s - merged.forward_s == pytest.approx(0.25) and alone.backward_s - merged.backward_s == pytest.approx(0.25)
    assert alone.parts[0].communication_s - merged.parts[0].communication_s == pytest.approx(0.5)
