"""Training on scans, by the command line."""

import json
import re
import warnings

import pytest

from hetero_mtf.commands.options.requests import EvaluateRequest
from hetero_mtf.commands.runs.evaluate import evaluate_volumes
from tests.commands.volume_cohorts import write_corners, write_faulty

TEST_PART = 4  # of twelve


def test_training_tells_what_was_done_and_stores_it(trained):
    state, said = trained
    assert "\nloss: sparse categorical cross-entropy of logits, guessed from class numbers as targets; set it with --loss\n" in said
    assert "12 scans of 12 participants: 6 AD, 6 NC" in said and "scans: axes turned to RAS" in said
    assert "augmentation: shifted by up to 1 voxels along each axis" in said
    assert "leak check passed: no participant and no scan is in two parts (train 6 participants" in said
    assert re.search(r"epoch +steps +loss +accuracy +val accuracy +val loss +time\n +1/6 +2/2 ", said)
    assert re.search(r"^waiting for data took \d+\.\d% of the steps$", said, re.MULTILINE)
    assert f"saved {state.with_name('state-data.json')}" in said
    assert said.index("test accuracy") < said.index("Scores of 4 predictions") < said.index("calibration (AD): Brier score")
    stored = json.loads(state.with_name("state-data.json").read_text())
    assert stored["data"]["classes"] == ["AD", "NC"] and stored["data"]["preprocessing"]["normalisation"] == "zscore"
    assert len(stored["data"]["split"]["test"]) == TEST_PART and stored["data"]["augmentation"]["noise"] == 0.1


def test_every_fault_of_a_cohort_and_its_split_is_in_one_report(cli, place, training, tmp_path):
    path, split = write_faulty(tmp_path), tmp_path / "split.json"
    parts = {"train": ["sub-00", "sub-01", "sub-02", "sub-03"], "test": ["sub-03", "sub-04", "sub-99"]}
    split.write_text(json.dumps({"kind": "split", "version": 1, **parts}))
    given = [f"nifti:{path}" if word == training[2] else word for word in training if word not in ("--test-fraction", "0.34")]
    said = cli(*given, "--split", split, "--save", tmp_path / "state.npz")
    assert said.code == 1 and said.out == "" and "Traceback" not in said.err
    first, *faults = said.err.splitlines()
    assert re.fullmatch(rf"hetero-mtf: {re.escape(str(path))} with its scans has {len(faults)} faults; fix them; .*:", first)
    assert all(fault.startswith("  ") for fault in faults)
    wanted = {
        "bad gzip": r"line 6 \(sub-04\): .*gzip.nii.gz is cut off",
        "wrong dimensions": r"line 7 \(sub-05\): .*slice.nii has the shape 8 x 8, a slice and not a volume",
        "NaN": r"line 8 \(sub-06\): .*nan.nii.*NaN",
        "missing file": r"line 9 \(sub-07\): .*gone.nii does not exist",
        "duplicate subject": r"line 10 \(sub-00\): line 2 is of the same participant and session",
        "label that occurs once": r"'MCI'",
        "class that is empty": r"'FTD'",
        "no label": r"line 13 \(sub-10\): diagnosis is 'n/a', which stands for unknown",
        "in two parts": r"split.json: sub-03 is in the train part and in the test part",
        "not in the table": r"split.json: test part: sub-99 is not in the table",
    }
    missing = [name for name, pattern in wanted.items() if not any(re.search(pattern, fault) for fault in faults)]
    assert not missing, said.err
    assert not (tmp_path / "state.npz").exists()


