"""Evaluation, predictions and maps of a network that was trained on scans, by the command line."""

import csv
import json
import re
import shutil

import nibabel
import numpy as np
import pytest

from hetero_mtf.commands.mri.predictions import Predictions
from hetero_mtf.commands.options.requests import EvaluateRequest
from hetero_mtf.commands.runs.evaluate import evaluate_volumes
from tests.commands.volume_cohorts import AXES

TEST_PART = 4  # of twelve


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.mark.slow
def test_a_checkpoint_and_the_table_are_enough_to_evaluate(cli, trained, table, tmp_path):
    state, said = trained
    found = cli("evaluate", "--data", table, "--checkpoint", state, "--cluster", "local:cpu:0", "--json", tmp_path / "scores.json")
    assert found.code == 0 and "leak check passed" in found.out, found
    accuracy = float(re.search(r"^test loss .*test accuracy (\S+) over 4 samples", said, re.MULTILINE)[1])
    document = json.loads((tmp_path / "scores.json").read_text())
    assert document["scores"]["accuracy"]["value"] == accuracy and document["positive"] == "AD"
    for name in ("accuracy", "balanced accuracy", r"sensitivity \(AD\)", r"specificity \(AD\)", r"ROC AUC \(AD\)"):
        assert re.search(rf"^{name} +\d\.\d\d\d +\d\.\d\d\d to \d\.\d\d\d ", found.out, re.MULTILINE)


@pytest.mark.slow
def test_a_part_and_the_positive_class_can_be_chosen(trained, table):
    asked = {"data": table, "checkpoint": str(trained[0]), "cluster": "local:cpu:0", "positive": "NC"}
    counts = {part: evaluate_volumes(EvaluateRequest(None, (), None, part=part, **asked)).samples for part in ("train", "validation")}
    assert counts == {"train": 6, "validation": 2}


def test_every_scan_gets_probabilities_and_those_not_trained_on_are_scored(cli, trained, table, tmp_path):
    state, out = trained[0], tmp_path / "p.tsv"
    found = cli("predict", "--data", table, "--checkpoint", state, "--cluster", "local:cpu:0", "-o", out)
    assert found.code == 0 and f"{out}: 12 scans, probabilities of AD, NC" in found.out, found
    assert "leak check: 8 of 12 scans are of participants that were trained on or chosen by, and are not scored" in found.out
    assert "Scores of 4 predictions" in found.out
    rows = rows_of(out)
    assert list(rows[0]) == ["participant_id", "session", "probability_AD", "probability_NC", "predicted", "true", "part"]
    assert [row["participant_id"] for row in rows] == [f"sub-{n:02d}" for n in range(12)] and {row["session"] for row in rows} == {"n/a"}
    assert all(abs(float(row["probability_AD"]) + float(row["probability_NC"]) - 1) < 1e-6 for row in rows)
    assert all(row["predicted"] == max(("AD", "NC"), key=lambda name: float(row[f"probability_{name}"])) for row in rows)
    assert sum(row["part"] == "test" for row in rows) == TEST_PART


def test_participants_in_another_spelling_are_those_that_were_trained_on(cli, trained, place, tmp_path):
    table, bare = place / "cohort" / "respelt.tsv", place / "cohort" / "respelt-bare.tsv"
    table.write_text(re.sub(r"^sub-0?", "", (place / "cohort" / "participants.tsv").read_text(), flags=re.MULTILINE))
    bare.write_text("participant_id\tpath\n" + "".join(f"{row['participant_id']}\t{row['path']}\n" for row in rows_of(table)))
    options = ["--data", f"nifti:{table}", "--checkpoint", trained[0], "--cluster", "local:cpu:0"]
    said = cli("predict", *options, "-o", tmp_path / "p.tsv")
    assert said.code == 0 and "leak check: 8 of 12 scans are of participants that were trained on or chosen by" in said.out, said
    assert sum(row["part"] == "test" for row in rows_of(tmp_path / "p.tsv")) == TEST_PART
    other = cli("predict", "--data", f"nifti:{bare}", *options[2:], "-o", tmp_path / "p.tsv")
    assert "8 of its participants are named like some that were trained on, make sure that they are others: " in other.out, other
    refused = cli("evaluate", *options)
    assert refused.code == 1 and "write them there as in the training, or take them as different people with --ids exact" in refused.err


