"""What training scripts share: refusals, files, and commands that fail."""

from __future__ import annotations

import pathlib

import click
import pytest

from tools.results import training_run
from tools.results.training_run import check_further, run_command, saving


def test_options_that_a_script_chooses_are_refused() -> None:
    check_further(("--no-refine", "--validation-split", "0.1"))
    with pytest.raises(click.UsageError, match="--log-dir, --save cannot be given here"):
        check_further(("--save=x.npz", "--log-dir", "y"))


def test_times_of_an_earlier_training_are_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "state-measured.json").touch()
    (tmp_path / "state.npz").touch()
    words = saving(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.npz"] and str(tmp_path / "state.npz") in words


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(click.UsageError, match="--folder .*file/in cannot be written to: .*; name another"):
        saving(tmp_path / "file" / "in")


def test_a_command_that_fails_ends_the_program_with_its_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(training_run, "run", lambda arguments: 1 if "bad" in arguments else 0)
    run_command("train", "--epochs", 2)
    assert capsys.readouterr().out == "\n$ hetero-mtf train --epochs 2\n"
    with pytest.raises(SystemExit, match="1"):
        run_command("train", "bad")
