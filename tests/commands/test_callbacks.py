"""What watches a training from the command line: early stopping, the best epoch, kept states and logs, with Keras as the oracle."""

import csv
import io
import json
import re
import resource
import signal
import sys

import keras
import numpy as np
import pytest

from hetero_mtf.training.checkpoint import load_state
from hetero_mtf.training.run.run import Run

FALLING = ["--optimizer", "adam", "--learning-rate", "0.05", "--seed", "3"]


@pytest.fixture
def options(subject, plan):
    """A training whose validation loss rises after some epochs."""
    return [*subject, "--plan", plan, *FALLING, "--validation-split", "0.25"]


def _validation_losses(said):
    """Return the column of val loss of each epoch."""
    lines = said.out.splitlines()
    at = next(number for number, line in enumerate(lines) if re.match(r" +epoch +steps", line))
    column = re.split(r"  +", lines[at].strip()).index("val loss")
    rows = [re.split(r"  +", line.strip()) for line in lines[at + 1 :]]
    return [float(row[column]) for row in rows if re.fullmatch(r"\d+/\d+", row[0])]


def _rows(folder):
    return list(csv.DictReader(io.StringIO((folder / "epochs.csv").read_text())))


def _keras_stops(losses, patience):
    """Return after how many epochs Keras's EarlyStopping stops, and the best epoch, both counted from 1."""
    watch = keras.callbacks.EarlyStopping("val_loss", patience=patience)
    watch.set_model(keras.Sequential())
    watch.model.stop_training = False
    watch.on_train_begin()
    for epoch, loss in enumerate(losses):
        watch.on_epoch_end(epoch, {"val_loss": loss})
        if watch.model.stop_training:
            break
    return epoch + 1, watch.best_epoch + 1


@pytest.fixture
def long(cli, options):
    """The validation losses of twelve epochs without early stopping."""
    said = cli("train", *options, "--epochs", "12")
    assert said.code == 0 and "validating on the last 11 of the 44 training samples" in said.out, said
    return _validation_losses(said)


@pytest.mark.slow
@pytest.mark.parametrize("patience", [0, 2])
def test_training_stops_where_keras_would_and_ends_with_the_best_weights(cli, options, long, tmp_path, patience):
    stopped, best = _keras_stops(long, patience)
    assert stopped < 12 and best < stopped  # else nothing is tested
    given = [*options, "--early-stopping", "val_loss", "--patience", patience, "--best", "val_loss"]
    said = cli("train", *given, "--epochs", "12", "--save", tmp_path / "s.npz", "--output", tmp_path / "m.keras")
    assert said.code == 0 and len(_validation_losses(said)) == stopped, said
    assert f"nothing was better than epoch {best} (val_loss {long[best - 1]:.4f}) for {stopped - best} epoch" in said.out
    assert "its weights are restored" in said.out
    saved = f"the best epoch is {best} (val_loss {long[best - 1]:.4f}): saved {tmp_path / 's-best.npz'} and {tmp_path / 'm-best.keras'}"
    assert saved in said.out.splitlines()
    last, kept = load_state(tmp_path / "s.npz"), load_state(tmp_path / "s-best.npz")
    weights = [name for name in kept.values if name.count("/") == 1]
    assert all(np.array_equal(last.values[name], kept.values[name]) for name in weights)
    assert last.step > kept.step and kept.position["epoch"] == best
    models = [keras.models.load_model(tmp_path / name) for name in ("m.keras", "m-best.keras")]
    for one, other in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(one, other)
    again = cli(
        "train", *given, "--epochs", "12", "--resume", tmp_path / "s.npz", "--save", tmp_path / "s.npz", "--output", tmp_path / "m.keras"
    )
    assert again.code == 0 and "early stopping: nothing was better" in again.out and " 12/12 " not in again.out
    assert load_state(tmp_path / "s.npz").step == last.step