@pytest.mark.slow
def test_bad_rows_are_left_out_only_where_that_is_asked_for(cli, place, training, tmp_path):
    path = write_corners(tmp_path / "cohort")
    (tmp_path / "cohort" / "11.nii.gz").write_bytes(b"\x1f\x8b no")
    given = [f"nifti:{path}" if word == training[2] else word for word in training]
    refused = cli(*given, "--epochs", "1")
    assert refused.code == 1 and "has 1 fault; fix them, or leave out 1 row with --skip-bad" in refused.err, refused
    done = cli(*given, "--epochs", "1", "--skip-bad", "--save", tmp_path / "state.npz")
    assert done.code == 0 and "left out: line 13 (sub-11)" in done.out and "11 scans of 11 participants" in done.out, done
    again = cli("evaluate", "--data", f"nifti:{path}", "--checkpoint", tmp_path / "state.npz", "--cluster", "local:cpu:0", "--skip-bad")
    assert again.code == 0, again


def test_people_in_two_spellings_are_refused_and_trained_on_as_two_where_ids_are_exact(cli, training, tmp_path):
    table, state = write_corners(tmp_path / "cohort"), tmp_path / "state.npz"
    table.write_text(table.read_text().replace("sub-03", "2").replace("AD", "None"))
    given = [f"nifti:{table}" if word == training[2] else word for word in training]
    named = ["--class", "NC", "--class", "None"]
    refused = cli(*given, *named)
    assert refused.code == 1 and "participants 'sub-02' (line 4) and '2' (line 5) differ in writing only" in refused.err, refused
    unknown = cli(*given, "--ids", "exact")
    assert unknown.code == 1 and "diagnosis is 'None', which stands for unknown; write it, or name all classes with --class" in unknown.err
    done = cli(*given, *named, "--ids", "exact", "--epochs", "1", "--save", state)
    assert done.code == 0 and "12 scans of 12 participants: 6 NC, 6 None" in done.out, done
    evaluated = ["evaluate", "--data", f"nifti:{table}", "--checkpoint", state, "--cluster", "local:cpu:0"]
    assert cli(*evaluated).code == 0 and "differ in writing only" in cli(*evaluated, "--ids", "alike").err
    other = cli(*given, "--class", "None", "--class", "NC", "--resume", state, "--epochs", "2").sentence
    assert "training cannot go on with other data: classes were NC, None and are None, NC" in other


@pytest.mark.slow
def test_a_split_is_saved_used_again_and_does_not_follow_the_seed(cli, training, tmp_path):
    options = ["--epochs", "1", "--split", tmp_path / "split.json"]
    first = cli(*training, *options, "--seed", "1")
    drawn = (tmp_path / "split.json").read_bytes()
    second = cli(*training, *options, "--seed", "2")
    assert first.code == second.code == 0 and (tmp_path / "split.json").read_bytes() == drawn
    line = next(line for line in first.out.splitlines() if line.startswith("leak check"))
    assert line in second.out
    other = cli(*training, *options, "--split-seed", "3")
    assert other.code == 1 and "split.json: its seed is 0 and 3 was asked for; leave the option out" in other.err


@pytest.mark.slow
def test_each_fold_is_tested_on_once(cli, training, tmp_path):
    folds = [word for word in training if word not in ("--test-fraction", "0.34")]
    tested = []
    for fold in ("1", "2", "3"):
        saved = tmp_path / f"{fold}.json"
        assert cli(*folds, "--epochs", "1", "--folds", "3", "--fold", fold, "--split", saved).code == 0
        tested += json.loads(saved.read_text())["test"]
    assert sorted(tested) == [f"sub-{n:02d}" for n in range(12)]


def test_a_scan_under_two_names_stops_training_if_it_leaks(cli, training, tmp_path):
    path = write_corners(tmp_path / "cohort")
    for number in range(2, 12, 2):
        (tmp_path / "cohort" / f"{number}.nii.gz").write_bytes((tmp_path / "cohort" / "0.nii.gz").read_bytes())
    said = cli(*[f"nifti:{path}" if word == training[2] else word for word in training])
    assert said.code == 1 and "leak check FAILED" in said.err and "are the same file, byte for byte" in said.err, said