@pytest.mark.slow
def test_a_table_without_known_labels_is_predicted_and_not_scored(cli, trained, place, table, tmp_path):
    bare = place / "cohort" / "bare.tsv"
    bare.write_text("participant_id\tpath\tdiagnosis\n" + "".join(f"new-{n}\t{n}.nii.gz\t{('n/a', 'MCI')[n % 2]}\n" for n in range(3)))
    found = cli("predict", "--data", f"nifti:{bare}", "--checkpoint", trained[0], "--cluster", "local:cpu:0", "-o", tmp_path / "p.tsv")
    assert found.code == 0 and "no scores: there is no scan of a known class that was not trained on" in found.out, found
    assert "leak check: this is not the table that was trained with" in found.out
    assert "1 of them have a label that is no class of the network (MCI), and are not scored" in found.out
    assert [row["true"] for row in rows_of(tmp_path / "p.tsv")] == ["n/a"] * 3
    whole = cli("predict", "--data", table, "--checkpoint", trained[0], "--cluster", "local:cpu:0", "-o", tmp_path / "all.tsv")
    assert whole.code == 0, whole
    few, all_of_them = ([row["probability_AD"] for row in rows_of(tmp_path / name)] for name in ("p.tsv", "all.tsv"))
    assert few == all_of_them[:3]


@pytest.fixture(scope="module")
def bright(place, training):
    """The checkpoint of a network for which AD is what is bright; the training does not change it."""
    from hetero_mtf.commands import main

    words = [f"{place / 'net3d.py'}:bright" if str(word).endswith(":net") else word for word in training]
    plan, state = place / "bright.json", place / "bright.npz"
    typed = ["--shares", "1", "--cluster", "local:cpu:0", "--batch-size", "4", "-o", plan]
    fixed = ["--learning-rate", "1e-9", "--epochs", "1", "--plan", plan, "--cluster", "local:cpu:0", "--save", state]
    for arguments in (["plan", *words[3:5], *typed], [*words, *fixed]):
        assert main.run(list(map(str, arguments))) == 0
    return state


@pytest.mark.slow
def test_a_map_lies_in_the_scan_s_own_space_where_the_classes_differ(cli, place, bright, table, tmp_path):
    options = ["--cluster", "local:cpu:0", "-o", tmp_path / "p.tsv", "--grad-cam", tmp_path / "maps"]
    chosen = [word for number in range(0, 2 * len(AXES), 2) for word in ("--participant", f"sub-{number:02d}")]
    found = cli("predict", "--data", table, "--checkpoint", bright, *options, *chosen)
    assert "\nclasses: 4 for AD, named in each file's name, description and title\n" in found.out
    assert "\nmaps are 0 outside the foreground; scans by its source: the head by Otsu's threshold (4)\n" in found.out
    assert found.code == 0 and f"4 maps of layer above in {tmp_path / 'maps'}" in found.out, found
    for number, axes in zip(range(0, 2 * len(AXES), 2), AXES):
        scan = nibabel.load(place / "cohort" / f"{number}.nii.gz")
        heat = nibabel.load(tmp_path / "maps" / f"sub-{number:02d}_gradcam-AD.nii.gz")
        assert heat.header["descrip"].tobytes().rstrip(b"\0") == b"Grad-CAM: evidence for AD"
        assert nibabel.aff2axcodes(heat.affine) == tuple(axes) and heat.shape == scan.shape
        np.testing.assert_allclose(heat.affine, scan.affine)
        values = nibabel.as_closest_canonical(heat).get_fdata()
        assert values[:4, :4, :4].min() > 0.2 and values[5:].max() == values[:, 5:].max() == values[:, :, 5:].max() == 0
        assert (tmp_path / "maps" / f"sub-{number:02d}_gradcam-AD.png").stat().st_size > 1000
    nothing = cli("predict", "--data", table, "--checkpoint", bright, *options, *chosen[:2], "--grad-cam-class", "NC")
    assert "1 of them are 0 everywhere: that layer has no evidence for that class" in nothing.out, nothing
    assert "\nclasses: 1 for NC, " in nothing.out


