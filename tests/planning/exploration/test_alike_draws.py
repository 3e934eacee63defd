"""Which plans draw the same numbers at random."""

from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.exploration import alike_draws
from tests.planning.networks import pair_net, profile_of

PLAN = make_plan(profile_of(pair_net(48, 48, 48), [1e6, 1e6], 1e-6))


@pytest.mark.parametrize("draws", [False, True])
def test_a_network_that_draws_at_random_keeps_its_microbatches(draws: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, cut = pair_net(48, 48, 48), dataclasses.replace(PLAN, microbatches=PLAN.microbatches + 1)
    monkeypatch.setattr(alike_draws, "draws_at_random", lambda layer: draws)
    assert alike_draws.draws_alike(graph, cut, PLAN) is not draws
    assert alike_draws.draws_alike(graph, PLAN, PLAN)
