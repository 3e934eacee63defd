"""The pipelines that are compared, what is known of them before they are run, and the report."""

from __future__ import annotations

from typing import Any

import pytest

from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import profile_of, residual_net
from tools.bench.pipeline import EQUAL, NAIVE, PLANNED, SAME_PARTITION, conclusions, pipelines, prediction, report


@pytest.fixture(scope="module")
def profile() -> Profile:
    return profile_of(residual_net(8), [1e6, 5e5], batch_size=8)


def test_the_compared_pipelines_have_two_stages_and_the_planned_cut_also_without_microbatches(profile: Profile) -> None:
    plans = pipelines(profile, 4)
    assert {name: plan.microbatches for name, plan in plans.items()} == {PLANNED: 4, EQUAL: 4, SAME_PARTITION: 1, NAIVE: 1}
    assert all(len(plan.stages) == 2 for plan in plans.values())
    assert plans[SAME_PARTITION].stages == plans[PLANNED].stages != plans[EQUAL].stages


def test_j_of_a_pipeline_is_what_its_allocator_minimised(profile: Profile) -> None:
    plan = pipelines(profile, 4)[PLANNED]
    known = prediction(profile, plan)
    assert known["j_s"] == pytest.approx(plan.proof.value_s)
    assert known["predicted_s"] == pytest.approx(plan.predicted.step_s)
    assert known["ideal_bubble"] == pytest.approx(1 / 5) and sum(count for _, count in known["layers"]) == len(profile.graph.layers)


def _arrangement(predicted_s: float, measured_s: float) -> dict[str, Any]:
    passes = [{"forward": 0.01, "backward": 0.02}, {"forward": 0.02, "backward": 0.03}]
    return {
        "layers": [["worker:1", 4], ["worker:0", 9]],
        "predicted_s": predicted_s,
        "measured_s": measured_s,
        "j_s": 0.46,
        "measured_j_s": 0.48,
        "predicted_bubble": 0.2,
        "measured_bubble": 0.25,
        "ideal_bubble": 1 / 9,
        "predicted_passes_s": passes,
        "measured_passes_s": passes,
        "measured_parts": [{"device": "worker:0", "compute_s": 0.4, "communication_s": 0.05, "idle_s": 0.05}],
    }


def test_the_report_has_a_row_an_arrangement_the_claims_and_a_summary() -> None:
    found: dict[str, Any] = {PLANNED: _arrangement(0.45, 0.5), EQUAL: _arrangement(0.8, 0.75)}
    found |= {SAME_PARTITION: _arrangement(0.7, 0.7), NAIVE: _arrangement(0.6, 0.6)}
    found["alone 0"] = {"measured_s": 0.7, "measured_parts": found[PLANNED]["measured_parts"]}
    case = {"network": "vgg11", "cluster": "1.0,0.5", "batch": 128, "microbatches": 8, "arrangements": found}
    text = report([{**case, "conclusions": conclusions(found)}])
    row = "planned | worker:1: 4, worker:0: 9 | 450 | 500 | -10.0% | 460 | 480 | 20% / 25% / 11%"
    assert f"| VGG-11, batch 128 | 1.0,0.5 | 8 | {row} | 10+20; 20+30 | 10+20; 20+30 | 400+50+50 |" in text
    row = "450 | 500 | 460 | 1.50 | ≥ 1.25 ✓ | 1.40 | ≥ 1.2 ✓ | 1.20 | ≥ 1.2 ✓ | 0.92 | ≥ 0.9 ✓ | 0.96 | ≥ 0.9 ✓ | 20% / 25% / 11%"
    assert f"| VGG-11, batch 128 | 1.0,0.5 | 8 | {row} |" in text
    assert "4 pipelines: median error 3.3% (at most 15% wanted), worst -10.0%." in text
    assert "| worker:0 alone | - | - | 700 |" in text
