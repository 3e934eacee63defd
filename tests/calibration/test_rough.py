"""Rough profiles: rates of two layers, operation counts for the rest, and plans that can be made from them."""

from __future__ import annotations

import dataclasses

import keras
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hetero_mtf as hm
from hetero_mtf.calibration.calibrate import rough_calibration
from hetero_mtf.calibration.points import points
from hetero_mtf.calibration.rough import START_S, DeviceRates, probed_points, rough_curves
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.speed_up import largest_speed_up
from tests.planning.networks import profile_of

L = keras.layers
BATCH = 16
RATES = DeviceRates(operations_per_s=1e6, bytes_per_s=1e9)


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    i = keras.Input((6, 6, 4))
    x = L.MaxPooling2D(name="pool")(L.Conv2D(16, 3, padding="same", name="heavy")(L.Conv2D(8, 3, padding="same", name="first")(i)))
    return layer_graph(keras.Model(i, L.Dense(3, name="head")(L.Flatten()(x))))


def curves_of(graph: LayerGraph, device: int, rates: DeviceRates) -> dict[tuple[int, str, str], Curve]:
    """Return the curves of a device by layer, dimension and pass."""
    curves = rough_curves(graph, points(graph, BATCH), device, rates, BATCH)
    return {(curve.layer, curve.dimension, curve.step_pass): curve for curve in curves}


def test_the_layer_with_most_operations_and_the_one_that_only_moves_bytes_are_probed(graph: LayerGraph) -> None:
    heaviest, light = probed_points(graph, BATCH)
    assert heaviest is not None and light is not None
    assert (heaviest.probe.name, heaviest.dimension, heaviest.samples) == ("heavy", "batch", BATCH // 8)
    assert (light.probe.name, light.samples) == ("pool", BATCH)


def test_a_network_without_operations_is_not_probed() -> None:
    i = keras.Input((6,))
    assert probed_points(layer_graph(keras.Model(i, L.Reshape((3, 2))(i))), BATCH) == (None, None)


def test_seconds_are_operations_or_bytes_over_the_rates(graph: LayerGraph) -> None:
    curves = curves_of(graph, 1, RATES)
    names = [layer.name for layer in graph.layers]
    heavy, first = names.index("heavy"), names.index("first")
    forward, backward = (curves[heavy, "batch", step_pass] for step_pass in ("forward", "backward"))
    assert forward.device == 1 and forward.units[-1] == BATCH
    assert forward.seconds[-1] == pytest.approx(START_S + graph.layers[heavy].flops * BATCH / 1e6)
    assert backward.seconds[-1] - START_S == pytest.approx(2 * (forward.seconds[-1] - START_S))
    assert curves[heavy, "output", "forward"].seconds[-1] == forward.seconds[-1]
    whole_s, no_input_gradient_s = (curves[first, "batch", step_pass].seconds[-1] - START_S for step_pass in ("forward", "backward"))
    assert no_input_gradient_s == pytest.approx(whole_s)


def test_a_layer_that_computes_little_and_an_update_take_what_their_bytes_take(graph: LayerGraph) -> None:
    fast = DeviceRates(operations_per_s=1e15, bytes_per_s=1e9)
    curves = curves_of(graph, 0, fast)
    names = [layer.name for layer in graph.layers]
    heavy = names.index("heavy")
    moved = 4 * BATCH * (6 * 6 * 16 + 3 * 3 * 16)
    assert curves[names.index("pool"), "batch", "forward"].seconds[-1] == pytest.approx(START_S + moved / 1e9)
    kernel = sum(variable.size for variable in graph.layers[heavy].variables)
    assert curves[heavy, "output", "update"].seconds == (pytest.approx(START_S + 5 * 4 * kernel / 1e9),)


def lstm() -> keras.Model:
    i = keras.Input((5, 4))
    return keras.Model(i, L.Dense(3)(L.LSTM(6)(i)))


def residual() -> keras.Model:
    i = keras.Input((6, 6, 4))
    x = L.ReLU()(L.BatchNormalization()(L.Conv2D(4, 3, padding="same")(i)))
    return keras.Model(i, L.Dense(3)(L.GlobalAveragePooling2D()(L.Add()([i, x]))))


def attention() -> keras.Model:
    i = keras.Input((6,), dtype="int32")
    x = L.Embedding(9, 8)(i)
    return keras.Model(i, L.Dense(3)(L.Flatten()(L.LayerNormalization()(x + L.MultiHeadAttention(2, 4)(x, x)))))


@pytest.mark.parametrize("make", [lstm, residual, attention])
def test_plans_of_all_strategies_are_made_from_a_rough_profile_of_live_devices(make: object) -> None:
    model = make()  # type: ignore[operator]
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        profile = rough_calibration(cluster, model, BATCH, "adam")
        assert make_plan(profile, strategy="single").used == (0,)
        plans = candidate_plans(Costs(profile))
    assert len(plans) > 1 and all(plan.predicted is not None and plan.predicted.step_s > 0 for plan in plans)
    assert profile.optimizer.name == "adam" and profile.launch_s > 0


def spread_rates(fastest: DeviceRates, parts: list[tuple[float, float]]) -> list[DeviceRates]:
    """Return the rates of the fastest device and of others that do parts of its operations and bytes a second."""
    others = [DeviceRates(fastest.operations_per_s * operations, fastest.bytes_per_s * moved) for operations, moved in parts]
    return [fastest, *others]


@given(
    st.floats(1e5, 1e9),
    st.floats(1e5, 1e9),
    st.lists(st.tuples(st.floats(0.1, 1.5), st.floats(0.1, 1.5)), min_size=1, max_size=3),
)
@settings(max_examples=10)
def test_no_plan_of_a_rough_profile_gains_more_than_the_bound(
    graph: LayerGraph, operations: float, moved: float, parts: list[tuple[float, float]]
) -> None:
    rates = spread_rates(DeviceRates(operations, moved), parts)
    profile = profile_of(graph, [1e6] * len(rates), 1e-7, batch_size=BATCH)
    wanted = points(graph, BATCH, coarse=True)
    curves = tuple(curve for device, of in enumerate(rates) for curve in rough_curves(graph, wanted, device, of, BATCH))
    profile = dataclasses.replace(profile, curves=curves, launch_s=1e-3)
    alone_s = make_plan(profile, strategy="single").predicted.step_s  # type: ignore[union-attr]
    best_s = min(plan.predicted.step_s for plan in candidate_plans(Costs(profile)))  # type: ignore[union-attr]
    assert alone_s <= best_s * largest_speed_up(profile) * (1 + 1e-9)
