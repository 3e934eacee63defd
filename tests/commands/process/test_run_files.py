from __future__ import annotations

from hetero_mtf.commands.process.run_files import beside, beside_plan


def test_files_of_a_run_are_named_after_it() -> None:
    assert str(beside("run/state.npz", "profile")) == "run/state-profile.json"
    assert str(beside("run/state.npz", "measured")) == "run/state-measured.json"
    assert str(beside("train", "plan")) == "train-plan.json"


def test_files_beside_a_plan_are_named_like_it() -> None:
    assert str(beside_plan("run/digits-plan.json", "profile")) == "run/digits-profile.json"
    assert str(beside_plan("run/best.json", "measured")) == "run/measured.json"
