"""Training of all folds in one command, interrupted and not."""

import csv
import json
import os
import shutil
import signal
import warnings

import numpy as np
import pytest
from sklearn import metrics

from tests.commands.volume_cohorts import write_corners

FOLDS = ["--folds", "3", "--fold"]
EPOCHS = "8"


@pytest.fixture(scope="module")
def sited(tmp_path_factory):
    """A table of scans with sessions and sites, some of them not known; the diagnosis shows a little."""
    path = write_corners(tmp_path_factory.mktemp("sited") / "cohort", 24)
    heading, *rows = [line.split("\t") for line in path.read_text().splitlines()]
    lines = ["\t".join([*heading, "site"])]
    lines += ["\t".join([row[0], f"ses-{n % 2}", *row[2:], ("A", "B", "n/a", "A")[n // 2 % 4]]) for n, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def options(place, sited):
    """`train` on that table, by a plan on two processors of this process; folds and files are missing."""
    given = ["train", "--data", f"nifti:{sited}", "--model", f"{place / 'net3d.py'}:net", "--cluster", "local:cpu:0,cpu:0"]
    return [*given, "--plan", place / "plan.json", "--optimizer", "adam", "--learning-rate", "0.003", "--flip", "--noise", "0.2"]


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """The folder of an undisturbed training of all folds, and what was printed."""
    import contextlib
    import io

    from hetero_mtf.commands import main

    folder, said = tmp_path_factory.mktemp("whole"), io.StringIO()
    saved = ["--save", folder / "s.npz", "--output", folder / "m.keras", "--save-every", "1", "--epochs", EPOCHS]
    with contextlib.redirect_stdout(said):
        assert main.run(list(map(str, [*options, *FOLDS, "all", *saved]))) == 0
    return folder, said.getvalue()


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def probabilities(path):
    return np.array([[float(row["probability_AD"]), float(row["probability_NC"])] for row in rows_of(path)])


def test_every_scan_is_predicted_once_and_every_fold_has_its_files(whole, sited):
    folder, said = whole
    rows = rows_of(folder / "s-folds.csv")
    assert [row["participant_id"] for row in rows] == [f"sub-{n:02d}" for n in range(24)]
    assert list(rows[0]) == ["participant_id", "session", "site", "fold", "true", "predicted", "probability_AD", "probability_NC"]
    assert {row["site"] for row in rows} == {"A", "B", "n/a"} and {row["fold"] for row in rows} == {"1", "2", "3"}
    for fold in (1, 2, 3):
        stored = json.loads((folder / f"s-fold{fold}-data.json").read_text())["data"]["split"]
        assert sorted(stored["test"]) == sorted(row["participant_id"] for row in rows if row["fold"] == str(fold))
        assert not set(stored["train"]) & set(stored["test"]) and (stored["fold"], stored["folds"]) == (fold, 3)
        own = rows_of(folder / f"s-fold{fold}-predictions.csv")
        assert own == [row for row in rows if row["fold"] == str(fold)]
        assert (folder / f"s-fold{fold}.npz").exists() and (folder / f"m-fold{fold}.keras").exists()
    assert said.count("Plan: strategy") == 1 and "each begins with the weights that the model has with --seed 0" in said
    assert not (folder / "s.npz").exists() and (folder / "s-measured.json").exists()


def test_the_scores_are_those_of_scikit_learn_on_the_written_predictions(whole):
    folder, said = whole
    rows, document = rows_of(folder / "s-folds.csv"), json.loads((folder / "s-folds.json").read_text())
    results, each = document["results"], []
    for fold in ("1", "2", "3", None):
        own = [row for row in rows if fold in (row["fold"], None)]
        true = [row["true"] == "AD" for row in own]
        guess, score = [row["predicted"] == "AD" for row in own], [float(row["probability_AD"]) for row in own]
        expected = {
            "accuracy": metrics.accuracy_score(true, guess),
            "F1 (AD)": metrics.f1_score(true, guess),
            "ROC AUC (AD)": metrics.roc_auc_score(true, score),
            "average precision (AD)": metrics.average_precision_score(true, score),
        }
        found = results["pooled"] if fold is None else results["folds"][int(fold) - 1]
        assert {name: found["scores"][name]["value"] for name in expected} == pytest.approx(expected)
        if fold is not None:
            each.append(expected)
            assert json.loads((folder / f"s-fold{fold}-scores.json").read_text())["scores"] == found["scores"]
        else:
            assert found["calibration"]["AD"]["brier"] == pytest.approx(metrics.brier_score_loss(true, score))
    for name in each[0]:
        values = [fold[name] for fold in each]
        assert results["mean"][name] == pytest.approx(np.mean(values))
        assert results["standard_deviation"][name] == pytest.approx(np.std(values, ddof=1))
    assert results["pooled"]["groups"]["site"]["n/a"]["samples"] == 6 and "Scores by site" in said and "Scores by session" in said
    assert (folder / "s-folds.png").read_bytes().startswith(b"\x89PNG") and "data:image/png" in (folder / "s-folds.html").read_text()
    assert document["finished"] == [1, 2, 3] and document["begun"] == []
    assert (folder / document["plan"]).is_file() and not os.path.isabs(document["plan"])


@pytest.mark.slow
def test_a_fold_of_all_is_the_fold_trained_alone(cli, whole, options, sited, tmp_path):
    folder, _ = whole
    assert cli(*options, *FOLDS, "2", "--epochs", EPOCHS, "--save", tmp_path / "two.npz").code == 0
    scored = ["--cluster", "local:cpu:0", "--data", f"nifti:{sited}"]
    for name, state in (("alone", tmp_path / "two.npz"), ("all", folder / "s-fold2.npz")):
        assert cli("predict", *scored, "--checkpoint", state, "-o", tmp_path / f"{name}.tsv").code == 0
    assert (tmp_path / "alone.tsv").read_bytes() == (tmp_path / "all.tsv").read_bytes()
    assert (tmp_path / "alone-curves.png").read_bytes().startswith(b"\x89PNG")
    files = ["--plot", tmp_path / "e.png", "--html", tmp_path / "e.html", "--json", tmp_path / "e.json"]
    said = cli("evaluate", *scored, "--checkpoint", folder / "s-fold2.npz", *files)
    assert said.code == 0 and "Scores by site" in said.out and (tmp_path / "e.png").exists(), said
    assert "fold 2 of 3" in (tmp_path / "e.html").read_text()
    stored = json.loads((folder / "s-fold2-scores.json").read_text())
    assert json.loads((tmp_path / "e.json").read_text())["confusion"] == stored["confusion"]


@pytest.fixture
def copied(whole, tmp_path):
    """A copy of that folder, which a test may change."""
    return shutil.copytree(whole[0], tmp_path / "run")


def again(cli, options, folder, *more):
    saved = ["--save", folder / "s.npz", "--output", folder / "m.keras", "--save-every", "1", "--epochs", EPOCHS]
    return cli(*options, *FOLDS, "all", *saved, *more)


def test_finished_folds_are_not_repeated_and_a_lost_table_is_predicted_again_from_its_state(cli, whole, copied, options):
    states = {fold: (copied / f"s-fold{fold}.npz").read_bytes() for fold in (1, 2, 3)}
    wanted = (copied / "s-folds.csv").read_bytes()
    said = again(cli, options, copied)
    assert said.code == 0 and "finished folds 1, 2, 3 of 3" in said.out and "epoch" not in said.out, said
    (copied / "s-fold2-predictions.csv").unlink()
    (copied / "s-folds.csv").unlink()
    said = again(cli, options, copied)
    assert said.code == 0 and "nothing was left to train" in said.out and "fold 3 of 3 is finished" in said.out, said
    assert (copied / "s-folds.csv").read_bytes() == wanted
    assert {fold: (copied / f"s-fold{fold}.npz").read_bytes() for fold in (1, 3)} == {fold: states[fold] for fold in (1, 3)}


@pytest.mark.slow
def test_other_settings_or_damaged_files_are_refused_before_anything_is_trained(cli, copied, options):
    for more, words in (
        (["--epochs", "9"], "epochs was 8 and is 9"),
        (["--seed", "1"], "seed was 0 and is 1"),
        (["--mask", "otsu"], "mask was none and is otsu"),
        (["--learning-rate", "0.1"], "learning rate was 0.003 and is 0.1"),
        (["--model-arg", "filters=4", "--split-seed", "3"], "folds was 3 "),
    ):
        sentence = again(cli, options, copied, *more).sentence
        assert words in sentence and "name other files with --save or --output, or remove" in sentence
    predictions = copied / "s-fold3-predictions.csv"
    predictions.write_text(predictions.read_text().replace("sub-", "bus-"))
    assert "s-fold3-predictions.csv, and the fold is predicted again" in again(cli, options, copied).sentence
    (copied / "s-folds.json").write_text("{")
    assert "; remove it to train all folds again" in again(cli, options, copied).sentence


def test_what_cannot_be_done_is_refused_before_anything_is_measured(cli, options, tmp_path):
    few = cli(*options, "--folds", "13", "--fold", "all")
    assert "too few participants for 13 folds, which need 13 of each class: class 'AD' has 12" in few.sentence
    assert "there is no folder" in cli(*options, *FOLDS, "all", "--save", tmp_path / "none" / "s.npz").sentence
    assert "lacks the column 'hospital'" in cli(*options, *FOLDS, "all", "--site", "hospital").sentence
    resumed = cli(*options, *FOLDS, "all", "--resume", tmp_path / "s.npz")
    assert resumed.code == 2 and "the same command again goes on" in " ".join(resumed.err.split())
    taken = cli(*options, *FOLDS, "all", "--save", tmp_path / "s.npz", "--measured", tmp_path / "s-folds.json")
    assert taken.code == 2 and "name the same file" in " ".join(taken.err.split())
    (tmp_path / "s-fold2.npz").mkdir()
    assert "s-fold2.npz: it is a folder; give the path of a file" in cli(*options, *FOLDS, "all", "--save", tmp_path / "s.npz").sentence
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.slow
def test_a_stale_state_of_another_training_is_not_gone_on_with(cli, whole, options, tmp_path):
    for fold in (1, 2, 3):
        (tmp_path / f"s-fold{fold}.npz").write_bytes(b"of another training")
    said = again(cli, options, tmp_path)
    assert said.code == 0 and "going on after" not in said.out, said
    assert (tmp_path / "s-folds.csv").read_bytes() == (whole[0] / "s-folds.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.parametrize("saves", [True, False])
def test_a_killed_training_goes_on_and_ends_with_the_predictions_of_an_undisturbed_one(
    cli, start, processes, whole, options, tmp_path, saves
):
    saved = ["--save", tmp_path / "s.npz", "--save-every", "1"] if saves else ["--output", tmp_path / "s.keras"]
    command = [*options, *FOLDS, "all", *saved, "--epochs", EPOCHS]
    killed = start(*command)
    record = tmp_path / "s-folds.json"

    def in_the_second_fold():
        if killed.poll() is not None:
            return "it ended"
        begun = record.exists() and json.loads(record.read_text())["begun"] == [2]
        return begun and (not saves or (tmp_path / "s-fold2.npz").exists())

    assert processes.until(in_the_second_fold) is True
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert json.loads(record.read_text())["begun"] == [2] and json.loads(record.read_text())["finished"] == [1]
    said = cli(*command)
    assert said.code == 0 and "finished folds 1 of 3" in said.out and "fold 1 of 3 is finished" in said.out, said
    assert ("going on after step" in said.out) == saves and "Scores of 3 folds" in said.out
    np.testing.assert_allclose(probabilities(tmp_path / "s-folds.csv"), probabilities(whole[0] / "s-folds.csv"), rtol=0, atol=1e-6)
    same = [{name: row[name] for name in ("participant_id", "fold", "true")} for row in rows_of(tmp_path / "s-folds.csv")]
    assert same == [{name: row[name] for name in ("participant_id", "fold", "true")} for row in rows_of(whole[0] / "s-folds.csv")]


@pytest.mark.slow
def test_an_interrupted_training_says_that_the_same_command_goes_on(start, processes, options, tmp_path):
    process = start(*options, *FOLDS, "all", "--save", tmp_path / "s.npz", "--save-every", "1", "--epochs", "2000")
    assert processes.until(lambda: process.poll() is not None or (tmp_path / "s-fold1.npz").exists())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "s-fold1.npz; the same command again goes on with fold 1" in err and "--resume" not in err, err


@pytest.mark.slow
def test_all_folds_are_trained_on_workers_by_one_plan_that_is_measured_once(cli, place, sited, tmp_path):
    given = ["train", "--data", f"nifti:{sited}", "--model", f"{place / 'net3d.py'}:net", "--cluster", "emulate:1.0,0.5", "--budget", "4"]
    command = [*given, "--batch-size", "4", "--epochs", "1", *FOLDS, "all", "--save", tmp_path / "s.npz"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short budget is doubted
        said = cli(*command)
    assert said.code == 0 and said.out.count("measuring the devices first") == 1 and "Scores of 3 folds" in said.out, said
    assert json.loads((tmp_path / "s-folds.json").read_text())["plan"] == "s-plan.json"
    (tmp_path / "s-fold3-predictions.csv").unlink()
    resumed = cli(*command)
    assert resumed.code == 0 and "measuring the devices" not in resumed.out and "Scores of 3 folds" in resumed.out, resumed
