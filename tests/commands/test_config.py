"""A training by a file of options, and the file that every training leaves, which repeats it."""

import warnings

import numpy as np
import pytest
import yaml


def _same(one, other):
    with np.load(one) as a, np.load(other) as b:
        return sorted(a.files) == sorted(b.files) and all(np.array_equal(a[key], b[key]) for key in a.files)


@pytest.mark.slow
def test_the_file_that_a_training_leaves_repeats_it_with_equal_weights(cli, subject, plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = [
        "--optimizer",
        "adam",
        "--learning-rate",
        "1e-2",
        "--decay",
        "cosine",
        "--seed",
        "7",
        "--epochs",
        "2",
        "--metrics",
        "accuracy",
    ]
    more = ["--metrics", "sparse_categorical_crossentropy", "--validation-split", "0.25", "--best", "val_loss", "--keep", "1"]
    first = cli("train", *subject, "--plan", plan, *options, *more, "--save", "first.npz", "--model-arg", "kind='plain'")
    assert first.code == 0 and "saved first-config.yaml" in first.out, first
    written = yaml.safe_load((tmp_path / "first-config.yaml").read_text())
    assert written["model-arg"] == ["kind='plain'"] and written["seed"] == 7 and written["epochs"] == 2 and written["keep"] == 1
    again = cli("train", "--config", "first-config.yaml", "--save", "second.npz")
    assert again.code == 0 and _same("first.npz", "second.npz") and _same("first-best.npz", "second-best.npz")
    second = yaml.safe_load((tmp_path / "second-config.yaml").read_text())
    assert second == {**written, "save": "second.npz"}
    before = (tmp_path / "first.npz").read_bytes(), (tmp_path / "first-config.yaml").read_bytes()
    assert cli("train", "--config", "first-config.yaml").code == 0
    assert before == ((tmp_path / "first.npz").read_bytes(), (tmp_path / "first-config.yaml").read_bytes())


@pytest.mark.slow
def test_the_file_names_the_plan_that_the_training_made(cli, subject, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--budget", "2", "--batch-size", "8", "--epochs", "1", "--refine-time", "0", "--save", "s.npz"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a short calibration
        assert cli("train", *subject, *options).code == 0
    written = yaml.safe_load((tmp_path / "s-config.yaml").read_text())
    assert written["plan"] == "s-plan.json" and "refine-time" not in written
    again = cli("train", "--config", "s-config.yaml", "--save", "t.npz")
    assert again.code == 0 and "measuring the devices" not in again.out and _same("s.npz", "t.npz")


@pytest.mark.slow
def test_without_a_file_of_the_run_it_is_in_the_working_directory_or_nowhere(cli, subject, plan, profile, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli("train", *subject, "--plan", plan, "--epochs", "1").code == 0
    assert list(tmp_path.iterdir()) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cli("train", *subject, "--budget", "2", "--batch-size", "8", "--epochs", "1", "--no-refine").code == 0
    assert (tmp_path / "train-config.yaml").exists()
    given = ["--profile", profile, "--no-refine", "--epochs", "1", "--output", "m.keras"]
    assert cli("train", *subject, *given).code == 0
    written = yaml.safe_load((tmp_path / "m-config.yaml").read_text())
    assert written["plan"] == "m-plan.json" and "profile" not in written
    assert cli("train", "--config", "m-config.yaml", "--output", "n.keras").code == 0


def test_a_file_written_by_hand_is_not_replaced(cli, subject, plan, tmp_path):
    by_hand = tmp_path / "s-config.yaml"
    by_hand.write_text("# mine\nepochs: 1\n")
    refused = cli("train", *subject, "--plan", plan, "--config", by_hand, "--save", tmp_path / "s.npz")
    assert refused.code == 2 and "would be replaced by the options as they are used; rename it" in refused.err
    assert by_hand.read_text() == "# mine\nepochs: 1\n"
    by_hand.rename(tmp_path / "mine.yaml")
    said = cli("train", *subject, "--plan", plan, "--config", tmp_path / "mine.yaml", "--save", tmp_path / "s.npz")
    assert said.code == 0 and "1/1" in said.out


@pytest.mark.parametrize("option", ["--save", "--measured", "--output"])
def test_a_configuration_is_no_output(cli, subject, plan, tmp_path, option):
    (tmp_path / "c.yaml").write_text("epochs: 1\n")
    given = ["--config", tmp_path / "c.yaml", option, tmp_path / ("c.yaml" if option != "--output" else "c.keras")]
    if option == "--output":
        (tmp_path / "c.keras").symlink_to(tmp_path / "c.yaml")
    refused = cli("train", *subject, "--plan", plan, *given)
    assert refused.code == 2 and "would replace --config" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize("precision, dtype", [("float32", "float32"), ("float64", "float64")])
def test_a_precision_is_that_of_the_weights_and_is_stored(cli, subject, plan, model, tmp_path, precision, dtype):
    made = ["--shares", "1,1", "--cluster", "local:cpu:0,cpu:0", "--batch-size", "8", "--precision", precision, "-o", tmp_path / "p.json"]
    assert cli("plan", *model, *made).code == 0
    given = ["--plan", tmp_path / "p.json", "--precision", precision, "--epochs", "1", "--save", tmp_path / "s.npz"]
    trained = cli("train", *subject, *given)
    assert trained.code == 0, trained
    with np.load(tmp_path / "s.npz") as arrays:
        assert {array.dtype.name for name, array in arrays.items() if name != "meta"} == {dtype}
    evaluated = cli("evaluate", *subject, "--checkpoint", tmp_path / "s.npz")
    assert evaluated.code == 0 and evaluated.out.splitlines()[-1] in trained.out
    named = cli("train", *subject, *given[:2], "--dtype", precision, "--epochs", "1")  # its name of the earlier release
    assert named.code == 0 and "--dtype" not in cli("train", "--help").out
