"""Paper A's split, and its table of claims from figures that are given here."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetero_mtf as hm
from models import paper_a
from tools.papers import filters
from tools.papers.filters import AUTO, EQUAL, PLANNED, TYPED, claims, first_split, networks, typed_plan, typed_sizes


@given(st.integers(3, 600), st.lists(st.integers(1, 100), min_size=2, max_size=3))
def test_the_paper_s_sizes_are_floors_of_at_least_one_and_the_rest_is_the_fastest_device_s(count: int, speeds: list[int]) -> None:
    sizes = typed_sizes(count, speeds)
    fastest = speeds.index(max(speeds))
    assert sum(sizes) == count
    assert all(size == max(1, count * s // sum(speeds)) for d, (size, s) in enumerate(zip(sizes, speeds)) if d != fastest)


def test_the_released_split_is_that_of_the_paper_s_layers_and_leaves_dense_layers_alone() -> None:
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = typed_plan(paper_a.cifar(), (70, 25, 5), cluster, 200)
    layouts = {entry.name: (entry.layout, entry.sizes) for entry in plan.stages[0].layouts}
    assert layouts["conv1"] == ("column", (42, 15, 3)) and layouts["conv2"] == ("row", (42, 15, 3))
    assert layouts["conv7"] == ("column", (336, 120, 24)) and layouts["hidden"][0] == layouts["logits"][0] == "replicated"
    assert first_split(plan) == "column 42:15:3"


def test_networks_have_the_weights_that_are_known() -> None:
    counted = {network.name: network.make().count_params() for network in networks()}
    assert counted == {"mnist": 6_464_678, "cifar10": 4_610_766}


@pytest.mark.slow
def test_both_networks_are_one_device_s_in_float64_under_their_shares(monkeypatch: Any) -> None:
    import keras

    def small() -> keras.Model:
        i = keras.Input((8, 8, 1))
        x = keras.layers.Conv2D(12, 3, padding="same", activation="relu", use_bias=False)(i)
        x = keras.layers.Conv2D(10, 3, padding="same", activation="relu", use_bias=False)(x)
        x = keras.layers.Dense(8, activation="relu")(keras.layers.Flatten()(keras.layers.AveragePooling2D(2)(x)))
        return keras.Model(i, keras.layers.Dense(10)(x))

    for network in networks():
        object.__setattr__(network, "make", small)
        assert max(filters.equivalence(network)["differences"].values()) <= 1e-8


def test_claims_give_what_was_measured_beside_them() -> None:
    seconds = {"alone 0": 1.0, "alone 1": 2.0, "alone 2": 3.0, EQUAL: 0.9, TYPED: 0.8, PLANNED: 0.6, AUTO: 0.5}
    times = {name: {"rounds_s": [step_s], "split": "column 3:1"} for name, step_s in seconds.items()}
    case = {"batch": 20, "convolution_weights": 5, "weights": 7, "automatic": "batch", "times": times, "differences": {TYPED: 2e-14}}
    rows = claims({network.name: case for network in networks()}, "quick")
    assert len(rows) == 6
    text = rows[1].texts["measured"]
    assert "quick, batch 20: a step takes 800 ms by the rule, 600 by our filters, 500 by auto (batch), 900 by equal filters" in text
    assert "2e-14" in rows[2].texts["measured"] and "1000 on the fastest device" in text
