"""Sailor's files: their reader, the prediction of a plan, and the table, on small files of the same format."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError
from tools.bench.others.sailor import CLUSTERS, NETWORK, main, own_plans, plans_in, predicted, published
from tools.bench.others.sailor_files import (
    LINKS,
    PLANNER,
    SIZES,
    TIMES,
    MeasuredPlan,
    link_s,
    read_links,
    read_plan,
    read_sizes,
    read_times,
)

GPUS = {"RTX-3090": 1.0, "RTX-2080": 2.0, "GH-96": 0.5}
FLAT = [[0.0, 0.0, 0.1], 1e8]  # 0.1 GB/s whatever the size
ZONE = "zone"


def _plan(stages: list[list[int]], groups: list[list[str]], batch: int, seconds: float) -> dict[str, Any]:
    replicas = [[[[[gpu, 8, ZONE]], 8] for gpu in stage] for stage in groups]
    pipeline = {"num_stages": len(stages), "layers_per_stage": stages, "tmp_per_stage": replicas, "dp": [len(groups[0])] * len(stages)}
    return {"zone": ZONE, "pipeline_list": [pipeline], "mbs": 2, "gbs": batch, "real": seconds, "red_grads": 0.0, "max_mem": 2**30}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a clone with three layers, which take a GPU its factor of a second for two samples, forward, and twice that backward."""
    rows = {gpu: {str(layer): [factor, 2 * factor, 0.0] for layer in range(3)} for gpu, factor in GPUS.items()}
    twice = {gpu: {at: [2 * seconds for seconds in row] for at, row in of_gpu.items()} for gpu, of_gpu in rows.items()}
    times = {gpu: {"2": {"8": rows[gpu]}, "4": {"8": twice[gpu]}} for gpu in GPUS}
    sizes = {str(layer): {"params_floats": 1000, "act_output_floats": 250_000, "act_mem_floats": 300_000, "more": 1} for layer in range(3)}
    links = {ZONE: {a: {"8": {ZONE: {b: {"8": FLAT} for b in GPUS}}} for a in GPUS}}
    below = PLANNER / "simulations/validation"
    files = {
        TIMES: {NETWORK: times},
        SIZES: {NETWORK: {"8": sizes}},
        LINKS: links,
        below / CLUSTERS["mixed"] / "N2/plan_config_N2_D1.json": _plan([[0], [1, 2]], [["RTX-2080"], ["RTX-3090"]], 8, 30.0),
        below / CLUSTERS["mixed"] / "N2/plan_config_N2_D2.json": _plan([[0, 1, 2]], [["RTX-2080", "RTX-3090"]], 8, 40.0),
        below / CLUSTERS["mixed"] / "N3/plan_config_N3_D1.json": _plan([[0, 1, 2]], [["RTX-2080", "RTX-3090"]], 8, 1.0),
        below / CLUSTERS["GH200"] / "N1/plan_config_N1_D1_M4_G1.json": _plan([[0, 1, 2]], [["GH-96"]], 2, 4.5),
    }
    for path, document in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps(document))
    return tmp_path


def test_files_are_read_as_they_are_published(folder: pathlib.Path) -> None:
    assert read_times(folder / TIMES, NETWORK)["RTX-2080"][2, 8] == [(2.0, 4.0, 0.0)] * 3
    assert [size.params_floats for size in read_sizes(folder / SIZES, NETWORK)[8]] == [1000] * 3
    assert read_links(folder / LINKS)["RTX-2080", 8, "GH-96", 8] == (0.0, 0.0, 0.1)
    assert link_s((0.0, 0.01, 0.1), 1e6) == pytest.approx(1e6 / 0.1e9)
    assert link_s((0.0, 0.01, 0.1), 4e6) == pytest.approx(4e6 / 0.12e9)
    plans = plans_in(folder, "mixed")
    assert [plan.name for plan in plans] == ["plan_config_N2_D1", "plan_config_N2_D2"]  # N3_D1 is left out
    assert plans[0] == MeasuredPlan("plan_config_N2_D1", ((0,), (1, 2)), ((("RTX-2080", 8),), (("RTX-3090", 8),)), 2, 8, 30.0, 2.0**30)
    assert (plans[1].replicas, plans[1].microbatches) == (2, 2)


def test_a_pipeline_takes_the_seconds_of_its_slowest_stage_and_of_what_is_sent(folder: pathlib.Path) -> None:
    said = predicted(published(folder), plans_in(folder, "mixed")[0])
    # four microbatches: both stages take 6 s for each; 2 MB between them at 0.1 GB/s
    assert said["first_s"] == pytest.approx(6.0 + 4 * 6.0 + 2 * 0.02, rel=2e-3)
    assert said["last_s"] > said["first_s"]


