"""AMP's files: their reader, the prediction of a trial, and the table, on small files of the same format."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from tools.bench.others.amp import GPU_BYTES, figures, layers_of, main, predicted, profile_of
from tools.bench.others.amp_files import COSTS, RESULTS, Trial, read_costs, read_trials

HEAD = (
    "{'hidden_size': tensor([64.]), 'sequence_length': tensor([32.]), 'num_layers': tensor([24.]), 'vocab_size': tensor([100.]), "
    "'type': 'gpt2'}"
)
SECONDS = {"P3": 0.01, "G4": 0.04}


def _line(partition: list[int], microbatch: int, degrees: tuple[int, int, int], measured: str) -> str:
    m, d, p = (f"tensor([{degree}.])" for degree in degrees)
    head = f"Simulating result: None, {partition}, {microbatch}, {{'mp_deg': {m}, 'dp_deg': {d}, 'pp_deg': {p}}}"
    return f"{head}, with p_cost: tensor([1.5]), r_cost: {measured} \nrunning real trials till iter 0 takes 740.5"


LINES = [
    _line([0, 7, 14, 20, 30], 1, (1, 4, 4), "2.0"),
    _line([0, 30], 2, (1, 16, 1), "4.0"),
    _line([0, 14, 30], 1, (2, 4, 2), "inf"),
]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a clone with three trials; each of the blocks takes a V100 10 ms forward, a T4 40 ms."""
    (tmp_path / RESULTS).parent.mkdir(parents=True)
    (tmp_path / COSTS).mkdir(parents=True)
    (tmp_path / RESULTS).write_text("\n".join([HEAD, "gbs:32", *LINES, ""]))
    for gpu, seconds in SECONDS.items():
        for degree in (1, 2):
            costs = np.zeros(30)
            costs[2:26] = seconds / degree
            np.save(tmp_path / COSTS / f"gpt2_{gpu}_{degree}.npy", costs)
    return tmp_path


def test_trials_are_read_as_they_are_published(folder: pathlib.Path) -> None:
    found = read_trials(folder / RESULTS)
    assert found.batch == 32 and found.sizes["hidden_size"] == 64
    assert found.trials[0] == Trial((0, 7, 14, 20, 30), 1, 1, 4, 4, 1.5, 2.0)
    assert [trial.fits for trial in found.trials] == [True, True, False]
    assert read_costs(folder, "G4", 2)[2] == pytest.approx(0.02)


def test_a_step_without_a_pipeline_is_that_of_the_slowest_gpu(folder: pathlib.Path) -> None:
    found = read_trials(folder / RESULTS)
    step_s, _ = predicted(MicrobatchCosts(profile_of(folder, found, 1)), found.trials[1])
    weights = 24 * 12 * 64**2 + 2 * 64 * 100
    gradients_s = 2 * 15 / 16 * 4 * weights / (10e9 / 8)  # float32 over the link between hosts
    assert step_s == pytest.approx(24 * 3 * SECONDS["G4"] * 2 + gradients_s, rel=0.02)


def test_a_pipeline_has_the_slow_gpus_in_its_last_stage(folder: pathlib.Path) -> None:
    found = read_trials(folder / RESULTS)
    step_s, _ = predicted(MicrobatchCosts(profile_of(folder, found, 1)), found.trials[0])
    # eight microbatches; the last stage has 6 blocks on T4, before it 5, 7 and 6 on V100
    assert step_s == pytest.approx(8 * 6 * 3 * SECONDS["G4"] + 18 * 3 * SECONDS["P3"], rel=0.05)


def test_a_block_keeps_what_the_formula_says() -> None:
    sizes = {"hidden_size": 1024, "sequence_length": 1024, "num_layers": 24, "vocab_size": 52256}
    block = layers_of(sizes, 1)[5]
    assert 2 * (block.kept + block.output) == pytest.approx(1024 * 1024 * (34 + 80))
    assert sum(layer.weights for layer in layers_of(sizes, 1)) == pytest.approx(409e6, rel=0.01)


def test_memory_of_a_gpu_grows_with_the_microbatch_and_falls_with_the_stages(folder: pathlib.Path) -> None:
    found = read_trials(folder / RESULTS)
    costs = MicrobatchCosts(profile_of(folder, found, 1))
    small, large = (predicted(costs, Trial((0, 30), samples, 1, 16, 1, 1.0, 1.0))[1] for samples in (1, 2))
    assert small < large < 2 * small + 2**20
    assert figures(found.trials[0], 1.0, GPU_BYTES + 1)["memory"] == "predicted, ran"
    assert figures(found.trials[2], 1.0, GPU_BYTES + 1)["memory"] == "ran out, predicted"
    assert figures(found.trials[2], 1.0, 1)["memory"] == "ran out, not predicted" and "error" not in figures(found.trials[2], 1.0, 1)


def test_the_table_has_a_row_for_each_trial(folder: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--folder", str(folder), "--results", "-"])
    assert done.exit_code == 0, done.output
    assert "| 1 x 4 x 4 | 1 | 0 7 14 20 | 2.00 |" in done.output and "| 2 x 4 x 2 | 1 | 0 14 |" in done.output
    assert "of 2 trials." in done.output and "Out of memory: 0 of 1 trials named" in done.output


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("gbs:32", "does not say the batch and the sizes"),
        ("\n".join([HEAD, "gbs:32"]), "has no trials"),
        ("\n".join([HEAD, "gbs:32", _line([0, 30], 1, (1, 4, 4), "2.0")]), "trial 0 of het_cluster_results.txt does not fit"),
        ("\n".join([HEAD, "gbs:30", LINES[0]]), "trial 0 of het_cluster_results.txt does not fit"),
    ],
)
def test_a_damaged_file_is_a_fault(folder: pathlib.Path, text: str, fault: str) -> None:
    (folder / RESULTS).write_text(text)
    with pytest.raises(DataError, match=fault):
        read_trials(folder / RESULTS)


def test_costs_that_are_pickled_or_no_times_are_refused(folder: pathlib.Path) -> None:
    path = folder / COSTS / "gpt2_P3_1.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="gpt2_P3_1.npy cannot be read: .*allow_pickle"):
        read_costs(folder, "P3", 1)
    np.save(path, np.full(30, -1.0))
    with pytest.raises(DataError, match="gpt2_P3_1.npy has no list of seconds"):
        read_costs(folder, "P3", 1)
    np.save(path, np.zeros(3))
    with pytest.raises(DataError, match="the costs of 1 GPUs are not those of 30 layers"):
        profile_of(folder, read_trials(folder / RESULTS), 1)
