from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.strategies.layers import AFTER_LOCAL_SEARCH
from hetero_mtf.planning.strategies.local_search import improved_on_clocks
from hetero_mtf.planning.strategies.split_search import Candidate
from tests.planning.layout_objective import drawn_graph, drawn_profile
from tests.planning.networks import pair_net, profile_of

BATCH = 12


def always(stage: Stage) -> bool:
    return True


def test_samples_move_until_no_move_of_one_sample_is_predicted_faster() -> None:
    profile = profile_of(pair_net(), [1e6, 5e5], batch_size=BATCH)
    costs = Costs(profile)

    def start(samples: list[int]) -> Candidate:
        stage = Plan.batch(profile.graph, samples, profile.cluster, BATCH).stages[0]
        return Candidate(stage, predict(costs, stage))

    improved = improved_on_clocks(costs, start([2, 10]), [], always)
    assert improved.stage.layouts[0].samples == (8, 4)
    best = start([8, 4])
    assert improved_on_clocks(costs, best, [], always) is best
    assert improved.prediction == best.prediction


def test_layouts_of_two_stages_are_joined_where_that_is_faster_unless_it_does_not_fit() -> None:
    graph = pair_net(8, 8, 64)
    profile = profile_of(graph, [1e9, 1e9], latency_s=1e-4, bandwidth=1e6, batch_size=BATCH)
    costs = Costs(profile)
    batch, filters = (make(graph, [1.0, 1.0], profile.cluster, BATCH).stages[0] for make in (Plan.batch, Plan.filters))
    ranked = sorted((Candidate(stage, predict(costs, stage)) for stage in (batch, filters)), key=lambda c: c.prediction.step_s)
    improved = improved_on_clocks(costs, ranked[0], [batch, filters], always)
    layouts = {entry.layout for entry in improved.stage.layouts}
    assert improved.prediction.step_s < ranked[0].prediction.step_s and {"batch", "column"} <= layouts
    assert improved_on_clocks(costs, ranked[0], [batch, filters], lambda stage: False) is ranked[0]


@pytest.mark.fast("1")
@pytest.mark.parametrize("seed", range(6))
def test_a_plan_after_the_local_search_says_so_and_is_predicted_by_the_clocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    drawn = drawn_profile(rng, drawn_graph(rng, 10))
    profile = dataclasses.replace(drawn, links=tuple(dataclasses.replace(link, hidden=0.7) for link in drawn.links))
    after = plan(profile, strategy="layers")
    name = "hetero_mtf.planning.strategies.layers.improved_on_clocks"
    monkeypatch.setattr(name, lambda costs, best, known, fits: best)
    before = plan(profile, strategy="layers")
    assert after.proof is not None and before.proof is not None and after.predicted is not None and before.predicted is not None
    if AFTER_LOCAL_SEARCH in after.proof.space:
        assert after.predicted.step_s < before.predicted.step_s
    else:
        assert after.stages == before.stages
    assert after.predicted.step_s == predict(Costs(profile), after.stages[0]).step_s
