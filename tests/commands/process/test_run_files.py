from __future__ import annotations

import pathlib

from hetero_mtf.commands.process.run_files import beside, beside_plan, best_file, config_file, step_file, step_files


def test_files_of_a_run_are_named_after_it() -> None:
    assert str(beside("run/state.npz", "profile")) == "run/state-profile.json"
    assert str(beside("run/state.npz", "measured")) == "run/state-measured.json"
    assert str(beside("train", "plan")) == "train-plan.json"


def test_files_beside_a_plan_are_named_like_it() -> None:
    assert str(beside_plan("run/digits-plan.json", "profile")) == "run/digits-profile.json"
    assert str(beside_plan("run/best.json", "measured")) == "run/measured.json"


def test_states_of_a_run_are_named_after_its_newest(tmp_path: pathlib.Path) -> None:
    newest = tmp_path / "a[1].npz"
    assert best_file(newest).name == "a[1]-best.npz" and config_file("m.keras").name == "m-config.yaml"
    for step in (9, 10, 200):
        step_file(newest, step).touch()
    for name in ("a[1]-step.npz", "a[1]-stepx.npz", "a1-step3.npz", "a[1]-step3.npz.part", "b-step3.npz"):
        (tmp_path / name).touch()
    assert [path.name for path in step_files(newest, 10)] == ["a[1]-step9.npz", "a[1]-step10.npz"]
    assert step_files(tmp_path / "none" / "s.npz", 10) == []