@pytest.mark.slow
def test_training_on_scans_goes_on_as_if_it_had_not_been_interrupted(cli, training, tmp_path, monkeypatch):
    from hetero_mtf.training.trainer import Trainer

    options = [*training, "--shift", "1", "--flip", "--epochs", "2"]
    straight = cli(*options, "--save", tmp_path / "whole.npz")
    save = Trainer.save

    def save_and_end(self, path, **options):
        save(self, path, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", save_and_end)
        assert cli(*options, "--save", tmp_path / "part.npz", "--save-every", "3").code == 130
    resumed = cli(*options, "--resume", tmp_path / "part.npz", "--test-fraction", "0.5")
    assert "training cannot go on with another split, what was trained on would be tested on; leave out --test-fraction" in resumed.sentence
    bare = [word for word in options if word not in ("--test-fraction", "0.34")]
    other = cli(*bare, "--resume", tmp_path / "part.npz", "--mask", "otsu")
    assert "training cannot go on with other data: mask was none and is otsu; give the options of the first run" in other.sentence
    test_line = lambda said: re.search(r"^test loss .*$", said.out, re.MULTILINE)[0]  # noqa: E731
    for again in (bare, options):
        resumed = cli(*again, "--resume", tmp_path / "part.npz")
        assert resumed.code == 0 and "going on after step 3" in resumed.out and test_line(resumed) == test_line(straight), resumed


@pytest.mark.fast(
    'options0-message0',
    'options2-gives outputs of shape \\\\(3,\\\\) and the table has 2 classes \\\\(AD, NC\\\\); make it for so many',
    "options4-lacks the column 'group': .* name the labels' column with --label",
    'options6-there is no table none.tsv; check the path behind nifti:',
    "options7-data set 'nifti:' names no table; write nifti:participants.tsv",
)
@pytest.mark.parametrize(
    "options, message",
    [
        (["--shape", "16"], "the model takes volumes of 8 x 8 x 8 voxels and --shape says 16 x 16 x 16; leave --shape out, or make"),
        (["--model-arg", "channels=2"], r"samples of shape \(8, 8, 8, 2\) and a scan is \(depth, height, width, 1\); give a 3-D network"),
        (["--model-arg", "classes=3"], r"gives outputs of shape \(3,\) and the table has 2 classes \(AD, NC\); make it for so many"),
        (["--orientation", "XYZ"], "orientation is 'XYZ'; give one letter each"),
        (["--label", "group"], "lacks the column 'group': .* name the labels' column with --label"),
        (["--test-fraction", "0.6", "--validation-fraction", "0.5"], "a test part of 0.6 and a validation part of 0.5 leave nobody"),
        (["--data", "nifti:none.tsv"], "there is no table none.tsv; check the path behind nifti:"),
        (["--data", "nifti:"], "data set 'nifti:' names no table; write nifti:participants.tsv"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_measured(cli, training, options, message):
    assert re.search(message, cli(*training, *options).sentence)


def test_ages_are_no_classes_and_that_is_said_before_a_scan_is_read(cli, training, tmp_path):
    path = write_corners(tmp_path / "cohort")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([f"{lines[0]}\tage", *(f"{line}\t{60 + number}" for number, line in enumerate(lines[1:]))]) + "\n")
    said = cli(*[f"nifti:{path}" if word == training[2] else word for word in training], "--label", "age")
    assert "age has 12 different values of 12 participants, numbers from 60 to 71, and regression is not supported; name a" in said.sentence
    assert said.out == "" and not list((tmp_path / "cohort").glob(".hetero_mtf_cache/*"))


def test_a_network_of_pictures_is_refused(cli, place, training):
    flat = [f"{place / 'net3d.py'}:flat" if str(word).endswith(":net") else word for word in training]
    assert "takes samples of shape (8, 8, 1) and a scan is" in cli(*flat).sentence


def test_options_of_volumes_go_with_volumes_only(cli, subject, training, table, trained):
    assert cli("train", *subject, "--flip", "--label", "group").code == 2
    for options in (["--cache", "x", "--no-cache"], ["--folds", "3"], ["--shape", "1,2"], ["--spacing", "a"]):
        assert cli(*training, *options).code == 2
    for options in ([], ["--data", "digits"], ["--data", table, "--input", "npz:x"], ["--data", table, "--participant", "sub-01"]):
        assert cli("predict", "--checkpoint", trained[0], *options).code == 2
    for options in (["--json", "x"], ["--plot", "x"], ["--html", "x"], ["--site", "x"], ["--positive", "AD"], ["--skip-bad"]):
        assert cli("evaluate", "--checkpoint", trained[0], *subject, *options).code == 2
    assert cli("evaluate", "--checkpoint", trained[0], "--data", "digits").code == 2
    for options in (["--loss", "mse"], ["--metrics", "auc"]):
        assert cli("evaluate", "--checkpoint", trained[0], "--data", table, *options).code == 2
    assert cli("predict", "--checkpoint", trained[0], "--input", "npz:x").code == 2


@pytest.mark.slow
def test_classes_of_any_writing_are_weighed_and_drawn_apart(cli, place, training, tmp_path):
    table, state = place / "cohort" / "named.tsv", tmp_path / "state.npz"
    table.write_text((place / "cohort" / "participants.tsv").read_text().replace("AD", "\u8f7b\u5ea6").replace("NC", "\u91cd\u5ea6"))
    weighed = [f"nifti:{table}" if word == training[2] else word for word in training]
    first = cli(*weighed, "--epochs", "1", "--save", state, "--class-weight", "\u8f7b\u5ea6=3")
    assert first.code == 0 and "weights in the loss: 3 \u8f7b\u5ea6, 1 \u91cd\u5ea6" in first.out, first
    again = cli(*weighed, "--epochs", "2", "--resume", state, "--class-weight", "balanced").sentence
    assert "other weights in the loss: they were 3 \u8f7b\u5ea6, 1 \u91cd\u5ea6 and are 1 \u8f7b\u5ea6, 1 \u91cd\u5ea6; give those" in again
    assert cli(*weighed, "--epochs", "2", "--resume", state, "--class-weight", "\u8f7b\u5ea6=3").code == 0
    both = ["--grad-cam-class", "\u8f7b\u5ea6", "--grad-cam-class", "\u91cd\u5ea6", "--participant", "sub-00", "-o", tmp_path / "p.tsv"]
    drawn = cli("predict", "--data", f"nifti:{table}", "--checkpoint", state, "--cluster", "local:cpu:0", "--grad-cam", tmp_path, *both)
    assert drawn.code == 0 and len(list(tmp_path.glob("sub-00_gradcam-*.nii.gz"))) == 2, drawn


@pytest.mark.slow
def test_steps_are_compared_and_measured_on_scans_too(cli, training, tmp_path):
    said = cli(*training, "--epochs", "2", "--compare", "--measured", tmp_path / "measured.json")
    assert said.code == 0 and "planned (filters)" in said.out and "equal split" in said.out, said
    assert json.loads((tmp_path / "measured.json").read_text())["steps"] > 0


@pytest.mark.slow
def test_scans_are_trained_on_by_a_pipeline_on_workers(cli, place, table, tmp_path):
    model, cluster, plan = ["--model", f"{place / 'net3d.py'}:net"], ["--cluster", "emulate:1.0,0.5"], tmp_path / "plan.json"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short budget is doubted
        assert cli("calibrate", *model, *cluster, "--batch-size", "4", "--budget", "4", "-o", tmp_path / "profile.json").code == 0
    assert cli("plan", tmp_path / "profile.json", "--strategy", "pipeline", "-o", plan).code == 0
    said = cli("train", "--data", table, *model, *cluster, "--plan", plan, "--epochs", "2", "--save", tmp_path / "s.npz")
    assert said.code == 0, said
    found = evaluate_volumes(EvaluateRequest(None, (), None, table, str(tmp_path / "s.npz"), cluster="local:cpu:0"))
    assert f"test accuracy {found['accuracy'].value:.4f} over 2 samples" in said.out