def test_replicas_wait_for_the_slowest_one_and_add_their_gradients_up(folder: pathlib.Path) -> None:
    said = predicted(published(folder), plans_in(folder, "mixed")[1])
    gradients_s = 3 * 8 * 1000 * 4 / 0.1e9  # of all GPUs of a host
    assert said["first_s"] == said["last_s"] == pytest.approx(2 * 18.0 + gradients_s, rel=1e-6)


def test_memory_is_that_of_a_gpu_and_the_last_stage_keeps_one_microbatch(folder: pathlib.Path) -> None:
    said = predicted(published(folder), plans_in(folder, "mixed")[0])
    kept = 2 * 300_000 * 4  # of two samples of a layer
    assert said["last_stage_bytes"] == pytest.approx(2 * kept + 2 * 16 * 1000, rel=0.4)
    assert said["memory_bytes"] >= said["last_stage_bytes"]


def test_own_plans_stand_beside_the_fastest_measured_one(folder: pathlib.Path) -> None:
    plans = plans_in(folder, "mixed")
    (row,) = own_plans(published(folder), [MeasuredPlan(**{**vars(plan), "batch": 32}) for plan in plans], 0.0)
    assert row["measured"] == "N2_D1" and row["hosts"] == "8 RTX-2080, 8 RTX-3090"
    assert row["own_s"] <= row["predicted_s"] * 1.001 and row["times"] >= 0.999


def test_the_table_has_a_row_for_each_plan_and_the_errors(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--folder", str(folder), "--results", str(tmp_path / "results")])
    assert done.exit_code == 0, done.output
    written = json.loads((tmp_path / "results" / "others_sailor.json").read_text())
    assert [row["texts"]["plan"] for row in written["rows"]] == ["N2_D1", "N2_D2", "N1_D1_M4_G1"]
    assert written["rows"][2]["numbers"]["last_error"] == pytest.approx(0.0, abs=1e-3)
    assert "mixed, last: median error" in done.output


def _damaged(folder: pathlib.Path, path: pathlib.Path, change: Any) -> None:
    document = json.loads((folder / path).read_text())
    change(document)
    (folder / path).write_text(json.dumps(document))


PLAN = PLANNER / "simulations/validation" / CLUSTERS["mixed"] / "N2/plan_config_N2_D1.json"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d.pop("real"), "the published files have 1 fault: plan_config_N2_D1.json.real: is None, must be a finite number; fetch"),
        (lambda d: d.update(real=0), "plan_config_N2_D1.json has a batch of 8, which 1 replicas do not share evenly"),
        (lambda d: d.update(gbs=7), "has a batch of 7, which 1 replicas do not share evenly"),
        (lambda d: d["pipeline_list"][0].update(layers_per_stage=[[0], [2]]), "has stages without layers or with other replicas"),
        (lambda d: d["pipeline_list"][0].update(tmp_per_stage=[]), "has stages without layers or with other replicas"),
        (lambda d: d.update(pipeline_list=[]), "a published file has no object where one belongs"),
        (lambda d: d["pipeline_list"][0].update(tmp_per_stage=[[[["x"], 1]]]), "1 fault: plan_config_N2_D1.json"),
    ],
)
def test_a_damaged_plan_is_a_fault_with_its_place(folder: pathlib.Path, change: Any, fault: str) -> None:
    _damaged(folder, PLAN, change)
    with pytest.raises(DataError, match=fault):
        read_plan(folder / PLAN)


def test_a_damaged_profile_is_a_fault_with_its_place(folder: pathlib.Path) -> None:
    _damaged(folder, TIMES, lambda d: d[NETWORK]["RTX-2080"]["2"]["8"].update({"1": [-1.0, 0.0, 0.0]}))
    with pytest.raises(DataError, match="profiles_tmp.json, RTX-2080 has seconds that are no time at 2 samples and degree 8"):
        read_times(folder / TIMES, NETWORK)
    (folder / TIMES).write_text("{")
    with pytest.raises(DataError, match="profiles_tmp.json cannot be read as JSON"):
        read_times(folder / TIMES, NETWORK)


def test_a_folder_without_plans_says_how_to_fetch_them(tmp_path: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--folder", str(tmp_path), "--results", "-"])
    assert done.exit_code == 1 and "cannot be read" in done.output
    with pytest.raises(DataError, match="has no plans; fetch them with git clone https://github.com/eth-easl/sailor"):
        plans_in(tmp_path, "mixed")
