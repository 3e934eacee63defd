"""Regret: drawn clusters are the same by their seed, hindsight is no later than one device, and the tables say what missed."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from hetero_mtf.planning.refinement.corrector import prediction
from tests.tools.bench.start.made_up_traces import made_up_trace
from tools.bench.start import regret
from tools.bench.start.drawn_world import DrawnWorld, best_s, drawn_case
from tools.bench.start.regret_tables import REGRET, SOON, beyond_one_s, gained, met_rows, regret_rows, soon_rows
from tools.bench.start.rough_errors import RoughErrors
from tools.bench.start.start_networks import start_networks
from tools.bench.start.start_trace import FOLDER, load_all
from tools.bench.start.temper import Temper
from tools.results.publication import shown

SEED = 5


@pytest.fixture(scope="module")
def world() -> DrawnWorld:
    networks, trace = start_networks(), made_up_trace()
    errors = RoughErrors.of([trace], {name: network.graph for name, network in networks.items()})
    return DrawnWorld(drawn_case(SEED, [networks["alexnet"]], errors), Temper.of([trace]), errors.plan)


def run(policy_s: float, one_s: float, hindsight_s: float, length_s: float = 300.0, gain: float = 1.5) -> dict[str, Any]:
    head = {"length_s": length_s, "is_known": True, "gain": gain, "trials": [1, 2]}
    return {**head, "policy_s": policy_s, "one_s": one_s, "hindsight_s": hindsight_s}


def test_a_cluster_is_the_same_by_its_seed(world: DrawnWorld) -> None:
    networks, trace = start_networks(), made_up_trace()
    errors = RoughErrors.of([trace], {name: network.graph for name, network in networks.items()})
    again = drawn_case(SEED, [networks["alexnet"]], errors)
    assert again.truth == world.case.truth and again.length_s == world.case.length_s
    assert drawn_case(SEED + 1, [networks["alexnet"]], errors).truth != again.truth


def test_a_training_is_no_earlier_than_the_best_plan_and_hindsight_no_later_than_one_device(world: DrawnWorld) -> None:
    record = regret.trained(world, 300.0)
    assert record["hindsight_s"] <= record["one_s"] and record["gain"] >= 1.0
    assert record["policy_s"] >= 0.999 * record["hindsight_s"] and record["steps"] == round(300 / world.single_s)
    assert best_s(world, []) <= world.single_s


def test_steps_take_what_the_true_profile_predicts(world: DrawnWorld) -> None:
    plan = next(plan for plan in world.plans if len(plan.used) == 1)
    assert world.true_s(plan) == pytest.approx(prediction(world._truth, plan).step_s)
    noise = [world.step_s(plan, step, "counted", "") / world.true_s(plan) for step in range(1, 400)]
    assert np.median(noise) == pytest.approx(1.0, abs=0.05) and world.step_s(plan, 7, "overlapped", "build") > world.true_s(plan)


def test_longer_trainings_that_end_later_than_one_device_are_counted() -> None:
    late, soon = run(320.1, 300.0, 200.0), run(230.0, 300.0, 200.0)
    assert beyond_one_s(late) == pytest.approx(0.1) and beyond_one_s(soon) < 0 and gained(soon) == pytest.approx(0.7)
    rows = {row.texts["lengths"]: row for row in regret_rows([{"drawn": [late, soon]}])}
    assert rows["180 to 600"].numbers["slower"] == 1 and rows["all"].numbers["worst_s"] == pytest.approx(120.1)
    assert rows["all"].wanted == {"slower": 0}


def test_gains_and_break_even_are_wanted_by_the_gain_of_the_best_plan() -> None:
    fixed = [run(58.0, 60.0, 40.0, 60.0), run(58.0, 60.0, 50.0, 60.0, 1.2), run(230.0, 300.0, 200.0)]
    rows = soon_rows([{"fixed": fixed}])
    wanted = {(row.texts["gain"], row.numbers["length_s"]): row.wanted for row in rows}
    assert wanted == {("1.15 to 1.25", 60.0): {}, ("1.25 or more", 60.0): {"times_one": 1.0}, ("1.25 or more", 300.0): {
        "times_one": 1.0, "gained": 0.9}}


def test_the_simulation_is_compared_with_each_recording() -> None:
    rows = met_rows(regret.met([made_up_trace(), made_up_trace(watched=100)]))
    assert [row.texts["network"] for row in rows] == ["VGG-8", "VGG-8", "median of magnitudes", "worst"]
    assert all(abs(row.numbers["error"]) < 0.1 for row in rows) and rows[0].texts["same"] in ("yes", "no")


def test_every_recording_that_is_kept_has_a_row() -> None:
    kept = [trace.network for trace in load_all(FOLDER)]
    times = {"recorded_s": 2.0, "own_s": 2.0, "drawn_s": [2.0], "now_s": 2.0}
    alike = {"shares": [1.0, 0.5], "steps": 9, "recorded_moves": 1, "same_moves": True, **times}
    rows = met_rows([{**alike, "network": network} for network in kept])
    assert len(rows) == len(kept) + 2 and {"digits of `make train`", "drawn 7233b0db"} <= {row.texts["network"] for row in rows}


def test_the_tables_say_what_they_are_of() -> None:
    assert regret.notes([made_up_trace()], [{"devices": 3}, {"devices": 2}])[0].startswith("2 drawn clusters of 5 devices in all")


def test_no_framework_is_loaded() -> None:
    code = "import sys, tools.bench.start.regret; print(sorted({'tensorflow', 'keras'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=pathlib.Path.cwd())
    assert ended.stdout.strip() == "[]"


def test_the_tables_are_shown() -> None:
    rows = regret_rows([{"drawn": [run(320.1, 300.0, 200.0)]}]), soon_rows([{"fixed": [run(230.0, 300.0, 200.0)]}])
    assert "| 1 | ≤ 0 ✗ |" in shown(REGRET, rows[0]) and "| 70% | ≥ 90% ✗ |" in shown(SOON, rows[1])
