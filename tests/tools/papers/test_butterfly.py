"""Paper D's arrangements, and its tables from figures that are given here."""

from __future__ import annotations

import hetero_mtf as hm
from hetero_mtf.planning.layout.records import CollectiveRule
from tools.papers.butterfly import MIXING, arrangements, claims, message_rounds, plan
from tools.papers.learning import small_network
from tools.papers.speedup import curve_rows


def test_every_strategy_has_every_collective_and_both_that_split_samples_mix() -> None:
    pairs = list(arrangements().values())
    assert len(pairs) == len(set(pairs)) == 11
    assert {strategy for strategy, method in pairs if method == MIXING} == {"batch", "hybrid"}


def test_each_arrangement_has_a_plan_with_its_collective() -> None:
    model = small_network(16)
    with hm.Cluster.local(["cpu:0"] * 4) as cluster:
        for strategy, method in arrangements().values():
            chosen = plan(model, strategy, method, [2, 2, 1, 1], cluster, 8)
            mixed = chosen.gradient_sync == "butterfly_mixing"
            assert chosen.strategy == strategy and mixed == (method == MIXING)
            assert mixed or chosen.collectives == (CollectiveRule("all_reduce", method),)


def test_rounds_of_messages_are_those_of_the_algorithms() -> None:
    assert [message_rounds(method, 4) for method in ("ring", "butterfly", "halving_doubling", MIXING)] == [6, 2, 4, 1]
    assert message_rounds("butterfly", 5) == 4  # one processor is folded in before, and out after


def test_claims_compare_mixing_with_the_butterfly() -> None:
    times = {name: {"rounds_s": [0.2 if method == MIXING else 0.6]} for name, (_, method) in arrangements().items()}
    scores = {name: [{"accuracy": 0.7 if method == MIXING else 0.8}] for name, (_, method) in arrangements().items()}
    split, mixed = claims({"1,1": {"batch": 8, "weights": 2e6, "times": times}}, {"1,1": {"scores": scores}}, "quick")
    assert "3.00 x (data parallel), 3.00 x (hybrid) as fast" in mixed.texts["measured"]
    assert "70.0% against 80.0% (hybrid)" in mixed.texts["measured"]
    assert "600 ms, 600 data parallel" in split.texts["measured"]


def test_the_speed_up_is_that_of_one_device_in_the_same_run() -> None:
    points = [{"devices": 2, "rounds_s": {"alone 0": [3.0], "ring": [2.0]}}, {"devices": 4, "rounds_s": {"alone 0": [3.2], "ring": [1.0]}}]
    rows = curve_rows("net", 0.2, 8, {"points": points})
    assert [(row.numbers["devices"], row.numbers["speedup"]) for row in rows] == [(2.0, 1.5), (4.0, 3.2)]
