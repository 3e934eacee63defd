from __future__ import annotations

from hetero_mtf.planning.choose import plan, plan_if
from hetero_mtf.planning.profile.what_if import WhatIf, what_if_profile
from hetero_mtf.report.before_after import before_after
from hetero_mtf.units import seconds_text
from tests.planning.networks import pair_net, profile_of

PROFILE = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6, batch_size=8)


def test_both_plans_stand_side_by_side() -> None:
    what_if = WhatIf(add_like=("worker:0",))
    before, after = plan(PROFILE, strategy="filters"), plan_if(PROFILE, what_if, strategy="filters")
    assert before.predicted is not None and after.predicted is not None
    figures, sizes = before_after(before, after, what_if_profile(PROFILE, what_if))
    assert figures.title == "What if: device worker:0+1 is added, which is like worker:0"
    steps = [seconds_text(made.predicted.step_s) for made in (before, after) if made.predicted is not None]
    times = after.predicted.step_s / before.predicted.step_s
    assert figures.sentences[0] == f"a step would take {times:.2f} times as long: {steps[0]} -> {steps[1]}"
    assert figures.sentences[1].startswith("then ") and figures.table is not None and sizes.table is not None
    rows = {row[0]: row[1:] for row in figures.table.rows}
    assert rows["step"] == tuple(steps) and rows["worker:0+1 compute"][0] == "-" and rows["worker:0+1 compute"][1] != "-"
    was, would_be = before.stages[0].layouts[1].sizes, after.stages[0].layouts[1].sizes
    assert sizes.table.rows[1][2:] == (f"{was[0]} -> {would_be[0]}", f"{was[1]} -> {would_be[1]}", f"- -> {would_be[2]}")


def test_what_does_not_change_has_no_arrow() -> None:
    before = plan(PROFILE, strategy="filters")
    figures, sizes = before_after(before, before, PROFILE)
    assert figures.table is not None and sizes.table is not None
    assert all(row[1] == row[2] for row in figures.table.rows)
    assert not any("->" in cell for row in sizes.table.rows for cell in row)


def test_devices_idle_before_and_after_are_left_out_and_many_devices_are_not_listed_by_layer() -> None:
    what_if = WhatIf(scale=(("worker:0", 2.0),))
    lone = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e3, batch_size=8)
    before, after = plan(lone, strategy="single"), plan_if(lone, what_if, strategy="single")
    figures, *_ = before_after(before, after, what_if_profile(lone, what_if))
    assert figures.table is not None and not any(row[0].startswith("worker:1") for row in figures.table.rows)
    many = profile_of(pair_net(24, 24, 24), [1e6] * 13, 1e-6, batch_size=13)
    assert len(before_after(plan(many, strategy="batch"), plan(many, strategy="batch"), many)) == 1
