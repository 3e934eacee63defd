"""VirtualFlow's logs: their reader, what runs on one kind of GPU tell, and the predictions, on small files of the same format."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError
from tools.bench.others.virtualflow import BATCH, TimedRun, homogeneous, main, predicted_s, profile_of, read_runs

FAST_S, SLOW_S, EXCHANGE_S = 1e-3, 4e-3, 0.5


def _speed(images: int, image_s: float, exchange_s: float = EXCHANGE_S) -> float:
    return BATCH / (images * image_s + exchange_s)


SUMMARY = f"""V100 only:
a1: {_speed(BATCH, FAST_S, 0.0)} img/s (1 V100)
a2: {_speed(BATCH // 2, FAST_S)} img/s (1 V100 + 1 V100)

P100 only:
a3: {_speed(BATCH // 2, SLOW_S)} img/s (1 P100 + 1 P100)
c1: {_speed(BATCH // 4, SLOW_S)} img/s (2 P100 + 2 P100)

Heterogeneous:
d1a: {_speed(2048, SLOW_S, 1.5 * EXCHANGE_S)} img/s (1 V100 + 1 V100 + 1 P100 + 1 P100)
d1b: {_speed(1024, SLOW_S, 1.5 * EXCHANGE_S) * 0.95} img/s
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a clone whose runs take exactly what the model says, but for one that is 5 % slower."""
    (tmp_path / "summary.txt").write_text(SUMMARY)
    for name, split in (("d1a", "2048:2048:2048:2048"), ("d1b", "3072:3072:1024:1024")):
        log = tmp_path / f"virtual-{name}" / "1" / "rank.0" / "stderr"
        log.parent.mkdir(parents=True)
        log.write_text(f"BATCH_SIZE=8192\nHETEROGENEOUS_SPLIT={split}\nmore\n")
    return tmp_path


def test_runs_are_read_with_their_splits(folder: pathlib.Path) -> None:
    runs = {run.name: run for run in read_runs(folder)}
    assert runs["a3"].gpus == ("P100", "P100") and runs["a3"].split == (4096, 4096) and not runs["a3"].is_mixed
    assert runs["c1"].gpus == ("P100",) * 4 and [runs[name].hosts for name in ("a1", "c1", "d1b")] == [1, 2, 4]
    assert runs["d1b"].gpus == runs["d1a"].gpus == ("V100", "V100", "P100", "P100")
    assert runs["d1b"].split == (3072, 3072, 1024, 1024)


def test_runs_on_one_kind_tell_the_seconds_of_an_image_and_of_an_exchange(folder: pathlib.Path) -> None:
    known = homogeneous(read_runs(folder))
    assert known.image_s == pytest.approx({"V100": FAST_S, "P100": SLOW_S})
    assert known.sent_s == known.exchange_s(2) == pytest.approx(EXCHANGE_S)
    assert known.exchange_s(1) == 0.0 and known.exchange_s(4) == pytest.approx(1.5 * EXCHANGE_S)


def test_a_split_takes_what_its_slowest_gpu_takes(folder: pathlib.Path) -> None:
    runs = {run.name: run for run in read_runs(folder)}
    known = homogeneous(list(runs.values()))
    profile = profile_of(runs["d1a"].gpus, known, runs["d1a"].hosts)
    assert predicted_s(profile, runs["d1a"].split) == pytest.approx(2048 * SLOW_S + 1.5 * EXCHANGE_S)
    assert predicted_s(profile, (3072, 3072, 1024, 1024)) == pytest.approx(1024 * SLOW_S + 1.5 * EXCHANGE_S)
    assert predicted_s(profile_of(("V100",), known, 1), (BATCH,)) == pytest.approx(BATCH * FAST_S)


def test_the_table_has_the_mixed_runs_and_the_split_of_the_planner(folder: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--folder", str(folder), "--results", "-"])
    assert done.exit_code == 0, done.output
    assert "| d1a | 2 V100 + 2 P100 | 2048:2048:2048:2048 |" in done.output
    assert "| d1b | 2 V100 + 2 P100 | 3072:3072:1024:1024 |" in done.output and "+5.3%" in done.output
    assert "3277:3277:819:819" in done.output  # in proportion to the speeds 4 : 4 : 1 : 1
    assert "Mean error 2.6%" in done.output and "rightly for 2 of 2 runs" in done.output


@pytest.mark.parametrize(
    ("summary", "log", "fault"),
    [
        ("nothing", None, "summary.txt has no run of mixed GPUs"),
        ("a1: 1.0 img/s", None, "summary.txt has the run a1 without GPUs or images"),
        ("a1: 1.0 img/s (one V100)", None, "summary.txt has the GPUs 'one V100'"),
        (SUMMARY, "HETEROGENEOUS_SPLIT=1:2", r"the logs of d1a split a batch of 8192 images on 4 GPUs into 1:2"),
        (SUMMARY, "", "the logs of d1a do not say HETEROGENEOUS_SPLIT"),
    ],
)
def test_a_damaged_file_is_a_fault(folder: pathlib.Path, summary: str, log: str | None, fault: str) -> None:
    (folder / "summary.txt").write_text(summary)
    if log is not None:
        (folder / "virtual-d1a" / "1" / "rank.0" / "stderr").write_text(log)
    with pytest.raises(DataError, match=fault):
        read_runs(folder)


def test_too_few_runs_on_one_kind_are_a_fault() -> None:
    runs = [TimedRun("a", ("V100",), 1.0, (BATCH,), 1), TimedRun("b", ("V100", "P100"), 1.0, (4096, 4096))]
    with pytest.raises(DataError, match="do not tell how fast each kind is"):
        homogeneous(runs)
    with pytest.raises(DataError, match="no run has K80 alone"):
        profile_of(("K80",), homogeneous([*runs, TimedRun("c", ("V100", "V100"), 1.0, (4096, 4096))]), 1)


def test_a_missing_folder_says_how_to_fetch_it(tmp_path: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--folder", str(tmp_path), "--results", "-"])
    assert done.exit_code == 1 and "fetch the branch 4-10-het" in done.output
