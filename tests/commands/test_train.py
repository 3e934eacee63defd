"""Training from the command line: resuming, refusals, and what is left when something dies."""

import os
import re
import resource
import signal
import warnings

import numpy as np
import pytest

from hetero_mtf.commands.runs import training
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured
from hetero_mtf.scratch_file import sole_writer
from hetero_mtf.training.run.run import Run
from hetero_mtf.training.trainer import Trainer
from tests.cases import first_fast
from tests.commands.error_lines import messages

FLOAT64 = ["--precision", "float64", "--batch-size", "8", "--optimizer", "sgd", "--momentum", "0.9", "--epochs", "2", "--seed", "5"]
MASKS = """
import keras

def net():
    inputs = x = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu", name="first")(x)
    return keras.Model(inputs, keras.layers.Conv2D(1, 1, activation="sigmoid", name="mask")(x))
"""
ENDLESS = ["--epochs", "100000", "--batch-size", "8", "--no-refine"]


def _test_line(said):
    return re.search(r"^test loss .*$", said.out, re.MULTILINE)[0]


def test_training_prints_epochs_and_test_metrics_and_saves_what_evaluate_and_predict_read(cli, subject, model, plan, folder, tmp_path):
    state, keras_file = tmp_path / "state.npz", tmp_path / "m.keras"
    trained = cli("train", *subject, "--plan", plan, "--epochs", "2", "--save", state, "--output", keras_file)
    assert trained.code == 0, trained
    assert re.search(r"epoch +steps +loss +accuracy +time\n +1/2 +6/6 .*\n +2/2 +6/6 ", trained.out)
    assert state.exists() and keras_file.exists()
    evaluated = cli("evaluate", *subject, "--checkpoint", state)
    assert evaluated.code == 0 and _test_line(evaluated) == _test_line(trained)
    out = tmp_path / "out.npz"
    predicted = cli("predict", *model, "--input", f"npz:{folder / 'data.npz'}", "--checkpoint", state, "-o", out)
    assert predicted.code == 0 and np.load(out)["y"].shape == (20, 10)


@pytest.mark.slow
def test_a_plan_that_is_given_is_printed_in_a_few_lines_and_in_full_on_request(cli, subject, plan):
    short = cli("train", *subject, "--plan", plan, "--epochs", "1")
    text = short.out.partition("\nloss: ")[0]
    assert short.code == 0 and len(text.splitlines()) < 8 and f"hetero-mtf explain {plan}" in text and "--verbose" in text
    assert "Plan: strategy filters, batch size 8" in text and "Layouts" not in text and "replicated" not in text
    full = cli("train", *subject, "--plan", plan, "--epochs", "1", "--verbose")
    assert "Plan by strategy filters, batch size 8" in full.out and "replicated" in full.out


@pytest.mark.parametrize("wrong", ["size", "classes"])
def test_data_that_do_not_fit_the_model_are_refused_before_anything_is_measured(cli, folder, tmp_path, monkeypatch, wrong):
    (tmp_path / "small.py").write_text(
        "import keras\n"
        "def net(size=8, classes=10):\n"
        "    i = keras.Input((size, size, 1))\n"
        "    return keras.Model(i, keras.layers.Dense(classes)(keras.layers.Flatten()(i)))\n"
    )
    monkeypatch.setattr(training, "open_cluster", None)  # no device is opened
    options = ["--model", f"{tmp_path / 'small.py'}:net", "--model-arg", f"{wrong}=5", "--data", f"npz:{folder / 'data.npz'}"]
    sentence = cli("train", *options).sentence
    assert "does not fit the model" in sentence and ("(8, 8, 1)" in sentence if wrong == "size" else "5 classes" in sentence)


def test_a_plan_in_the_place_of_a_checkpoint_is_named_as_one(cli, subject, plan):
    sentence = cli("evaluate", *subject, "--checkpoint", plan).sentence
    assert f"{plan} is a plan" in sentence and "give a file that hetero-mtf train --save wrote" in sentence


