from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.layer_tables import LayerTables
from hetero_mtf.planning.layout.manual import batch_stage, single_stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.curve import Curve
from tests.planning.networks import Net, pair_net, profile_of, residual_net

BATCH = 4


def test_a_flattened_split_is_looked_up_by_its_fraction_of_the_features() -> None:
    net = Net((4, 4, 2))
    net.conv("conv", 6)
    net.add("Flatten", "flatten")
    net.add("Dropout", "drop")
    net.dense("row", 5)
    graph = net.graph()
    profile = profile_of(graph, [1e6, 1e6])
    as_features = tuple(
        dataclasses.replace(c, units=(1, 96)) if (c.layer, c.dimension) == (4, "input") or c.layer == 3 else c for c in profile.curves
    )
    other = dataclasses.replace(profile, curves=as_features)
    plan = Plan.filters(graph, [2, 1], profile.cluster, BATCH)
    assert [plan.stages[0].layouts[i].layout for i in (2, 4)] == ["split", "row"]
    tables, others = LayerTables(profile), LayerTables(other)
    assert len(others.rows(4, "row", "forward")[0]) == 7
    assert others.rows(4, "row", "forward")[0, -1] == pytest.approx(tables.rows(4, "row", "forward")[0, -1])
    assert others.rows(3, "split", "forward")[0, -1] == pytest.approx(tables.rows(3, "split", "forward")[0, -1])


def test_a_layer_measured_whole_serves_for_every_part() -> None:
    graph = residual_net()
    profile = profile_of(graph, [1e6])
    pool = next(i for i, layer in enumerate(graph.layers) if layer.kind == "GlobalAveragePooling2D")
    whole = tuple(dataclasses.replace(c, dimension="whole", units=(1, 8)) if c.layer == pool else c for c in profile.curves)
    tables, others = LayerTables(profile), LayerTables(dataclasses.replace(profile, curves=whole))
    assert others.rows(pool, "split", "forward")[0] == pytest.approx(tables.rows(pool, "split", "forward")[0])
    assert others.rows(pool, "replicated", "forward")[0] == pytest.approx([tables.rows(pool, "split", "forward")[0, -1]])


def test_an_update_measured_one_way_serves_the_other() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6, 1e6])
    once = tuple(c for c in profile.curves if (c.step_pass, c.dimension) != ("update", "input"))
    tables, others = LayerTables(profile), LayerTables(dataclasses.replace(profile, curves=once))
    assert others.rows(2, "row", "update")[0] == pytest.approx(tables.rows(2, "row", "update")[0])


def test_samples_are_looked_up_where_they_were_measured_else_taken_in_proportion() -> None:
    graph = pair_net()
    profile = profile_of(graph, [1e6, 1e6])
    bent = Curve(1, 0, "batch", "forward", BATCH, (1, 2, 4), (3.0, 4.0, 9.0), (0.0,) * 3)
    tables = LayerTables(dataclasses.replace(profile, curves=(*profile.curves, bent)))
    assert tables.rows(1, "batch", "forward")[0] == pytest.approx([0.0, 3.0, 4.0, 6.5, 9.0])
    whole_s = tables.rows(1, "replicated", "backward")[0, -1]
    assert tables.rows(1, "batch", "backward")[0] == pytest.approx([whole_s * s / 4 for s in range(5)])
    assert tables.rows(1, "batch", "update")[0].tolist() == [tables.rows(1, "replicated", "update")[0, -1]] * 5


def test_batch_norm_over_a_split_batch_has_its_own_seconds_with_all_samples_too() -> None:
    graph = residual_net()
    profile = profile_of(graph, [1e6])
    norm = next(i for i, layer in enumerate(graph.layers) if layer.kind == "BatchNormalization")
    stem = next(i for i, layer in enumerate(graph.layers) if layer.name == "stem")
    full_s = {layer: LayerTables(profile).rows(layer, "replicated", "forward")[0, -1] for layer in (norm, stem)}
    bent = [Curve(layer, 0, "batch", "forward", BATCH, (1, 4), (full_s[layer], 2 * full_s[layer]), (0.0,) * 2) for layer in full_s]
    costs = Costs(dataclasses.replace(profile, curves=(*profile.curves, *bent)))
    tables = costs.tables
    assert tables.rows(norm, "batch", "forward")[0, -1] == pytest.approx(2 * full_s[norm])
    assert tables.rows(norm, "replicated", "forward")[0, -1] == pytest.approx(full_s[norm])
    assert tables.part_of_batch(norm, "forward")[0, [0, 1, 4]] == pytest.approx([0.0, 1.0, 2.0])
    assert tables.part_of_batch(stem, "forward")[0, [0, 1, 4]] == pytest.approx([0.0, 0.5, 1.0])
    single = single_stage(graph, 0)
    assert costs.spent_on(single.layouts[norm], single, "forward").tolist() == pytest.approx([full_s[norm]])
    assert costs.alone_s == pytest.approx(Costs(profile).alone_s)
    on_both = [dataclasses.replace(curve, device=device) for curve in bent for device in range(2)]
    pair = profile_of(graph, [1e6, 1e6])
    two = Costs(dataclasses.replace(pair, curves=(*pair.curves, *on_both)))
    split = batch_stage(graph, [3, 1], range(2))
    assert two.spent_on(split.layouts[norm], split, "forward").tolist() == pytest.approx([5 / 3 * full_s[norm], full_s[norm]])


def test_alike_layers_share_their_rows() -> None:
    graph = residual_net(8)
    tables = LayerTables(profile_of(graph, [1e6]))
    again = [layer.name for index, layer in enumerate(graph.layers) if tables.alike[index] != index]
    assert again
    index = next(i for i, layer in enumerate(graph.layers) if layer.name == again[0])
    assert tables.rows(index, "column", "forward") is tables.rows(tables.alike[index], "column", "forward")
