"""A pipeline typed in Python and saved: trained, tested, asked for outputs and explained by the command line."""

import re

import numpy as np
import pytest

from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured
from tests.commands.error_lines import messages
from tests.planning.networks import profile_of

CLUSTER = ["--cluster", "emulate:0.5,0.4,0.4,0.3"]
PIPELINES = {
    "uneven replicas": {"starts": ["first", "second"], "devices": [[0, 1], [2, 3]], "microbatches": 2, "replicas": [5, 3]},
    "two stages a device": {
        "starts": ["first", "second", "flatten", "head"],
        "devices": [[0], [1], [0], [1]],
        "microbatches": 4,
        "schedule": "interleaved",
    },
}


def _test_line(said):
    return re.search(r"^test loss .*$", said.out, re.MULTILINE)[0]


def _is_tested(cli, start, options, expected, place):
    """Check that evaluate by the plan prints the loss and what training ended with, and nothing else."""
    tested = start("evaluate", *options)
    out, err = tested.communicate(timeout=200)
    loss, *lines = out.splitlines()
    assert (tested.returncode, messages(err), lines) == (0, [], [expected]) and loss.startswith("loss: ")


def _predicts(cli, start, options, expected, place):
    """Check that predict by the plan gives what one device gives."""
    _, model, _, data, *by_it, _, state = options
    asked = ["predict", "--model", model, "--input", data, "--checkpoint", state]
    for name, way in (("plan.npz", by_it), ("alone.npz", [])):
        said = cli(*asked, *way, "-o", place / name)
        assert said.code == 0, said
    with np.load(place / "plan.npz") as a, np.load(place / "alone.npz") as b:
        assert a["y"].shape == (20, 10) and np.allclose(a["y"], b["y"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", list(PIPELINES))
def test_a_typed_pipeline_is_trained_tested_and_explained(name, cli, start, model, folder, tmp_path):
    options, place = PIPELINES[name], tmp_path / "plan.json"
    profile = profile_of(layer_graph(load_model(model[1], {}, "float32")), [1e6, 8e5, 8e5, 6e5], 1e-4, batch_size=8)
    shares = [[1]] * len(options["starts"])
    plan = Plan.pipeline(profile.graph, shares=shares, cluster=profile.cluster, batch_size=8, **options)
    plan.save(place)
    data, by_it = [*model, "--data", f"npz:{folder / 'data.npz'}"], [*CLUSTER, "--plan", place]
    state, times = tmp_path / "state.npz", tmp_path / "measured.json"

    trained = cli("train", *data, *by_it, "--epochs", "2", "--save", state, "--measured", times)
    assert trained.code == 0 and re.search(r"^ +2/2 +6/6 ", trained.out, re.MULTILINE), trained
    (_is_tested if plan.replicas else _predicts)(cli, start, [*data, *by_it, "--checkpoint", state], _test_line(trained), tmp_path)

    tasks = {(task.device, task.stage, task.microbatch, task.step_pass) for task in Measured.load(times).tasks}
    placed = [(plan.devices[device], at) for at, stage in enumerate(plan.stages) for device in stage.devices]
    assert tasks == {(*seat, m, way) for seat in placed for m in range(plan.microbatches) for way in ("forward", "backward")}
    said = cli("explain", place)
    assert said.code == 0 and "\nMeasured time line\n" in said.out and "nothing is predicted: the plan is manual" in said.out, said
    profile.save(tmp_path / "profile.json")
    said = cli("explain", place, "--html", tmp_path / "page.html")
    assert said.code == 0 and "\nPredicted time line\n" in said.out and "\nMeasured time line\n" in said.out, said
    assert (tmp_path / "page.html").read_text().count("<svg") == 2