def test_all_that_is_not_supported_in_a_model_is_listed(cli, folder, tmp_path):
    (tmp_path / "odd.py").write_text(
        "import keras\n"
        "POLICY = 'int8_from_float32'\n"
        "def net():\n"
        "    i = keras.Input((8, 8, 1))\n"
        "    x = keras.layers.Dense(2, name='unit', dtype=POLICY)(keras.layers.Dense(2, name='noise', dtype=POLICY)(i))\n"
        "    return keras.Model(i, keras.layers.Dense(10)(keras.layers.Flatten()(x)))\n"
    )
    said = cli("train", "--model", f"{tmp_path / 'odd.py'}:net", "--data", f"npz:{folder / 'data.npz'}")
    first, *others = said.err.splitlines()
    assert said.code == 1 and first.startswith("hetero-mtf: the model needs 2 things")
    assert len(others) == 2 and "noise has the dtype policy int8_from_float32" in others[0] and "only bfloat16, float16" in others[1]


@pytest.mark.slow
def test_masks_are_trained_and_evaluated_with_a_loss_that_is_said_and_can_be_set(cli, folder, tmp_path):
    (tmp_path / "masks.py").write_text(MASKS)
    rng = np.random.default_rng(4)
    x, test = rng.normal(size=(24, 8, 8, 1)), rng.normal(size=(8, 8, 8, 1))
    np.savez(tmp_path / "masks.npz", x_train=x, y_train=(x > 0).astype(int), x_test=test, y_test=(test > 0).astype(int))
    subject = ["--model", f"{tmp_path / 'masks.py'}:net", "--data", f"npz:{tmp_path / 'masks.npz'}", "--cluster", "local:cpu:0"]
    plan, state = tmp_path / "plan.json", tmp_path / "state.npz"
    assert cli("plan", *subject[:2], *subject[4:], "--shares", "1", "--batch-size", "8", "-o", plan).code == 0
    options = [*subject, "--plan", plan, "--epochs", "1", "--save", state]
    guessed = "loss: binary cross-entropy, guessed from targets of 0 and 1 and an output that ends in sigmoid; set it with --loss\n"
    trained = cli("train", *options)
    assert trained.code == 0 and f"\n{guessed}" in trained.out and "test accuracy 0." in trained.out, trained
    evaluated = cli("evaluate", *subject, "--checkpoint", state)
    assert evaluated.code == 0 and evaluated.out.startswith(guessed) and _test_line(evaluated) == _test_line(trained)
    named = ["--loss", "mse", "--metrics", "mae,auc"]
    trained, evaluated = cli("train", *options, *named), cli("evaluate", *subject, "--checkpoint", state, *named)
    for said in (trained, evaluated):
        assert "loss: mean squared error, set by --loss" in said.out.splitlines() and "test auc 0." in said.out, said
    assert _test_line(evaluated) == _test_line(trained)
    stored = cli("evaluate", *subject, "--checkpoint", state)
    assert f"loss: mean squared error, as {state} was trained with" in stored.out and _test_line(stored) == _test_line(trained)
    assert cli("train", *options, "--loss", "a b").code == cli("train", *options, "--metrics", "a b").code == 2
    assert "for --loss there are" in cli("train", *options, "--loss", "huberr").sentence
    wrong = cli("train", *options, "--loss", "head=mse").sentence
    assert "name the output head, and the model's is mask; write that" in wrong
    focal = cli("train", *options, "--loss", "mask=BinaryFocalCrossentropy", "--metrics", "binary_io_u", "--metrics", "mask=recall")
    assert "loss: binary focal cross-entropy, set by --loss" in focal.out and "test recall" in focal.out, focal
    refused = cli("train", *options, "--loss", "sparse_categorical_crossentropy")
    assert "does not fit the model (loss: sparse categorical cross-entropy, set by --loss)" in refused.sentence and refused.out == ""


