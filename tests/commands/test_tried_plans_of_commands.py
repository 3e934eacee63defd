"""Training that begins at once from the command line: its plans are kept, repeated, and survive a death."""

import json
import re

import numpy as np
import pytest
import yaml

from hetero_mtf.commands import main
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.checkpoint import load_state

MOVES_AT = (0, 4, 9)
BATCH, STEPS = 32, 8  # samples a step, and steps an epoch, of the training that is killed


def _arrays(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files if name != "meta"}


def _same(one, other):
    """Return whether two states have the same weights and slots, bit for bit."""
    arrays, others = _arrays(one), _arrays(other)
    assert any(name.count("/") > 1 for name in arrays)  # slots, too
    return arrays.keys() == others.keys() and all(
        arrays[name].dtype == others[name].dtype and arrays[name].tobytes() == others[name].tobytes() for name in arrays
    )


def _epochs(folder):
    rows = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    return {row.pop("epoch"): {name: row[name] for name in row if name not in ("seconds", "samples_per_s")} for row in rows}


def _test_line(out):
    return re.search(r"^test loss .*$", out, re.MULTILINE)[0]


@pytest.fixture(scope="module")
def plans(folder, model, plan):
    """The plans of a training: the typed one, one of other shares, and the typed one again."""
    other = folder / "other-plan.json"
    options = ["--shares", "1,3", "--cluster", "local:cpu:0,cpu:0", "--batch-size", "8"]
    assert main.run(["plan", *model, *options, "-o", str(other)]) == 0
    path = folder / "plans.json"
    PlanHistory(tuple(PlanSpan(step, Plan.load(file)) for step, file in zip(MOVES_AT, (plan, other, plan)))).save(path)
    return path


def test_plans_of_a_file_are_repeated_and_stored_with_the_state(cli, subject, plans, tmp_path):
    options = ["--measure", plans, "--epochs", "2", "--optimizer", "adam"]
    first = cli("train", *subject, *options, "--save", tmp_path / "a.npz", "--save-every", "5", "--keep", "9")
    assert first.code == 0 and not (tmp_path / "a-plans.json").exists(), first
    rows = re.findall(r"^filters (\d+:\d+) +(\d+-\d+) ", first.out, re.MULTILINE)
    assert [steps for _, steps in rows] == ["0-3", "4-8", "9-11"] and rows[0][0] == rows[2][0] != rows[1][0]
    state = load_state(tmp_path / "a.npz")
    assert state.plans == PlanHistory.load(plans) and yaml.safe_load((tmp_path / "a-config.yaml").read_text())["measure"] == str(plans)
    assert len(load_state(tmp_path / "a-step5.npz").plans.spans) == 2
    again = cli("train", *subject, *options[2:], "--measure", tmp_path / "a.npz", "--save", tmp_path / "b.npz")
    assert again.code == 0 and _same(tmp_path / "a.npz", tmp_path / "b.npz") and _test_line(again.out) == _test_line(first.out)
    resumed = cli("train", *subject, *options, "--resume", tmp_path / "a-step5.npz", "--save", tmp_path / "c.npz")
    assert resumed.code == 0 and _same(tmp_path / "a.npz", tmp_path / "c.npz") and load_state(tmp_path / "c.npz").plans == state.plans


def test_plans_of_a_file_are_explained(cli, plans, tmp_path):
    said = cli("explain", plans, "--html", tmp_path / "page.html")
    assert said.code == 0 and "2 moves between plans" in said.out and re.search(r"^filters \S+ +9- ", said.out, re.MULTILINE), said
    assert "Plans of the training" in (tmp_path / "page.html").read_text()
    assert cli("explain", plans, "--scale", "cpu:0=2").code == 2 and cli("explain", plans, "--json").code == 2


@pytest.mark.parametrize(
    "options, words",
    [
        (["--batch-size", "4"], "are for batches of 8 and --batch-size is 4; leave the option out"),
        (["--precision", "float64"], "the plan is for a network of"),
        (["--cluster", "local:cpu:0"], "the plan is for the devices"),
    ],
)
def test_plans_that_do_not_fit_are_refused(cli, subject, plans, options, words):
    said = cli("train", *subject, "--measure", plans, "--epochs", "1", *options)
    assert said.code == 1 and words in said.err.splitlines()[-1], said