def test_a_map_is_brightest_in_the_head_where_the_brightest_voxels_are_beside_it(cli, bright, tmp_path):
    values = np.random.default_rng(0).normal(0, 1, (8, 8, 8)).astype(np.float32)
    values[2:6, 2:6, 2:6] += 100  # the head
    values[6:8, 6:8, 6:8] += 300  # what is beside it
    mask = np.zeros((8, 8, 8), np.uint8)
    mask[2:4, 2:6, 2:6] = 1
    for name, volume in (("a.nii.gz", values), ("b.nii.gz", values), ("m.nii.gz", mask)):
        nibabel.save(nibabel.Nifti1Image(volume, np.diag([2.0, 2, 2, 1])), tmp_path / name)
    table = tmp_path / "new.tsv"
    options = ["--cluster", "local:cpu:0", "-o", tmp_path / "p.tsv", "--grad-cam", tmp_path / "maps", "--grad-cam-class", "AD"]
    table.write_text("participant_id\tsession\tpath\tmask\nx\t1\ta.nii.gz\tn/a\nx\t2\tb.nii.gz\tm.nii.gz\n")
    found = cli("predict", "--data", f"nifti:{table}", "--checkpoint", bright, *options)
    assert found.code == 0, found
    for session, inside in ((1, values > 50), (2, mask > 0)):
        inside[6:8, 6:8, 6:8] = False
        heat = nibabel.load(tmp_path / "maps" / f"sub-x_ses-{session}_gradcam-AD.nii.gz").get_fdata()
        assert heat.max() == 1 and not heat[~inside].any() and heat[inside].min() > 0
    assert "the head by Otsu's threshold (1), the table's mask (1)" in found.out


def test_maps_that_would_have_one_name_are_refused(cli, place, bright, tmp_path):
    table = tmp_path / "new.tsv"
    scans = place / "cohort"
    table.write_text(f"participant_id\tpath\na b\t{scans / '0.nii.gz'}\na-b\t{scans / '1.nii.gz'}\n")
    options = ["--cluster", "local:cpu:0", "-o", tmp_path / "p.tsv", "--grad-cam", tmp_path / "maps"]
    said = cli("predict", "--data", f"nifti:{table}", "--checkpoint", bright, *options)
    assert said.code == 1 and "the maps of 'sub-a b' and 'sub-a-b' would have one name, with 'sub-a-b'; rename one of them" in said.err
    assert not (tmp_path / "p.tsv").exists() and not list((tmp_path / "maps").iterdir())


def test_maps_of_people_that_are_taken_exactly_are_refused_where_they_would_have_one_name(cli, place, bright, tmp_path):
    table, scans = tmp_path / "new.tsv", place / "cohort"
    table.write_text(f"participant_id\tpath\nsub-1\t{scans / '0.nii.gz'}\n1\t{scans / '1.nii.gz'}\n")
    options = ["--cluster", "local:cpu:0", "-o", tmp_path / "p.tsv", "--grad-cam", tmp_path / "maps"]
    base = ["predict", "--data", f"nifti:{table}", "--checkpoint", bright, *options]
    assert "participants 'sub-1' (line 2) and '1' (line 3) differ in writing only" in cli(*base).err
    said = cli(*base, "--ids", "exact")
    assert said.code == 1 and "the maps of 'sub-1, line 2' and 'sub-1, line 3' would have one name, with 'sub-1'; rename one" in said.err


