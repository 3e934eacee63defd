"""The training script of scans: its cohort where there are no files, its commands, its errors, and one training from end to end."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from hetero_mtf.devices.environment import child_variables
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.scores import scores
from tools import train_mri
from tools.results import training_run


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> list[list[str]]:
    """What would be run; its files are there afterwards."""
    ran: list[list[str]] = []

    def run(words: list[str]) -> int:
        ran.append(words)
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / "epochs.jsonl").write_text(json.dumps({"epoch": 0, "seconds": 2.0, "samples_per_s": 5.0}) + "\n")
        Measured("0f", "batch", 4, ("cpu:0", "cpu:0"), 5, 0.02, alone_s=(0.03, 0.03)).save(tmp_path / "state-measured.json")
        document = scores([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], [0, 1, 0], ["NC", "AD"]).document()
        (tmp_path / "scores.json").write_text(json.dumps(document))
        return 0

    monkeypatch.setattr(training_run, "run", run)
    return ran


def _invoked(folder: pathlib.Path, *words: str) -> Result:
    return CliRunner().invoke(train_mri.main, ["--folder", str(folder), "--cluster", "local:cpu:0,cpu:0", *words])


def test_help_says_what_a_table_has_and_where_other_options_go() -> None:
    text = CliRunner().invoke(train_mri.main, ["--help"]).output
    assert "participant_id, diagnosis and path" in text and "hetero-mtf train" in text
    assert all(option in text for option in ("--data", "--subjects", "--quick", "--size"))


def test_a_table_is_trained_on_and_its_scores_are_summed_up(commands: list[list[str]], tmp_path: pathlib.Path) -> None:
    ended = _invoked(tmp_path, "--data", "nifti:mine.tsv", "--label", "group")
    assert ended.exit_code == 0, ended.output
    training, evaluation = commands
    assert training[0] == "train" and training[-2:] == ["--label", "group"] and "--compare" in training
    assert evaluation[0] == "evaluate" and "nifti:mine.tsv" in evaluation and str(tmp_path / "state.npz") in evaluation
    assert "cohort" not in ended.output
    assert re.search(r"test accuracy +0\.667\n +balanced accuracy +0\.750\n +ROC AUC +\S+\n +speed-up +1\.50 times", ended.output)


def test_without_data_a_cohort_is_generated_once_and_said_to_be_one(
    commands: list[list[str]], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools.cohort import study

    written: list[study.Study] = []

    def write_study(asked: study.Study, folder: pathlib.Path) -> pathlib.Path:
        written.append(asked)
        folder.mkdir()
        (folder / "participants.tsv").touch()
        return folder / "participants.tsv"

    monkeypatch.setattr(study, "write_study", write_study)
    for _ in range(2):
        ended = _invoked(tmp_path, "--quick", "--subjects", "12")
        assert ended.exit_code == 0, ended.output
    assert [(asked.subjects, asked.size) for asked in written] == [(12, 32)]
    assert "no patients' scans but a generated cohort of 12 subjects" in ended.output and "python -m tools.voxels" in ended.output
    assert commands[0][commands[0].index("--data") + 1] == f"nifti:{tmp_path / 'cohort-12-32-1' / 'participants.tsv'}"


def test_a_wrong_path_ends_in_a_sentence(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = _invoked(tmp_path, "--data", "mine.tsv")
    assert ended.exit_code == 2 and "write nifti:TABLE" in ended.output
    ended = _invoked(tmp_path, "--data", f"nifti:{tmp_path / 'mine.tsv'}")
    assert ended.exit_code == 1 and "mine.tsv" in ended.output + capfd.readouterr().err


@pytest.mark.slow
def test_a_cohort_is_trained_on_from_end_to_end(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("nilearn")
    sizes = ["--quick", "--subjects", "16", "--width", "4", "--epochs", "2", "--budget", "2"]
    command = [sys.executable, "-m", "tools.train_mri", *sizes, "--cluster", "local:cpu:0,cpu:0", "--folder", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=child_variables({"CUDA_VISIBLE_DEVICES": ""}), timeout=280)
    assert ended.returncode == 0, ended.stderr
    summary = ended.stdout.partition("\nSummary\n")[2]
    assert re.search(r"throughput +\d+ samples/s\n +time an epoch +\S+ m?s\n +test accuracy +[01]\.\d{3}\n", summary)
    assert "times as fast as the fastest device alone (cpu:0)" in summary