@pytest.mark.slow
def test_a_run_resumed_in_mid_epoch_ends_with_the_numbers_of_an_uninterrupted_one(cli, subject, model, tmp_path, monkeypatch):
    plan, whole, part = (tmp_path / name for name in ("plan.json", "whole.npz", "part.npz"))
    typed = ["--shares", "1,1", "--cluster", "local:cpu:0,cpu:0", "--dtype", "float64", "--batch-size", "8", "-o", plan]
    assert cli("plan", *model, *typed).code == 0
    options = [*subject, *FLOAT64, "--plan", plan]
    straight = cli("train", *options, "--save", whole)
    assert straight.code == 0, straight
    save = Trainer.save

    def save_and_end(self, path, **options):
        save(self, path, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", save_and_end)
        assert cli("train", *options, "--save", part, "--save-every", "8").code == 130
    resumed = cli("train", *options, "--resume", part, "--save", part, "--seed", "99")
    assert resumed.code == 0 and "going on after step 8" in resumed.out and _test_line(resumed) == _test_line(straight), resumed
    with np.load(whole) as a, np.load(part) as b:
        assert all(np.allclose(a[key], b[key], rtol=1e-12, atol=1e-12) for key in a.files if key != "meta")
    again = cli("train", *options, "--resume", part)
    assert again.code == 0 and "nothing was left to train" in again.out


@pytest.mark.slow
@pytest.mark.parametrize("step, number", first_fast([(6, signal.SIGTERM), (4, signal.SIGINT), (12, signal.SIGINT)], 1))
def test_a_run_stopped_by_a_signal_and_resumed_is_the_undisturbed_one_bit_for_bit(cli, subject, plan, tmp_path, monkeypatch, step, number):
    whole, part = tmp_path / "whole.npz", tmp_path / "part.npz"
    options = [*subject, "--plan", plan, "--optimizer", "adam", "--epochs", "2", "--seed", "5"]
    assert cli("train", *options, "--save", whole).code == 0
    train = Run.advance

    def train_and_signal(self, *arguments):
        if self.state.step == step - 1:
            signal.raise_signal(number)
        return train(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "advance", train_and_signal)
        assert (stopped := cli("train", *options, "--save", part)).code == 128 + number
        said = f"interrupted; the state after step {step} is in {part}: go on from there with --resume {part}"
        assert stopped.err.splitlines()[-1] == f"hetero-mtf: {said}"
        said = "interrupted; nothing is saved, because there is no --save FILE to save to"
        assert cli("train", *options).err.splitlines()[-1] == f"hetero-mtf: {said}"
    assert cli("train", *options, "--resume", part, "--save", part).code == 0
    with np.load(whole) as a, np.load(part) as b:
        assert sorted(a.files) == sorted(b.files) and all(np.array_equal(a[key], b[key]) for key in a.files)


def test_a_plan_or_profile_for_something_else_is_refused(cli, subject, model, plan, profile):
    wide = [*subject, "--model-arg", "filters=9"]
    assert "the plan is for a network of" in cli("train", *wide, "--plan", plan).sentence
    assert "this model has" in cli("train", *wide, "--profile", profile).sentence
    other = [*subject, "--cluster", "local:cpu:0"]
    assert "the plan is for the devices cpu:0, cpu:0, this cluster has cpu:0" in cli("train", *other, "--plan", plan).sentence
    assert "was measured on cpu:0" in cli("train", *other, "--profile", profile).sentence
    assert "leave the option out or plan again" in cli("train", *subject, "--plan", plan, "--batch-size", "4").sentence


@pytest.mark.fast("options0-True")
@pytest.mark.parametrize(
    "options, refined",
    [(["--refine-time", "0"], True), ([], False), (["--no-refine"], False), (["--strategy", "filters", "--refine-time", "0"], False)],
)
def test_plans_are_tried_where_none_is_given_and_asked_for_or_worth_it(cli, subject, profile, options, refined):
    before = profile.read_bytes()
    said = cli("train", *subject, "--profile", profile, "--epochs", "1", *options)
    assert said.code == 0, said.err
    assert ("Refined in" in said.out) == ("in force" in said.out) == refined and profile.read_bytes() == before


def test_a_plan_that_is_given_is_not_refined(cli, subject, plan):
    assert cli("train", *subject, "--plan", plan, "--refine-time", "3").code == 2
    assert "Refined in" not in cli("train", *subject, "--plan", plan, "--epochs", "1").out


def test_options_that_exclude_each_other_are_wrong_usage(cli, subject):
    same_file = ["--save", "m.keras", "--output", "./m.keras"]
    forced = [["--collective", "ring", "--rebalance"], ["--collective", "ring", "--refine-time", "3"], ["--collective", "gossip"]]
    alone = [["--plan", "a", "--profile", "b"], ["--save-every", "3"], ["--output", "m.h5"], ["--save", "m.keras"]]
    for options in (*alone, same_file, *forced):
        assert cli("train", *subject, *options).code == 2


def test_a_checkpoint_that_is_not_there_is_refused_before_anything_is_measured(cli, subject, tmp_path):
    said = cli("train", *subject, "--resume", tmp_path / "none.npz")
    assert "none.npz: No such file or directory; check the path" in said.sentence and said.out == ""


def test_truncated_data_is_refused(cli, model, plan, folder, tmp_path):
    (tmp_path / "cut.npz").write_bytes((folder / "data.npz").read_bytes()[:900])
    assert "cut.npz is not a complete .npz file" in cli("train", *model, "--data", f"npz:{tmp_path / 'cut.npz'}", "--plan", plan).sentence


@pytest.mark.slow
def test_a_loss_that_is_not_finite_ends_training_and_leaves_the_last_finite_state(cli, subject, plan, tmp_path):
    state = tmp_path / "s.npz"
    options = [*subject, "--plan", plan, "--optimizer", "sgd", "--epochs", "1", "--save", state, "--save-every", "1"]
    assert cli("train", *options).code == 0
    before = state.read_bytes()
    resumed = ["--resume", state, "--epochs", "3", "--learning-rate", "1e30"]
    said = cli("train", *options, *resumed)
    assert re.search(r"step [78].* first .*; use a smaller learning rate", said.sentence), said
    with np.load(state) as kept:
        assert all(np.isfinite(kept[name]).all() for name in kept.files)
    assert f"is in {state}: go on from there" in said.out or state.read_bytes() == before
    before = state.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        going = cli("train", *options, *resumed, "--keep-going")
    assert going.code == 1 and state.read_bytes() == before and re.search(r"^ +3/3 +6/6 +nan ", going.out, re.MULTILINE), going
    assert "hetero-mtf: warning: training goes on although the loss of step" in going.err
    assert going.err.splitlines()[-1].startswith("hetero-mtf: the state after step 18 is not saved")


@pytest.mark.parametrize("full_until, code", [(4, 0), (100, 1)])
def test_a_save_on_the_way_that_fails_is_said_and_training_goes_on(cli, subject, plan, tmp_path, monkeypatch, full_until, code):
    save, (soft, hard) = Trainer.save, resource.getrlimit(resource.RLIMIT_FSIZE)

    def save_on_a_full_disk(self, path, **options):
        if self.step <= full_until:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
        try:
            return save(self, path, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setattr(Trainer, "save", save_on_a_full_disk)
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # Python puts a compiled module in place although it is cut short
    said = cli("train", *subject, "--plan", plan, "--epochs", "1", "--save", tmp_path / "s.npz", "--save-every", "2")
    assert said.code == code, said
    lines = [line for line in said.err.splitlines() if line]
    failed = [re.search(r"after step (\d+) is not saved: .*too large.*next after step (\d+), or at its end$", line) for line in lines[:3]]
    assert [match and match.groups() for match in failed] == [("2", "4"), ("4", "6"), ("6", "8")][: 2 if code == 0 else 3], lines
    assert (tmp_path / "s.npz").exists() == (code == 0) and len(lines) == (2 if code == 0 else 4)
    assert re.search(r"^ +1/1 +6/6 ", said.out, re.MULTILINE)


@pytest.mark.slow
def test_a_disk_that_is_full_while_saving_leaves_no_half_file(start, subject, plan, tmp_path):
    process = start("train", *subject, "--plan", plan, "--epochs", "1", "--save", tmp_path / "s.npz", file_bytes=2000)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1 and len(messages(err)) == 1 and "File too large; choose another place" in err, err
    assert [path.name for path in tmp_path.iterdir()] == ["s-config.yaml"]  # which is written before training


@pytest.mark.slow
@pytest.mark.parametrize("how, code", [("killed worker", 138), ("interrupted", 130), ("terminated", 143)])
@pytest.mark.parametrize("phase", ["calibration", "training"])
def test_a_death_or_interruption_ends_in_one_sentence_and_leaves_nothing(start, model, folder, tmp_path, processes, how, code, phase):
    data = ["--data", f"npz:{folder / 'data.npz'}", "--cluster", "emulate:0.6,0.3", "--save", tmp_path / "s.npz", "--save-every", "1"]
    strategy = ["--strategy", "equal", "--budget", "600" if phase == "calibration" else "2"]
    process = start("train", *model, *data, *strategy, *ENDLESS)
    assert processes.until(lambda: len(processes.workers_of(process.pid)) == 2)
    below = processes.descendants(process.pid)
    if phase == "calibration":
        assert "measuring the devices" in process.stdout.readline()
    else:
        assert processes.until(lambda: (tmp_path / "s.npz").exists())
    if how != "killed worker":
        os.kill(process.pid, signal.SIGINT if how == "interrupted" else signal.SIGTERM)
    else:
        os.kill(processes.workers_of(process.pid)[-1], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    # a line is ended before "interrupted"
    told = [line for line in messages(err) if "warning:" not in line and "finishing the step" not in line]
    assert process.returncode == code and "Traceback" not in err and len(told) == 1, err
    assert ("was killed by SIGKILL" if code == 138 else "hetero-mtf: interrupted") in told[0]
    assert phase == "calibration" or code == 138 or f"is in {tmp_path / 's.npz'}" in told[0]
    assert processes.until(lambda: not any(processes.alive(child) for child in below))
    assert not [name for name in processes.control_groups() if int(name.split("-")[1]) in below]


@pytest.mark.slow
@pytest.mark.parametrize("second", [True, False])
def test_a_run_whose_worker_hangs_ends_after_a_signal_and_names_the_last_state(cli, start, model, folder, tmp_path, processes, second):
    cluster, plan = ["--cluster", "emulate:0.6,0.3"], tmp_path / "plan.json"
    assert cli("plan", *model, *cluster, "--shares", "2,1", "--batch-size", "8", "-o", plan).code == 0
    data = ["--data", f"npz:{folder / 'data.npz'}", "--plan", plan, "--save", tmp_path / "s.npz", "--save-every", "20"]
    process = start("train", *model, *data, *cluster, *ENDLESS)
    assert processes.until(lambda: (tmp_path / "s.npz").exists())
    below = processes.descendants(process.pid)
    supervisor = next(child for child in below if processes.workers_of(child))
    for stopped in (supervisor, processes.workers_of(process.pid)[0]):  # a supervisor may let its workers go on
        os.kill(stopped, signal.SIGSTOP)
    process.send_signal(signal.SIGINT if second else signal.SIGTERM)
    assert any("finishing the step; press Ctrl-C again to stop at once" in line for line in process.stderr)
    if second:
        process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    assert process.returncode == (130 if second else 143)
    why = "before the running step had ended" if second else "and the running step was not waited for: worker:0 .* has not answered .*"
    last = process.stderr.read().splitlines()[-1]
    assert re.search(rf"interrupted,? {why}; the state after step \d+ is in .*s.npz: go on from there with --resume", last), last
    for child in below:
        if processes.alive(child):
            os.kill(child, signal.SIGCONT)
    assert processes.until(lambda: not any(processes.alive(child) for child in below))


@pytest.mark.slow
def test_a_pipeline_is_planned_trained_and_explained_with_its_measured_time_line(cli, model, folder, tmp_path):
    cluster = ["--cluster", "emulate:1.0,0.5"]
    data = ["--data", f"npz:{folder / 'data.npz'}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short budget is doubted
        assert cli("calibrate", *model, *cluster, "--batch-size", "8", "--budget", "5", "-o", tmp_path / "profile.json").code == 0
    asked = ["--strategy", "pipeline", "--stages", "2", "--microbatches", "4"]
    assert cli("plan", tmp_path / "profile.json", *asked, "-o", tmp_path / "plan.json").code == 0
    options = ["--plan", tmp_path / "plan.json", "--epochs", "2", "--measured", tmp_path / "measured.json", "--compare"]
    trained = cli("train", *model, *data, *cluster, *options)
    rows = re.findall(
        r"^(equal partition into 2 stages|same stages, no microbatches|planned \(pipeline\)) .* ms ", trained.out, re.MULTILINE
    )
    assert trained.code == 0 and len(rows) == 3, trained
    plan, found = Plan.load(tmp_path / "plan.json"), Measured.load(tmp_path / "measured.json")
    found.check(plan)
    assert list(found.simpler_s) == rows[:2]
    worked = {(task.stage, task.microbatch, task.step_pass) for task in found.tasks}
    assert worked == {(stage, m, step_pass) for stage in range(2) for m in range(4) for step_pass in ("forward", "backward")}
    assert {task.device for task in found.tasks} == {plan.devices[device] for device in plan.used}
    said = cli("explain", tmp_path / "plan.json", "--html", tmp_path / "page.html")
    assert said.code == 0 and "\nPredicted time line\n" in said.out and "\nMeasured time line\n" in said.out, said
    gaps = r"\d+% between the bars, \d+% with the gaps inside them"
    assert re.search(rf"^measured bubble {gaps}, predicted \d+%, ideal 20%$", said.out, re.MULTILINE)
    assert (tmp_path / "page.html").read_text().count("<svg") == 2


def test_a_second_training_with_the_same_save_is_refused_at_its_start(cli, model, tmp_path):
    state = tmp_path / "s.npz"
    with sole_writer(state):
        said = cli("train", *model, "--data", "npz:not-even-there.npz", "--save", state)
        assert re.fullmatch(r".*s.npz is being written by another training \(process \d+\); wait until it ends, or .*", said.sentence)
        other = cli("train", *model, "--data", "npz:not-even-there.npz", "--save", tmp_path / "other.npz")
        assert "not-even-there.npz does not exist" in other.sentence
    assert "not-even-there.npz does not exist" in cli("train", *model, "--data", "npz:not-even-there.npz", "--save", state).sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_training_that_is_killed_leaves_nothing_that_the_next_one_does_not_remove(start, subject, plan, tmp_path, processes, cli):
    state = tmp_path / "s.npz"
    process = start("train", *subject, "--plan", plan, "--epochs", "100000", "--save", state, "--save-every", "1")
    assert processes.until(state.exists)
    second = cli("train", *subject, "--plan", plan, "--epochs", "1", "--save", state)
    assert f"is being written by another training (process {process.pid})" in second.sentence
    process.kill()
    process.wait()
    (tmp_path / ".s.npz.0123456789ab").write_bytes(b"left")
    resumed = cli("train", *subject, "--plan", plan, "--epochs", "1", "--resume", state, "--save", state)
    assert resumed.code == 0, resumed
    measured = {"s-measured.json"}  # only where the killed one had left a step of the epoch
    assert {entry.name for entry in tmp_path.iterdir()} - measured == {"s.npz", "s-config.yaml"}


@pytest.mark.slow
def test_a_training_is_rebalanced_where_its_plan_is_the_best_of_all_strategies_or_that_is_asked_for(cli, subject, profile, monkeypatch):
    asked = []
    init = Trainer.__init__

    def noted(trainer, *arguments, **options):
        asked.append(options["rebalance"])
        init(trainer, *arguments, **options)

    monkeypatch.setattr(Trainer, "__init__", noted)
    for options in ([], ["--no-rebalance"], ["--strategy", "batch"], ["--strategy", "batch", "--rebalance"]):
        said = cli("train", *subject, "--profile", profile, "--epochs", "1", "--no-refine", *options)
        assert said.code == 0, said
    assert asked == [True, False, False, True]


def test_a_plan_that_is_given_cannot_be_rebalanced_by_the_command(cli, subject, plan):
    said = cli("train", *subject, "--plan", plan, "--rebalance")
    assert said.code == 2 and "--rebalance goes with --profile" in said.err
