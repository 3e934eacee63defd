"""The newest states in numbered files."""

import os

import pytest

from hetero_mtf.commands.output.kept_states import KeptStates
from hetero_mtf.errors import HeteroError


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_are_kept_with_their_bytes_and_the_description_of_their_data(tmp_path):
    path = tmp_path / "s.npz"
    kept = KeptStates(str(path), 2, None)
    for step in (3, 6, 9, 9):
        for name, text in (("s.npz", f"state {step}"), ("s-data.json", f"data {step}")):
            (tmp_path / "new").write_text(text)
            os.replace(tmp_path / "new", tmp_path / name)
        kept.add(step)
    assert _names(tmp_path) == ["s-data.json", "s-step6-data.json", "s-step6.npz", "s-step9-data.json", "s-step9.npz", "s.npz"]
    assert (tmp_path / "s-step6.npz").read_text() == "state 6" and (tmp_path / "s-step6-data.json").read_text() == "data 6"


def test_states_of_other_trainings_stay_and_those_of_a_resumed_one_count(tmp_path):
    for step in (2, 4, 8):
        (tmp_path / f"s-step{step}.npz").touch()
    (tmp_path / "s.npz").touch()
    KeptStates(str(tmp_path / "s.npz"), 1, None).add(3)
    assert _names(tmp_path) == ["s-step2.npz", "s-step3.npz", "s-step4.npz", "s-step8.npz", "s.npz"]
    KeptStates(str(tmp_path / "s.npz"), 2, 4).add(6)
    assert _names(tmp_path) == ["s-step4.npz", "s-step6.npz", "s-step8.npz", "s.npz"]


def test_where_links_are_not_possible_states_are_copied(tmp_path, monkeypatch):
    def no_link(*paths):
        raise OSError("links are not possible")

    monkeypatch.setattr(os, "link", no_link)
    (tmp_path / "s.npz").write_text("state")
    KeptStates(str(tmp_path / "s.npz"), 1, None).add(1)
    assert (tmp_path / "s-step1.npz").read_text() == "state"
    (tmp_path / "s-step2.npz").mkdir()
    with pytest.raises(HeteroError, match="cannot write .*s-step2.npz"):
        KeptStates(str(tmp_path / "s.npz"), 1, None).add(2)
