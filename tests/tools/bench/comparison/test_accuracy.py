"""Which plans are measured, and what is said of the predictions."""

from __future__ import annotations

import doctest
from typing import Any

import pytest

import hetero_mtf as hm
from tests.planning.networks import cluster_of, pair_net
from tools.bench.comparison import accuracy
from tools.bench.comparison.accuracy import chosen, distinct, error, regret


def _case(*times: tuple[float, float]) -> dict[str, Any]:
    return {"plans": [{"predicted_s": predicted, "measured_s": measured} for predicted, measured in times]}


def test_the_examples_hold() -> None:
    found = doctest.testmod(accuracy)
    assert found.attempted and not found.failed


def test_the_automatic_plan_and_the_device_alone_are_always_measured() -> None:
    predicted = {"single": 9.0, "even": 1.1, "filters": 1.05, "batch": 1.0, "hybrid": 1.0}
    assert chosen(predicted, "hybrid", most=3) == ["hybrid", "batch", "single"]
    assert chosen({**predicted, "single": 0.9}, "single", most=2) == ["single", "batch"]


def test_slow_plans_are_measured_only_where_there_are_too_few_others() -> None:
    predicted = {"single": 1.5, "even": 2.5, "filters": 2.2, "batch": 1.0}
    assert chosen(predicted, "batch", most=4) == ["batch", "single", "filters"]
    assert chosen(predicted, "batch", most=4, least=2) == ["batch", "single"]
    assert chosen({"single": 1.0}, "single", most=4) == ["single"]


def test_a_plan_that_is_asked_for_is_measured_however_slow_it_is_predicted() -> None:
    predicted = {"batch": 1.0, "filters": 1.1, "single": 1.5, "pipeline": 9.0}
    assert chosen(predicted, "batch", most=3, also=["pipeline", "unknown"]) == ["batch", "single", "pipeline"]


def test_plans_of_one_layout_are_one_plan() -> None:
    graph, cluster = pair_net(), cluster_of(2)
    single = hm.Plan.single(graph, 0, cluster, 4)
    plans = {"even": hm.Plan.equal(graph, cluster, 4), "single": single, "batch": single}
    plans["filters"] = hm.Plan.filters(graph, [2, 2], cluster, 4)
    assert distinct(plans) == {"even": ["even", "filters"], "single": ["single", "batch"]}


def test_pipelines_that_differ_in_microbatches_alone_are_two_plans() -> None:
    graph, cluster = pair_net(), cluster_of(2)
    plans = {str(count): hm.Plan.pipeline(graph, [0, 2], [[0], [1]], [[1], [1]], cluster, 4, count) for count in (1, 2)}
    assert distinct(plans) == {"1": ["1"], "2": ["2"]}


def test_an_error_is_a_part_of_what_was_measured_and_has_a_sign() -> None:
    assert error({"predicted_s": 0.9, "measured_s": 1.0}) == pytest.approx(-0.1)
    assert error({"predicted_s": 3.0, "measured_s": 2.0}) == pytest.approx(0.5)


def test_the_regret_is_what_the_first_plan_takes_beyond_the_fastest() -> None:
    assert regret(_case((1.0, 1.0), (1.1, 2.0))["plans"]) == 0.0
    assert regret(_case((1.0, 1.2), (1.1, 1.0), (1.2, 3.0))["plans"]) == pytest.approx(0.2)
