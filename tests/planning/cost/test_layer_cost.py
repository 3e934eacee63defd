from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import batch_stage, filter_stage, single_stage
from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.profile.corrections import SPLITS, Corrections, LayerFactor
from hetero_mtf.planning.profile.curve import ALONE, PASSES
from hetero_mtf.planning.strategies.ideal import least_step_s
from tests.planning.layout_objective import drawn_graph, drawn_profile, spent
from tests.planning.networks import profile_of, residual_net, with_rest


@pytest.mark.fast("0", "1")
@pytest.mark.parametrize("seed", range(6))
def test_alone_is_what_the_clock_of_each_device_alone_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, 9)
    costs = Costs(drawn_profile(rng, graph))
    found = [predict(costs, single_stage(graph, device)).step_s for device in range(len(costs.profile.cluster.devices))]
    assert costs.alone_s.tolist() == pytest.approx(found, rel=1e-12)


@pytest.mark.fast("1")
@pytest.mark.parametrize("seed", range(4))
def test_a_device_alone_takes_its_predicted_step_where_it_was_measured_with_the_others_at_rest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, 9)
    profile = with_rest(drawn_profile(rng, graph), lambda device: 1 / (1 + device))
    costs = Costs(profile)
    steps = [predict(costs, single_stage(graph, device)).step_s for device in range(len(profile.cluster.devices))]
    assert costs.alone_s.tolist() == pytest.approx(steps, rel=1e-12)
    assert (costs.alone_s <= costs.beside_s * (1 + 1e-12)).all() and (costs.alone_s < costs.beside_s).any()


@pytest.mark.fast("1-False")
@pytest.mark.parametrize("rests", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_factors_of_devices_alone_and_beside_others_are_apart(seed: int, rests: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, 9)
    plain = drawn_profile(rng, graph)
    plain = with_rest(plain, lambda device: 1 / (1 + device)) if rests else plain
    devices = range(len(plain.cluster.devices))
    factors = [
        LayerFactor(curve.layer, curve.device, split, curve.step_pass, 3.0 if split == ALONE else 2.0)
        for curve in plain.curves
        for split in SPLITS
    ]
    corrected = Costs(dataclasses.replace(plain, corrections=Corrections(tuple(factors))))
    before = Costs(plain)
    assert corrected.alone_s.tolist() == pytest.approx((3 * before.alone_s).tolist(), rel=1e-12)
    assert corrected.beside_s.tolist() == pytest.approx((2 * before.beside_s).tolist(), rel=1e-12)
    steps = [predict(corrected, single_stage(graph, device)).step_s for device in devices]
    assert steps == pytest.approx(corrected.alone_s.tolist(), rel=1e-12)
    split = filter_stage(graph, [1.0] * len(devices), "pairs")
    entry = split.layouts[1]
    spent = [costs.spent_on(entry, split, "forward") for costs in (corrected, before)]
    assert spent[0].tolist() == pytest.approx((2 * spent[1]).tolist(), rel=1e-12)
    assert least_step_s(corrected, list(devices)) >= 2 * least_step_s(before, list(devices)) * (1 - 1e-9)


def test_tables_of_several_layers_are_the_sums_of_theirs() -> None:
    graph = residual_net()
    costs = Costs(profile_of(graph, [1e6, 3e5]))
    members = [(1, "column"), (2, "row"), (2, "row")]
    tables = [costs.tables.rows(layer, layout, step_pass)[1].tolist() for layer, layout in members for step_pass in PASSES]
    assert costs.summed_rows(members)[1].tolist() == pytest.approx([math.fsum(values) for values in zip(*tables)], rel=1e-14)
    batch = [costs.tables.rows(layer, "batch", step_pass)[0].tolist() for layer in (1, 3) for step_pass in ("forward", "backward")]
    assert costs.batch_rows([1, 3])[0].tolist() == pytest.approx([math.fsum(values) for values in zip(*batch)], rel=1e-14)
    assert costs.batch_rows([]).tolist() == [[0.0] * 5] * 2


def test_seconds_on_a_stage_are_those_of_each_processor() -> None:
    graph = residual_net(8)
    costs = Costs(profile_of(graph, [1e6, 3e5, 5e5]))
    for stage in (filter_stage(graph, [3.0, 1.0, 2.0], "pairs"), batch_stage(graph, [2, 1, 1], range(3))):
        for entry in stage.layouts:
            parts = entry.sizes or entry.samples or (0, 0, 0)
            found = costs.spent_on(entry, stage, "forward").tolist()
            assert found == [spent(costs, entry, d, parts[d], parts[d], "forward") for d in range(3)]


def _with_alone(parts: dict[int, float]) -> Costs:
    """Return costs of two devices on which some layers take a part of their seconds while the other device rests."""
    profile = profile_of(residual_net(8), [1e6, 3e5])
    whole = [c for c in profile.curves if c.layer in parts and c.dimension == "output" and c.step_pass != "update"]
    alone = [dataclasses.replace(c, dimension=ALONE, units=c.units[-1:], seconds=(parts[c.layer] * c.seconds[-1],)) for c in whole]
    alone = [dataclasses.replace(curve, spread=(0.0,)) for curve in alone]
    return Costs(dataclasses.replace(profile, curves=(*profile.curves, *alone)))


def test_a_device_whose_host_rests_otherwise_takes_what_it_took_alone() -> None:
    costs, before = _with_alone({1: 0.5, 2: 1.2}), Costs(profile_of(residual_net(8), [1e6, 3e5]))
    graph = costs.graph
    for device in range(2):
        stage = single_stage(graph, device)
        parts = [
            (costs.spent_on(entry, stage, step_pass) / before.spent_on(entry, stage, step_pass)).tolist()
            for entry in stage.layouts[1:4]
            for step_pass in ("forward", "backward")
            if before.spent_on(entry, stage, step_pass).any()
        ]
        firsts = [[0.5], [0.5], [1.0], [1.0]]  # a device alone is never slower
        assert parts[:4] == [pytest.approx(part) for part in firsts] and all(part == [1.0] for part in parts[4:])
        assert predict(costs, stage).step_s < predict(before, stage).step_s
        assert least_step_s(costs, [device]) <= predict(costs, stage).step_s
    together = filter_stage(graph, [3.0, 1.0], "pairs")
    assert predict(costs, together) == predict(before, together)


def test_devices_of_another_host_or_on_the_same_tensorflow_device_do_not_disturb() -> None:
    costs = Costs(profile_of(residual_net(8), [1e6] * 4))
    records = list(costs.profile.cluster.devices)
    records[2] = dataclasses.replace(records[2], host="other")
    records[3] = dataclasses.replace(records[3], tf_device=records[0].tf_device)
    costs.profile = dataclasses.replace(costs.profile, cluster=dataclasses.replace(costs.profile.cluster, devices=tuple(records)))
    assert costs.undisturbed((0, 1, 2)).tolist() == [False, False, True]
    assert costs.undisturbed((0, 3)).tolist() == [True, True] and costs.undisturbed((1,)).tolist() == [True]


def test_a_layer_split_both_ways_takes_the_part_of_its_samples() -> None:
    costs = Costs(profile_of(residual_net(8), [1e6]))
    entry = LayerLayout(1, "stem", "column", (4, 4), "filters", (3, 1), "batch")
    part = costs.tables.part_of_batch(1, "forward")[0, 3]
    assert spent(costs, entry, 0, 4, 3, "forward") == pytest.approx(costs.tables.rows(1, "column", "forward")[0, 4] * part)