def test_what_does_not_fit_a_checkpoint_is_refused(cli, trained, table, place, tmp_path):
    base = ["--data", table, "--cluster", "local:cpu:0", "--checkpoint"]
    other = cli("evaluate", *base, trained[0], "--model", f"{place / 'net3d.py'}:net", "--model-arg", "filters=5")
    assert re.search(r"net, filters=5 has a network with digest \w+, what was trained \(.*net\) had \w+; give the --model", other.sentence)
    for options in (["--model-arg", "filters=5"], ["--precision", "float64"]):
        assert f"{options[0]} {options[1]} goes with --model" in cli("evaluate", *base, trained[0], *options).sentence
    assert "--positive MCI is no class of the model; it has AD, NC" in cli("evaluate", *base, trained[0], "--positive", "MCI").sentence
    alone = tmp_path / "alone.npz"
    alone.write_bytes(trained[0].read_bytes())
    assert "there is no" in cli("predict", *base, alone).sentence and "keep both files together" in cli("predict", *base, alone).sentence
    maps = ["--grad-cam", tmp_path / "maps", "-o", tmp_path / "p.tsv"]
    assert "--grad-cam-class X is no class" in cli("predict", *base, trained[0], *maps, "--grad-cam-class", "X").sentence
    layer = cli("predict", *base, trained[0], *maps, "--grad-cam-layer", "head")
    assert re.search("'head' is no layer whose output is a volume; there are .*first, pool, second", layer.sentence)
    assert "--participant sub-77 is not among the scans" in cli("predict", *base, trained[0], *maps, "--participant", "sub-77").sentence
    (tmp_path / "file").write_text("")
    in_file = ["-o", tmp_path / "p.tsv", "--grad-cam", tmp_path / "file"]
    assert "name another with --grad-cam" in cli("predict", *base, trained[0], *in_file).sentence
    assert not (tmp_path / "p.tsv").exists()


def _copied(trained, folder, **changes):
    """Copy a checkpoint with what is stored beside it, changed, and return its path."""
    folder.mkdir(exist_ok=True)
    state = trained[0]
    (folder / state.name).write_bytes(state.read_bytes())
    document = json.loads(state.with_name("state-data.json").read_text())
    (folder / "state-data.json").write_text(json.dumps({**document, **changes}))
    return folder / state.name


def _nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_foreign_checkpoint_runs_nothing(cli, trained, table, tmp_path, command):
    mark = tmp_path / "mark"
    (tmp_path / "code.py").write_text(f"open({str(mark)!r}, 'w')\ndef net(): open({str(mark)!r}, 'w')\n")
    base = [command, "--data", table, "--cluster", "local:cpu:0", *(["-o", tmp_path / "p.tsv"] if command == "predict" else [])]
    structure = json.loads(trained[0].with_name("state-data.json").read_text())["structure"]
    code = {"module": "os", "class_name": "system", "config": {"command": f"touch {mark}"}, "registered_name": None}
    layers = [structure["config"]["layers"][0], {**structure["config"]["layers"][1], **code}, *structure["config"]["layers"][2:]]
    named = {"model": "os:system", "model_arguments": [f"command='touch {mark}'"]}
    foreign = {
        "a structure that names code": {"structure": {**structure, "config": {**structure["config"], "layers": layers}}},
        "no structure": {**named, "structure": None},
        "code as the structure": {"structure": code},
        "code far inside": {"structure": {**structure, "build_config": _nested(code, 20)}},
        "lists in lists": {"structure": {**structure, "build_config": _nested(1, 900)}},
        "a file": {"model": f"{tmp_path / 'code.py'}:net", "model_arguments": [], "structure": None},
    }
    for name, changes in foreign.items():
        said = cli(*base, "--checkpoint", _copied(trained, tmp_path / "foreign", **changes)).sentence
        assert "state-data.json" in said and "--model" in said and not mark.exists(), name
    older = _copied(trained, tmp_path / "older", **named, version=1)
    document = json.loads(older.with_name("state-data.json").read_text())
    del document["structure"]
    older.with_name("state-data.json").write_text(json.dumps(document))
    said = cli(*base, "--checkpoint", older).sentence
    assert 'holds no structure of its network, only the name "os:system' in said and "give the --model and --model-arg" in said
    assert not mark.exists()


