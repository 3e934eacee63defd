"""A plan in a few lines: strategy, each device's part, the predicted step and its bottleneck."""

import dataclasses

import pytest

from hetero_mtf.commands.output.plan_report import flops_shares, plan_summary
from hetero_mtf.planning.layout.records import DevicePart, Prediction
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import cluster_of, pair_net

PARTS = (DevicePart("worker:0", 0.5, 0.25, 0.25), DevicePart("worker:1", 0.75, 0.25, 0.0), DevicePart("worker:2", 0.5, 0.25, 0.25))


def test_a_plan_is_a_heading_a_line_a_device_and_its_bottleneck():
    graph = pair_net()
    plan = Plan.filters(graph, [2, 1, 1], cluster_of(3), 8)
    predicted = dataclasses.replace(plan, predicted=Prediction(1.0, 0.3, 0.6, 0.1, PARTS))
    heading, columns, _, *devices, prediction = plan_summary(predicted, graph, 200).splitlines()
    assert "strategy filters" in heading and "batch size 8" in heading
    assert columns.split()[:2] == ["device", "computes"] and [line.split()[0] for line in devices] == list(plan.devices)
    assert "6 of 12 units of second" in devices[0] and "3 of 12 units of second" in devices[1] and "750 ms" in devices[1]
    assert prediction.startswith("Predicted step: 1.00 s; ") and "worker:1" in prediction


def test_a_manual_plan_has_sizes_and_no_prediction():
    graph = pair_net()
    lines = plan_summary(Plan.batch(graph, [5, 3], cluster_of(2), 8), graph, 120).splitlines()
    assert "5 of 8 samples of" in lines[3] and lines[-1].startswith("Nothing is predicted")


def test_no_line_is_longer_than_the_terminal():
    graph = pair_net()
    plan = Plan.filters(graph, [2, 1, 1], cluster_of(3), 8)
    text = plan_summary(dataclasses.replace(plan, predicted=Prediction(1.0, 0.3, 0.6, 0.1, PARTS)), graph, 80)
    assert max(map(len, text.splitlines())) <= 80 and "computes" in text


def test_a_device_without_a_part_computes_nothing():
    graph = pair_net()
    lines = plan_summary(Plan.single(graph, 1, cluster_of(2), 8), graph, 120).splitlines()
    assert "nothing" in lines[3] and "0%" in lines[3] and "all layers" in lines[4] and "100%" in lines[4]


def test_the_devices_of_a_pipeline_are_shown_with_their_stages():
    graph = pair_net()
    plan = Plan.pipeline(graph, [graph.layers[0].name, graph.layers[2].name], [[0], [1]], [[1], [1]], cluster_of(2), 8, microbatches=2)
    heading, *_, first, second, _ = plan_summary(plan, graph, 120).splitlines()
    assert "2 stages" in heading and "stage 0" in first and "stage 1" in second


def test_shares_of_the_operations_follow_the_sizes_and_sum_to_one_without_replicated_layers():
    graph = pair_net()
    assert flops_shares(Plan.batch(graph, [6, 2], cluster_of(2), 8), graph) == pytest.approx((0.75, 0.25))
    split = flops_shares(Plan.filters(graph, [2, 1, 1], cluster_of(3), 8), graph)
    assert split[0] > split[1] == pytest.approx(split[2]) and sum(split) >= 1.0 - 1e-12
