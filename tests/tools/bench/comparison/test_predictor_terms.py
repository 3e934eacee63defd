"""A term that is left out makes no other term change."""

from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import pair_net, profile_of
from tools.bench.comparison.predictor_terms import NOTHING, TERMS, predicted_s, without

PROFILE = dataclasses.replace(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 0.05), launch_s=0.5)


def test_with_all_terms_a_plan_has_its_prediction() -> None:
    batch = plan(PROFILE, strategy="batch")
    corrected = dataclasses.replace(PROFILE, corrections=Corrections(links=3.0))
    assert batch.predicted is not None
    assert predicted_s(without(corrected, NOTHING), [batch]) == pytest.approx([batch.predicted.step_s])


def test_a_launch_overhead_that_is_left_out_makes_every_step_as_much_shorter() -> None:
    plans = [plan(PROFILE, strategy=strategy) for strategy in ("single", "batch")]
    term = next(name for name in TERMS if name.startswith("launch"))
    shorter = [all_s - left_s for all_s, left_s in zip(predicted_s(PROFILE, plans), predicted_s(without(PROFILE, term), plans))]
    assert shorter == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("term", TERMS)
def test_every_term_leaves_a_valid_profile_without_corrections(term: str) -> None:
    corrected = dataclasses.replace(PROFILE, corrections=Corrections(links=3.0))
    smaller = without(corrected, term)
    assert Profile.from_json(smaller.to_json()) == smaller and smaller.corrections == Corrections()


def test_a_link_without_latency_leaves_a_single_device_as_it_was() -> None:
    plans = [plan(PROFILE, strategy=strategy) for strategy in ("single", "batch")]
    single, batch = zip(predicted_s(PROFILE, plans), predicted_s(without(PROFILE, "latency of links"), plans))
    assert single[0] == single[1] and batch[0] > batch[1]
