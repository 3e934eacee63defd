"""A move in a line."""

from __future__ import annotations

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.text import move_text, split_text
from tests.planning.networks import pair_net
from tests.training.control.simulated_training import PROFILE


def test_a_plan_is_named_by_its_strategy_and_parts() -> None:
    cluster, graph = PROFILE.cluster, pair_net(48, 48, 48)
    assert split_text(Plan.batch(graph, (3, 1), cluster, 4)) == "batch 75:25"
    assert split_text(Plan.single(graph, 1, cluster, 4)) == f"{cluster.devices[1].name} alone"
    assert split_text(make_plan(PROFILE, strategy="pipeline")).startswith("pipeline of ")


def test_a_line_has_the_reason_and_both_plans() -> None:
    before, after = (Plan.batch(pair_net(48, 48, 48), shares, PROFILE.cluster, 4) for shares in ((1, 1), (3, 1)))
    said = move_text(Move(140, "worker:1 became 2.50 times as slow", before, after, 0.21, 0.131, 2.5))
    assert said == (
        "step 140: worker:1 became 2.50 times as slow; moved from batch 50:50 (210 ms/step) to batch 75:25 (131 ms expected) in 2.50 s"
    )
