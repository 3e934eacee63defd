"""The training script of CIFAR-10: its task where there are no files, its command, its errors, and one training from end to end."""

from __future__ import annotations

import json
import pathlib
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hetero_mtf.devices.environment import child_variables
from hetero_mtf.report.measured import Measured
from tools import train_cifar
from tools.results import training_run


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> list[list[str]]:
    """What would be run; its files are there afterwards."""
    ran: list[list[str]] = []

    def run(words: list[str]) -> int:
        ran.append(words)
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / "epochs.jsonl").write_text(json.dumps({"epoch": 0, "seconds": 2.0, "samples_per_s": 50.0}) + "\n")
        Measured("0f", "layers", 8, ("cpu:0", "cpu:0"), 5, 0.02, alone_s=(0.03, 0.03)).save(tmp_path / "state-measured.json")
        return 0

    monkeypatch.setattr(training_run, "run", run)
    monkeypatch.setattr(train_cifar, "test_accuracy", lambda model, data: 0.875)
    return ran


def _invoked(folder: pathlib.Path, *words: str) -> Result:
    return CliRunner().invoke(train_cifar.main, ["--folder", str(folder), "--cluster", "local:cpu:0,cpu:0", *words])


def test_help_says_what_a_folder_holds_and_where_other_options_go() -> None:
    text = CliRunner().invoke(train_cifar.main, ["--help"]).output
    assert "data_batch_1 to data_batch_5 and test_batch" in text and "hetero-mtf train" in text
    assert all(option in text for option in ("--data", "--model", "--quick", "--batch-size"))


@pytest.mark.slow
def test_without_data_a_generated_task_is_trained_on_and_said_to_be_one(commands: list[list[str]], tmp_path: pathlib.Path) -> None:
    ended = _invoked(tmp_path, "--train-samples", "200", "--test-samples", "50", "--no-refine")
    assert ended.exit_code == 0, ended.output
    (said,) = re.findall(r"^No --data was given, .*$", ended.output, re.MULTILINE)
    assert "not CIFAR-10 but a generated task" in said and "a linear model" in said and said.endswith(".")
    (words,) = commands
    assert f"npz:{tmp_path / 'generated.npz'}" in words and "--compare" in words and words[-1] == "--no-refine"
    assert words[words.index("--model") + 1].endswith("paper_a.py:cifar")
    with np.load(tmp_path / "generated.npz") as arrays:
        assert arrays["x_train"].shape == (200, 32, 32, 3) and arrays["y_test"].shape == (50,)
    assert "test accuracy  0.875" in ended.output and "linear model" in ended.output and "speed-up       1.50 times" in ended.output


@pytest.mark.slow
def test_quick_takes_few_images_but_options_that_are_given_win(commands: list[list[str]], tmp_path: pathlib.Path) -> None:
    assert _invoked(tmp_path, "--quick", "--train-samples", "60", "--test-samples", "10", "--epochs", "7").exit_code == 0
    (words,) = commands
    assert words[words.index("--model") + 1].endswith("vgg.py:vgg11") and words[words.index("--epochs") + 1] == "7"


def test_files_of_cifar10_are_trained_on_where_there_are_some(commands: list[list[str]], tmp_path: pathlib.Path) -> None:
    images = np.zeros((4, 3072), np.uint8)
    for stem in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (tmp_path / stem).write_bytes(pickle.dumps({b"data": images, b"labels": [0, 1, 2, 3]}, protocol=2))
    ended = _invoked(tmp_path, "--data", f"cifar10:{tmp_path}", "--model", "resnet18")
    assert ended.exit_code == 0, ended.output
    assert "generated" not in ended.output and f"cifar10:{tmp_path}" in commands[0]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("cifar10:nowhere", "nowhere is not a folder; name the one that holds data_batch_1"),
        ("nowhere", "write cifar10:DIR, where DIR holds data_batch_1"),
        ("imagenet:x", "there is no data set 'imagenet:x'; use one of"),
    ],
)
def test_a_wrong_path_ends_in_a_sentence(data: str, sentence: str, commands: list[list[str]], tmp_path: pathlib.Path) -> None:
    ended = _invoked(tmp_path, "--data", data)
    assert ended.exit_code in (1, 2) and sentence in ended.output and not commands


@pytest.mark.slow
def test_a_small_network_is_trained_from_end_to_end(tmp_path: pathlib.Path) -> None:
    sizes = [
        "--quick",
        "--model",
        "small",
        "--train-samples",
        "96",
        "--test-samples",
        "32",
        "--batch-size",
        "16",
        "--epochs",
        "2",
        "--budget",
        "2",
    ]
    command = [sys.executable, "-m", "tools.train_cifar", *sizes, "--cluster", "local:cpu:0,cpu:0", "--folder", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=child_variables({"CUDA_VISIBLE_DEVICES": ""}), timeout=280)
    assert ended.returncode == 0, ended.stderr
    summary = ended.stdout.partition("\nSummary\n")[2]
    assert re.search(r"throughput +\d+ samples/s\n +time an epoch +\S+ m?s\n +test accuracy +[01]\.\d{3}\n +linear model", summary)
    trained = re.search(r"test accuracy ([01]\.\d{4}) over 32 samples", ended.stdout)
    assert trained is not None and float(trained[1]) == pytest.approx(float(re.search(r"accuracy +([01]\.\d{3})", summary)[1]), abs=0.04)
    assert "times as fast as the fastest device alone (cpu:0)" in summary
