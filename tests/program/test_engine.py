"""The engine's door: what is no plan or cluster, and what no plan may ask for yet, is one sentence."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import ClusterError, PlanError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.program.plan_checks import check_cluster, check_plan


@pytest.fixture
def model() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])


def test_one_replica_is_a_plan_without_replicas(model: keras.Model) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        check_plan(dataclasses.replace(hm.Plan.single(model, 0, cluster, 8), replicas=(8,)), layer_graph(model))


@pytest.mark.parametrize("plan", [7, "plan.json"])
def test_what_is_no_plan_is_refused(plan: Any, model: keras.Model) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        with pytest.raises(PlanError, match=f"the plan is {plan!r}, not a Plan; make one with hm.plan"):
            hm.Trainer(model, plan, cluster, loss="mse")


def test_what_is_no_live_cluster_is_refused(model: keras.Model) -> None:
    with hm.Cluster.local(["cpu:0"]) as cluster:
        plan = hm.Plan.single(model, 0, cluster, 8)
        for other in (None, "local", cluster.record):
            with pytest.raises(ClusterError, match="the cluster is .*, not a live Cluster; open one, such as hm.Cluster.local"):
                check_cluster(plan, other)
    with pytest.raises(ClusterError, match="not a live Cluster"):
        hm.Trainer(model, plan, None, loss="mse")
