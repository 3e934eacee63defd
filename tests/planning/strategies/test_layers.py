from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.planning.choose import STRATEGIES, plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.memory.shortfall import lack_of_memory
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.layers import best_layers, proven
from tests.planning.layout_objective import drawn_graph, drawn_profile
from tests.planning.networks import Net, pair_net, profile_of, residual_net

OTHERS = ("equal", "filters", "batch", "hybrid")


@pytest.mark.fast("6")
@pytest.mark.parametrize("seed", range(8))
def test_layers_are_never_predicted_slower_than_the_strategies_of_one_axis(seed: int) -> None:
    rng = np.random.default_rng(seed)
    profile = drawn_profile(rng, drawn_graph(rng, int(rng.integers(4, 14))))
    costs = Costs(profile)
    best = best_layers(costs)
    for name in OTHERS:
        try:
            other = STRATEGIES[name](costs)
        except NothingToSplitError:
            continue
        lacks = lack_of_memory(profile, other.stage) or len(other.stage.devices) < 2
        assert lacks or best.prediction.step_s <= other.prediction.step_s * (1 + 1e-12)
    assert best.proof is not None and best.proof.value_s >= best.proof.bound_s * (1 - 1e-9)


def four() -> Profile:
    return profile_of(residual_net(16), [2e6, 1e6, 1e6, 5e5], 1e-5, 1e8)


def test_a_large_dense_layer_is_split_unless_the_optimizer_would_gather_its_weights() -> None:
    net = Net((8, 8, 3))
    net.conv("conv", 8)
    net.add("Flatten", "flatten")
    net.dense("hidden", 128)
    profile = profile_of(net.graph(), [1e6, 1e6], bandwidth=1e5)

    def layout(optimizer: str) -> str:
        made = plan(dataclasses.replace(profile, optimizer=OptimizerSpec(optimizer)), strategy="layers")
        return next(entry.layout for entry in made.stages[0].layouts if entry.name == "hidden")

    assert [layout(name) for name in ("adam", "adafactor", "sgd", "muon")] == ["row", "replicated", "row", "replicated"]


@pytest.mark.slow
def test_a_plan_carries_its_proof_through_a_file_and_into_its_text() -> None:
    made = plan(four(), strategy="layers")
    assert made.proof is not None and made.proof.gap <= 0.01
    assert Plan.from_json(made.to_json()) == made
    assert "Layouts: " in str(made) and ", at most " in str(made)


def test_the_plan_of_auto_has_a_proof_whichever_strategy_made_it() -> None:
    assert plan(four()).proof is not None
    alone = plan(profile_of(pair_net(), [1e6, 1e6], latency_s=10.0))
    assert alone.strategy == "single" and alone.proof is not None and (alone.proof.status, alone.proof.gap) == ("optimal", 0.0)


def test_a_plan_of_a_file_without_a_proof_still_loads() -> None:
    document = plan(four(), strategy="layers").to_json()
    del document["proof"]
    assert Plan.from_json(document).proof is None


def test_a_proof_that_cannot_be_is_refused_with_every_fault() -> None:
    made = plan(four(), strategy="layers")
    assert made.proof is not None
    wrong = dataclasses.replace(made.proof, status="sure", gap=-1.0, bound_s=2 * made.proof.value_s)
    message = r"3 faults: proof.status: is 'sure', must be one of .*; proof.gap: is -1.*proof.bound_s: is .*, above"
    with pytest.raises(PlanError, match=message):
        dataclasses.replace(made, proof=wrong)


def test_a_network_too_entangled_is_bounded_by_what_all_devices_could_do_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetero_mtf.planning.strategies.layers.fits_in_tables", lambda cost: False)
    costs = Costs(four())
    made = proven(costs, dataclasses.replace(STRATEGIES["grid"](costs), proof=None))
    assert made.proof is not None and made.proof.status == "heuristic" and made.proof.bound_s < made.proof.value_s == made.prediction.step_s
    assert made.proof.space == "any mesh and layouts over the same 4 devices, bounded as if there were no communication"
