"""Plans are made where there is no device and no framework, and predictions are on disk when the process ends."""

from __future__ import annotations

import datetime
import pathlib

import pytest

import hetero_mtf as hm
from hetero_mtf.planning.choose import STRATEGIES
from tests.planning.networks import pair_net, profile_of
from tools.bench.comparison.offline_plans import plan_apart


@pytest.mark.slow
def test_every_strategy_plans_in_a_process_without_frameworks(tmp_path: pathlib.Path) -> None:
    profile = profile_of(pair_net(), [2e6, 1e6])
    profile.save(tmp_path / "profile.json")
    found = plan_apart(tmp_path / "profile.json", tmp_path)
    assert found["frameworks_loaded"] == []
    assert {*found["predicted_s"], *found["no_plan"]} == {"auto", *STRATEGIES, "pipeline"}
    assert "grid" in found["no_plan"]
    for name, step_s in found["predicted_s"].items():
        assert hm.Plan.load(tmp_path / f"{name}.json").predicted.step_s == step_s
    assert found["predicted_s"]["auto"] == min(found["predicted_s"].values())
    assert datetime.datetime.fromisoformat(found["made"]) <= datetime.datetime.now(datetime.timezone.utc)