def test_a_file_that_has_no_plans_is_refused_before_the_work(cli, subject, plan, tmp_path):
    assert "is a plan of hetero-mtf plan and not" in cli("train", *subject, "--measure", plan).sentence
    (tmp_path / "notes.txt").write_text("filters, then samples")
    assert "notes.txt" in cli("train", *subject, "--measure", tmp_path / "notes.txt").sentence


def test_without_a_plan_nothing_is_trained_where_none_may_be_measured(cli, subject, plans, tmp_path, monkeypatch):
    monkeypatch.setenv("HETERO_MTF_CACHE", str(tmp_path / "cache"))
    said = cli("train", *subject, "--measure", "never", "--epochs", "1", "--output", tmp_path / "m.keras")
    assert said.code == 1 and "there is no plan for this network, and none is measured; give a plan" in said.err, said
    assert cli("train", *subject, "--measure", plans, "--epochs", "1", "--save", tmp_path / "s.npz").code == 0
    said = cli("train", *subject, "--measure", "never", "--epochs", "2", "--resume", tmp_path / "s.npz", "--save", tmp_path / "s.npz")
    assert said.code == 0 and "going on after step 6" in said.out, said
    assert load_state(tmp_path / "s.npz").plans.spans == PlanHistory.load(plans).spans[:2]


@pytest.mark.slow
@pytest.mark.timeout(900)  # of a busy machine
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_training_that_was_killed_while_it_tried_plans_is_repeated_with_the_same_bits(start, tmp_path, processes, precision):
    state, data, rng = tmp_path / "s.npz", tmp_path / "data.npz", np.random.default_rng(3)
    arrays = {"x_train": rng.normal(size=(BATCH * STEPS, 8, 8, 1)), "y_train": np.arange(BATCH * STEPS) % 10}
    np.savez(data, **arrays, x_test=arrays["x_train"][:BATCH], y_test=arrays["y_train"][:BATCH])
    network = ["--model", "hetero_mtf.models.digits:wide_digits", "--data", f"npz:{data}", "--cluster", "emulate:1.0,0.5"]
    network += ["--precision", precision, "--optimizer", "adam", "--seed", "7", "--batch-size", str(BATCH)]
    tries = [*network, "--measure", "steps", "--save", state, "--save-every", "1", "--log-dir", tmp_path / "logs"]
    variables = {"HETERO_MTF_CACHE": str(tmp_path / "cache")}
    killed = start("train", *tries, "--epochs", "1000", **variables)  # long enough that trying plans pays
    assert processes.until(lambda: state.exists() and len(load_state(state).plans.spans) > 1)
    killed.kill()
    killed.communicate()
    before = load_state(state)
    assert before.plans.spans[0].step == 0 < before.step
    interrupted = before.step // STEPS
    epochs = ["--epochs", str(interrupted + 2)]
    resumed = start("train", *tries, *epochs, "--resume", state, **variables)
    out, err = resumed.communicate(timeout=250)
    assert resumed.returncode == 0 and f"going on after step {before.step}" in out, err
    after, plans = load_state(state), PlanHistory.load(tmp_path / "s-plans.json")
    assert after.step == plans.steps == (interrupted + 2) * STEPS and after.plans == plans
    assert plans.spans[: len(before.plans.spans)] == before.plans.spans
    replay = [*network, *epochs, "--measure", tmp_path / "s-plans.json", "--save", tmp_path / "r.npz", "--log-dir", tmp_path / "replayed"]
    repeated = start("train", *replay, **variables)
    told, err = repeated.communicate(timeout=250)
    assert repeated.returncode == 0, err
    assert _same(state, tmp_path / "r.npz") and _test_line(out) == _test_line(told)
    one, other = (_epochs(tmp_path / name)[interrupted + 1] for name in ("logs", "replayed"))
    assert one == other and one["samples"] > 0