@pytest.mark.slow
def test_a_checkpoint_of_an_earlier_version_is_read_with_the_model_of_the_user(cli, trained, place, table, tmp_path):
    older = _copied(trained, tmp_path / "older", version=1, model=f"{place / 'net3d.py'}:net")
    document = json.loads(older.with_name("state-data.json").read_text())
    del document["structure"]
    document["data"] = {**document["data"], "table": table.partition(":")[2]}
    del document["data"]["scans"]
    older.with_name("state-data.json").write_text(json.dumps(document))
    base = ["predict", "--data", table, "--cluster", "local:cpu:0", "-o", tmp_path / "p.tsv", "--checkpoint", older]
    assert "give the --model" in cli(*base).sentence
    said = cli(*base, "--model", f"{place / 'net3d.py'}:net")
    assert said.code == 0 and "leak check: 8 of 12 scans are of participants that were trained on" in said.out, said


@pytest.mark.slow
def test_a_checkpoint_moves_to_another_place_without_its_model_file(cli, trained, table, place, tmp_path, monkeypatch):
    moved, cohort = _copied(trained, tmp_path / "elsewhere"), tmp_path / "cohort"
    assert str(place) not in moved.with_name("state-data.json").read_text()
    shutil.copytree(place / "cohort", cohort)
    monkeypatch.chdir(tmp_path)
    elsewhere = ["--data", f"nifti:{cohort / 'participants.tsv'}", "--cluster", "local:cpu:0", "--checkpoint", moved]
    here = cli("evaluate", "--data", table, "--cluster", "local:cpu:0", "--checkpoint", trained[0])
    model = place / "net3d.py"
    model.rename(place / "hidden.py")
    try:
        there, predicted = cli("evaluate", *elsewhere), cli("predict", *elsewhere, "-o", tmp_path / "p.tsv")
    finally:
        (place / "hidden.py").rename(model)
    scores = lambda said: said.out[said.out.index("score ") :]  # noqa: E731
    assert there.code == here.code == predicted.code == 0 and scores(there) == scores(here), there
    assert "leak check: 8 of 12 scans are of participants that were trained on" in predicted.out


def test_a_part_that_the_split_lacks_is_named(cli, training, table, tmp_path):
    assert cli(*training, "--epochs", "1", "--save", tmp_path / "s.npz").code == 0
    said = cli("evaluate", "--data", table, "--checkpoint", tmp_path / "s.npz", "--cluster", "local:cpu:0", "--part", "validation")
    assert "the split has no validation part, it has train, test; name one of them" in said.sentence


def test_scans_that_were_trained_on_are_not_fresh(trained):
    from hetero_mtf.data.volumes import Participants, Scan

    scans = tuple(Scan(f"sub-{n}", None, label, None) for n, label in enumerate(("AD", "NC", "AD", "MCI", None)))
    people = Participants("t", scans, "diagnosis", ("AD", "NC"))
    found = Predictions(people, np.eye(2)[[0, 1, 0, 0, 0]], ("train", "test", "n/a", "test", "test"))
    assert found.fresh == [1, 2] and found.scores(found.fresh).samples == 2


@pytest.mark.slow
def test_the_best_epoch_and_kept_states_of_volumes_can_be_evaluated(cli, training, table, tmp_path):
    options = ["--epochs", "2", "--validation-fraction", "0.2", "--best", "val_loss", "--keep", "1", "--log-dir", tmp_path / "logs"]
    said = cli(*training, *options, "--save", tmp_path / "s.npz", "--early-stopping", "val_accuracy", "--patience", "5")
    assert said.code == 0 and f"saved {tmp_path / 's-best.npz'}" in said.out, said
    (kept,) = tmp_path.glob("s-step*.npz")
    for state in (tmp_path / "s-best.npz", kept):
        evaluated = cli("evaluate", "--data", table, "--cluster", "local:cpu:0", "--checkpoint", state)
        assert evaluated.code == 0 and "accuracy" in evaluated.out, evaluated
    refused = cli(*training, "--validation-split", "0.2")
    assert refused.code == 2 and "write --validation-fraction" in refused.err
    assert cli("train", "--config", tmp_path / "s-config.yaml", "--save", tmp_path / "t.npz", "--epochs", "1").code == 0