@pytest.mark.slow
def test_the_last_weights_stay_where_the_best_are_not_wanted(cli, options, long, tmp_path):
    stopped, _ = _keras_stops(long, 1)
    plain = cli("train", *options, "--epochs", stopped, "--save", tmp_path / "plain.npz")
    given = ["--early-stopping", "val_loss", "--patience", "1", "--no-restore-best-weights", "--save", tmp_path / "s.npz"]
    said = cli("train", *options, "--epochs", "12", *given)
    assert plain.code == said.code == 0 and "the weights are those of the last epoch" in said.out
    one, other = load_state(tmp_path / "plain.npz"), load_state(tmp_path / "s.npz")
    assert all(np.array_equal(one.values[name], other.values[name]) for name in one.values)


@pytest.mark.slow
@pytest.mark.parametrize("step", [7, 22])
def test_a_run_stopped_by_a_signal_and_resumed_stops_where_an_undisturbed_one_does(cli, options, tmp_path, monkeypatch, step):
    watched = [
        "--epochs",
        "12",
        "--early-stopping",
        "val_loss",
        "--patience",
        "2",
        "--best",
        "val_loss",
        "--keep",
        "2",
        "--save-every",
        "4",
    ]
    files = {name: [*watched, "--save", tmp_path / name / "s.npz", "--log-dir", tmp_path / name] for name in ("straight", "resumed")}
    for name in files:
        (tmp_path / name).mkdir()
    assert cli("train", *options, *files["straight"]).code == 0
    train = Run.advance

    def train_and_signal(self, *arguments):
        if self.state.step == step - 1:
            signal.raise_signal(signal.SIGTERM)
        return train(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "advance", train_and_signal)
        stopped = cli("train", *options, *files["resumed"])
    assert stopped.code == 143 and f"the state after step {step} is in" in stopped.err, stopped
    assert "restored" not in stopped.out and (step < 11 or "the best epoch is" in stopped.out)
    resumed = cli("train", *options, *files["resumed"], "--resume", tmp_path / "resumed" / "s.npz")
    assert resumed.code == 0, resumed
    for name in ("s.npz", "s-best.npz"):
        one, other = (load_state(tmp_path / folder / name) for folder in files)
        assert (one.step, one.position, one.notes) == (other.step, other.position, other.notes)
        assert all(np.array_equal(one.values[key], other.values[key]) for key in one.values)
    kept = [sorted(path.name for path in (tmp_path / folder).glob("s-step*.npz")) for folder in files]
    assert kept[0] == kept[1] and len(kept[0]) == 2
    straight, again = (_rows(tmp_path / folder) for folder in files)
    assert [row["epoch"] for row in straight] == [row["epoch"] for row in again]
    assert [row["val_loss"] for row in straight] == [row["val_loss"] for row in again]  # the loss is that of the rest of an epoch
    lines = [json.loads(line) for line in (tmp_path / "resumed" / "epochs.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(len(straight)))


@pytest.mark.slow
def test_where_the_best_epoch_was_before_a_resume_and_is_in_no_file_that_is_said(cli, options, long, tmp_path):
    stopped, best = _keras_stops(long, 2)
    watched = ["--early-stopping", "val_loss", "--patience", "2", "--save", tmp_path / "s.npz"]
    assert cli("train", *options, *watched, "--epochs", best).code == 0
    said = cli("train", *options, *watched, "--epochs", "12", "--resume", tmp_path / "s.npz")
    assert said.code == 0 and len(_validation_losses(said)) == stopped - best, said
    assert f"nothing was better than epoch {best} (val_loss" in said.out
    assert "it was before --resume, so the weights are those of the last epoch" in said.out


@pytest.mark.slow
def test_epochs_are_logged_as_csv_json_lines_and_for_tensorboard(cli, options, tmp_path):
    said = cli("train", *options, "--epochs", "2", "--log-dir", tmp_path / "new" / "logs")
    assert said.code == 0, said
    folder = tmp_path / "new" / "logs"
    rows = _rows(folder)
    lines = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == ["0", "1"] and [line["epoch"] for line in lines] == [0, 1]
    for row, line in zip(rows, lines):
        for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
            assert float(row[name]) == pytest.approx(line[name])
        assert line["samples"] == 33 and line["seconds"] > 0 and line["samples_per_s"] == pytest.approx(33 / line["seconds"])
        assert line["learning_rate"] == pytest.approx(0.05)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for part, name in (("train", "epoch_loss"), ("validation", "epoch_loss"), ("train", "epoch_learning_rate")):
        events = EventAccumulator(str(folder / part))
        events.Reload()
        assert name in events.Tags()["tensors"], (part, events.Tags())
    assert cli("train", *options, "--epochs", "1", "--log-dir", folder).code == 0
    assert len((folder / "epochs.jsonl").read_text().splitlines()) == 1  # those of a new training only


@pytest.mark.slow
def test_without_tensorboard_the_other_logs_are_written(cli, options, tmp_path, monkeypatch):
    from hetero_mtf.commands.output import epoch_logs

    monkeypatch.setattr(epoch_logs.importlib.util, "find_spec", lambda name: None)
    said = cli("train", *options, "--epochs", "1", "--log-dir", tmp_path)
    assert said.code == 0 and "tensorboard is not installed" in said.err and "install tensorboard" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epochs.csv", "epochs.jsonl"]


def test_rows_that_cannot_be_written_are_said_and_training_goes_on(cli, options, tmp_path, monkeypatch):
    from hetero_mtf.commands.output import epoch_logs

    monkeypatch.setattr(epoch_logs.importlib.util, "find_spec", lambda name: None)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    train = Run.advance

    def train_on_a_full_disk(self, *arguments):
        resource.setrlimit(resource.RLIMIT_FSIZE, (90, hard))
        return train(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "advance", train_on_a_full_disk)
        patch.setattr(sys, "dont_write_bytecode", True)  # Python puts a compiled module in place although it is cut short
        try:
            said = cli("train", *options, "--epochs", "3", "--log-dir", tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert said.code == 0 and re.search(r"^ +3/3 ", said.out, re.MULTILINE), said
    for name in ("epochs.csv", "epochs.jsonl"):
        assert f"warning: a row of {tmp_path / name} cannot be written: File too large; training goes on" in said.err


@pytest.mark.slow
def test_the_newest_states_are_kept_and_are_states(cli, options, subject, tmp_path):
    (tmp_path / "s-step7.npz").write_text("of another run")
    given = ["--epochs", "4", "--save", tmp_path / "s.npz", "--keep", "2"]
    assert cli("train", *options, *given).code == 0
    assert sorted(path.name for path in tmp_path.glob("s*.npz")) == ["s-step15.npz", "s-step20.npz", "s-step7.npz", "s.npz"]
    resumed = cli("train", *options, *given, "--resume", tmp_path / "s-step15.npz")
    assert resumed.code == 0 and "going on after step 15" in resumed.out
    assert sorted(path.name for path in tmp_path.glob("s*.npz")) == ["s-step15.npz", "s-step20.npz", "s.npz"]
    assert cli("evaluate", *subject, "--checkpoint", tmp_path / "s-step20.npz", "--part", "validation").code == 0


@pytest.mark.parametrize(
    "given, said",
    [
        (["--keep", "2"], "--keep needs --save FILE"),
        (["--best", "loss"], "--best needs --save FILE or --output FILE.keras"),
        (["--patience", "2"], "--patience goes with --early-stopping METRIC"),
        (["--no-restore-best-weights"], "--restore-best-weights goes with --early-stopping METRIC"),
        (["--validation-split", "1"], "--validation-split"),
        (["--keep", "0", "--save", "s.npz"], "--keep"),
    ],
)
def test_options_that_lack_what_they_go_with_are_wrong_usage(cli, subject, plan, given, said):
    refused = cli("train", *subject, "--plan", plan, *given)
    assert refused.code == 2 and said in refused.err, refused


@pytest.mark.slow
def test_metrics_that_are_not_logged_are_refused_with_those_there_are(cli, subject, plan, options, tmp_path):
    given = ["--save", tmp_path / "s.npz", "--best"]
    assert "--best is val_auc, which is not logged; " in cli("train", *options, *given, "val_auc").sentence
    assert "there are loss, accuracy, val_loss, val_accuracy" in cli("train", *options, *given, "epoch_time").sentence
    sentence = cli("train", *subject, "--plan", plan, "--early-stopping", "val_loss").sentence
    assert "val_loss, which is not logged; there are loss, accuracy; samples to validate on come with --validation-split" in sentence


def test_places_that_cannot_be_written_are_refused_before_the_work(cli, subject, plan, options, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "s-best.npz").mkdir()
    assert "is no folder" in cli("train", *options, "--log-dir", tmp_path / "file" / "logs").sentence
    best = cli("train", *options, "--save", tmp_path / "s.npz", "--best", "loss")
    assert "s-best.npz: it is a folder" in best.sentence and best.out == ""
    logs = tmp_path / "logs"
    logs.mkdir()
    same = cli("train", *options, "--save", logs / "epochs.csv", "--log-dir", logs)
    assert same.code == 2 and "name the same file" in same.err


def test_logs_of_other_metrics_are_not_appended_to(cli, options, tmp_path):
    given = [*options, "--save", tmp_path / "s.npz", "--log-dir", tmp_path / "logs"]
    assert cli("train", *given, "--epochs", "1").code == 0
    resumed = ["--epochs", "2", "--resume", tmp_path / "s.npz"]
    other = cli("train", *given, *resumed, "--metrics", "sparse_categorical_crossentropy")
    assert "has the columns accuracy, loss" in other.err and "choose another --log-dir" in other.err and other.code == 1
    for name, text in (("epochs.csv", "a,b\n1,2\n"), ("epochs.jsonl", "nonsense\n"), ("epochs.jsonl", "\xff\xfe")):
        kept = (tmp_path / "logs" / name).read_bytes()
        (tmp_path / "logs" / name).write_bytes(text.encode("latin-1"))
        refused = cli("train", *given, *resumed)
        assert refused.code == 1 and "choose another --log-dir" in refused.err, refused
        (tmp_path / "logs" / name).write_bytes(kept)
    assert cli("train", *given, *resumed).code == 0


@pytest.mark.slow
def test_training_goes_on_with_the_samples_that_it_began_with(cli, subject, plan, options, tmp_path):
    assert cli("train", *options, "--epochs", "1", "--save", tmp_path / "s.npz").code == 0
    resumed = ["--plan", plan, *FALLING, "--epochs", "2", "--resume", tmp_path / "s.npz"]
    said = cli("train", *subject, *resumed)
    assert said.code == 0 and "validating on the last 11 of the 44" in said.out and "val loss" in said.out
    other = cli("train", *subject, *resumed, "--validation-split", "0.5").sentence
    assert "was trained with --validation-split 0.25 and the option is 0.5" in other and "leave the option out" in other


@pytest.mark.slow
def test_validation_samples_of_a_file_are_used(cli, model, folder, plan, tmp_path):
    with np.load(folder / "data.npz") as arrays:
        np.savez(tmp_path / "three.npz", **arrays, x_validation=arrays["x_test"][:7], y_validation=arrays["y_test"][:7])
    given = [*model, "--data", f"npz:{tmp_path / 'three.npz'}", "--cluster", "local:cpu:0,cpu:0", "--plan", plan, "--epochs", "1"]
    said = cli("train", *given, "--save", tmp_path / "s.npz")
    assert said.code == 0 and "validating on the 7 validation samples" in said.out and "val loss" in said.out, said
    assert "leave out --validation-split" in cli("train", *given, "--validation-split", "0.2").sentence
    evaluated = cli("evaluate", *given[:6], "--checkpoint", tmp_path / "s.npz", "--part", "validation")
    assert evaluated.code == 0 and "over 7 samples" in evaluated.out


@pytest.mark.slow
def test_a_training_goes_on_from_a_kept_state_where_the_newest_is_damaged(cli, options, tmp_path):
    whole, part = tmp_path / "whole.npz", tmp_path / "part.npz"
    assert cli("train", *options, "--epochs", "2", "--save", whole).code == 0
    saving = ["--save", part, "--save-every", "2", "--keep", "3", "--resume", "auto"]
    assert cli("train", *options, *saving, "--epochs", "1").code == 0
    kept = sorted(tmp_path.glob("part-step*.npz"))[-1]
    left, step = load_state(part).step, load_state(kept).step
    part.write_bytes(part.read_bytes()[:-100])
    said = cli("train", *options, *saving, "--epochs", "2")
    assert said.code == 0 and f"training goes on from {kept}, the newest complete state there" in said.err, said
    assert f"going on after step {step} of {kept}" in said.out and step < left
    with np.load(whole) as a, np.load(part) as b:
        assert all(np.array_equal(a[key], b[key]) for key in a.files if key != "meta")
