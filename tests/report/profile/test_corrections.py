from __future__ import annotations

import dataclasses
import json

from hetero_mtf.planning.profile.corrections import Corrections, LayerFactor, MeasuredStep
from hetero_mtf.report.profile.corrections import correction_facts, correction_sections
from hetero_mtf.report.profile.profile_facts import profile_facts
from hetero_mtf.report.profile.sections import profile_sections
from hetero_mtf.report.section import sections_text
from tests.planning.networks import pair_net, profile_of

PROFILE = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6)
FACTORS = tuple(LayerFactor(layer, 1, "samples", "forward", factor) for layer, factor in ((1, 1.1), (2, 1.5), (4, 1.2)))
STEPS = (MeasuredStep("batch", "abc", 2.0, 3.0, 0.01, "2026-01-02"),)
CORRECTED = dataclasses.replace(PROFILE, corrections=Corrections(FACTORS, 1.25, 0.5, STEPS, "2026-01-02", "batch of abc"))


def test_a_profile_without_corrections_has_no_such_section() -> None:
    assert correction_facts(PROFILE) is None
    assert not any("run" in section.title or "Corrected" in section.title for section in profile_sections(profile_facts(PROFILE)))


def test_factors_are_summed_up_by_device_and_split() -> None:
    facts = correction_facts(CORRECTED)
    assert facts is not None
    (factor,) = facts.factors
    assert (factor.device, factor.split, factor.median, factor.least, factor.largest) == ("worker:1", "samples", 1.2, 1.1, 1.5)


def test_the_sections_show_steps_and_factors_in_eighty_columns() -> None:
    facts = profile_facts(CORRECTED)
    text = sections_text(profile_sections(facts), 80)
    assert "Corrected by its own steps" in text and "1.10 to 1.50" in text and "links take 1.25 times" in text
    assert "3.00 s" in text and "1.50" in text and max(map(len, text.splitlines())) <= 80
    assert json.loads(json.dumps(facts.to_json()))["corrections"]["steps"][0]["measured_s"] == 3.0


def test_factors_without_steps_have_no_table_of_steps() -> None:
    told = dataclasses.replace(PROFILE, corrections=dataclasses.replace(CORRECTED.corrections, steps=()))
    facts = correction_facts(told)
    assert facts is not None and [section.title for section in correction_sections(facts)] == ["Corrected by its own steps"]
