"""What commands read and write: whatever would take the place of an input, or of another output, is refused as wrong usage."""

import gzip
import os
import pathlib
import struct
import sys

import pytest

from hetero_mtf.data.cifar10 import STEMS
from hetero_mtf.data.volumes.cache_folder import BESIDE
from tests.commands.volume_cohorts import MODEL, write_corners

LOCAL = ["--cluster", "local:cpu:0,cpu:0"]


@pytest.fixture
def refused(cli, monkeypatch):
    """Runs a command that must end as wrong usage, with every file below some folder left as it was, and returns what it said."""

    def contents(folder):
        return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def call(folder, *arguments):
        before = contents(folder)
        said = cli(*arguments)
        assert said.code == 2 and said.out == "" and contents(folder) == before, said
        return said.err

    return call


@pytest.fixture
def place(folder, tmp_path, monkeypatch):
    """The working directory, with a model, data and files that no command gets so far as to read."""
    for name in ("net.py", "data.npz"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    for name in ("plan.json", "profile.json", "measured.json", "state.npz"):
        (tmp_path / name).write_text("not read")
    (tmp_path / "new.npz").symlink_to("a.keras")
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRAIN = ["train", "--model", "net.py:net", "--data", "npz:data.npz", *LOCAL]
PREDICT = ["predict", "--model", "net.py:net", "--input", "npz:data.npz", "--checkpoint", "state.npz"]
CALIBRATE = ["calibrate", "--model", "net.py:net", *LOCAL]
REFUSED = {
    "train --save the model": ([*TRAIN, "--save", "net.py"], "--save would replace the source of --model"),
    "train --save the data": ([*TRAIN, "--save", "./data.npz"], "--save would replace a file of --data"),
    "train --save the plan": ([*TRAIN, "--plan", "plan.json", "--save", "plan.json"], "--save would replace --plan"),
    "train --measured the plan": ([*TRAIN, "--plan", "plan.json", "--measured", "plan.json"], "--measured would replace --plan"),
    "train --measured the profile": (
        [*TRAIN, "--profile", "profile.json", "--measured", "profile.json"],
        "--measured would replace --profile",
    ),
    "train --measured the state": ([*TRAIN, "--resume", "state.npz", "--measured", "state.npz"], "--measured would replace --resume"),
    "train --save and --measured": ([*TRAIN, "--save", "a", "--measured", "./a"], "--save and --measured name the same file"),
    "train --save and --output": ([*TRAIN, "--save", "new.npz", "--output", "a.keras"], "--save and --output name the same file"),
    "train --save and the plan it makes": (
        [*TRAIN, "--save", "train-plan.json", "--output", "train.keras", "--measured", "train-plan-plan.json"],
        "the plan to be made and --measured name the same file",
    ),
    "train's profile beside and --measured": (
        [*TRAIN, "--measured", "train-profile.json"],
        "the profile to be measured and --measured name the same file",
    ),
    "train's measured times beside": (
        [*TRAIN, "--plan", "state-measured.json", "--save", "state.npz"],
        "the measured times would replace --plan",
    ),
    "calibrate -o the model": ([*CALIBRATE, "-o", "net.py"], "--output would replace the source of --model"),
    "plan -o the profile": (["plan", "profile.json", "-o", "profile.json"], "--output would replace PROFILE"),
    "plan -o the model": (
        ["plan", "--model", "net.py:net", "--shares", "2,1", *LOCAL, "-o", "net.py"],
        "--output would replace the source of --model",
    ),
    "plan -o and --convergence": (
        ["plan", "profile.json", "--strategy", "pipeline", "-o", "a.png", "--convergence", "a.png"],
        "--output and --convergence name the same file",
    ),
    "predict -o the samples": ([*PREDICT, "-o", "data.npz"], "--output would replace --input"),
    "predict -o the state": ([*PREDICT, "-o", "state.npz"], "--output would replace --checkpoint"),
    "predict -o the plan": ([*PREDICT, "--plan", "plan.json", "-o", "plan.json"], "--output would replace --plan"),
    "explain --html the plan": (["explain", "plan.json", "--html", "plan.json"], "--html would replace PLAN"),
    "explain --html the profile": (["explain", "plan.json", "--html", "profile.json"], "--html would replace the profile file"),
    "explain --html the times": (
        ["explain", "plan.json", "--measured", "state.npz", "--html", "state.npz"],
        "--html would replace --measured",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_does_not_take_an_input_or_another_output_as_its_output(place, refused, name):
    arguments, wrong = REFUSED[name]
    assert wrong in " ".join(refused(place, *arguments).split())


def test_the_default_output_of_predict_is_an_output_too(place, refused):
    (place / "predictions.npz").write_bytes((place / "data.npz").read_bytes())
    arguments = ["predict", "--model", "net.py:net", "--input", "npz:predictions.npz", "--checkpoint", "state.npz"]
    assert "--output would replace --input" in refused(place, *arguments)


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_a_link_does_not_hide_an_input(place, refused, link):
    if link == "symbolic":
        (place / "link.npz").symlink_to("data.npz")
    else:
        os.link("data.npz", "link.npz")
    assert "--save would replace a file of --data" in refused(place, *TRAIN, "--save", "link.npz")


def test_a_state_may_be_gone_on_with_and_a_profile_used_again_under_its_own_name(cli, place):
    resumed = cli(*TRAIN, "--plan", "plan.json", "--resume", "state.npz", "--save", "state.npz")
    assert resumed.code == 1 and "state.npz" in resumed.sentence and "replace" not in resumed.sentence
    reused = cli(*CALIBRATE, "--reuse", "profile.json", "-o", "profile.json")
    assert reused.code == 1 and "profile.json is not a complete JSON file" in reused.sentence


def test_the_source_of_a_module_is_found_without_running_it_or_its_packages(place, refused, monkeypatch):
    (place / "outer" / "inner").mkdir(parents=True)
    files = [place / "outer" / "__init__.py", place / "outer" / "inner" / "__init__.py", place / "outer" / "inner" / "nets.py"]
    for file in files:
        file.write_text("raise RuntimeError('executed')\n")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if pathlib.Path(path or ".").resolve() != place])
    for file in files:
        said = refused(place, "calibrate", "--model", "outer.inner.nets:net", *LOCAL, "-o", file)
        assert "--output would replace the source of --model" in said
    assert not {"outer", "outer.inner", "outer.inner.nets"} & set(sys.modules)


def test_every_file_in_a_folder_of_mnist_is_an_input_and_others_there_are_not(place, refused, cli):
    images, labels = struct.pack(">4I", 2051, 2, 8, 8) + bytes(128), struct.pack(">2I", 2049, 2) + bytes(2)
    names = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz", "t10k-images.idx3-ubyte", "t10k-labels-idx1-ubyte"]
    (place / "mnist").mkdir()
    for name in names:
        content = images if "images" in name else labels
        (place / "mnist" / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    arguments = ["train", "--model", "net.py:net", "--data", "mnist:mnist", *LOCAL, "--plan", "plan.json"]
    for name in names:
        assert "--save would replace a file of --data" in refused(place, *arguments, "--save", f"mnist/{name}")
    assert "plan.json is not a complete JSON file" in cli(*arguments, "--save", "mnist/state.npz").sentence


@pytest.mark.parametrize("inner", [".", "cifar-10-batches-py", "cifar-10-batches-bin"])
def test_every_file_of_cifar_10_is_an_input_in_each_of_its_forms(place, refused, inner):
    folder, ending = place / "cifar" / inner, ".bin" if inner.endswith("bin") else ""
    folder.mkdir(parents=True, exist_ok=True)
    for stem in STEMS:
        (folder / f"{stem}{ending}").write_bytes(b"not read")
    arguments = ["train", "--model", "net.py:net", "--data", "cifar10:cifar", *LOCAL]
    for stem in STEMS:
        assert "--save would replace a file of --data" in refused(place, *arguments, "--save", folder / f"{stem}{ending}")


@pytest.fixture
def volumes(tmp_path, monkeypatch):
    """The working directory, with a cohort whose scans have masks, a decoded scan and a description of a training on it."""
    table = write_corners(tmp_path / "cohort", 4)
    lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{lines[0]}\tmask", *(f"{line}\tmask-{number}.nii" for number, line in enumerate(lines[1:]))]) + "\n")
    for number in range(4):
        (table.parent / f"mask-{number}.nii").write_bytes(b"not read")
    (table.parent / BESIDE).mkdir()
    (tmp_path / KEPT).write_bytes(b"not read")
    (tmp_path / "net3d.py").write_text(MODEL)
    (tmp_path / "state.npz").write_bytes(b"not read")
    (tmp_path / "state-data.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


KEPT = f"cohort/{BESIDE}/sub-00_{'0' * 12}_{'1' * 12}_{'a' * 12}.npy"
SCANS = ["cohort/participants.tsv", "cohort/0.nii.gz", "cohort/3.nii.gz", "cohort/mask-2.nii", KEPT]


@pytest.mark.parametrize("path", SCANS)
def test_the_table_its_scans_and_masks_and_the_cache_are_inputs_of_all_commands_for_volumes(volumes, refused, path):
    data = ["--data", "nifti:cohort/participants.tsv"]
    trained = [*data, "--checkpoint", "state.npz"]
    assert "--save would replace" in refused(volumes, "train", "--model", "net3d.py:net", *data, "--save", path)
    assert "--output would replace" in refused(volumes, "predict", *trained, "-o", path)
    for option in ("--json", "--plot", "--html"):
        assert f"{option} would replace" in refused(volumes, "evaluate", *trained, option, path)
    folds = ["train", "--model", "net3d.py:net", *data, "--folds", "2", "--fold", "all"]
    assert "--measured would replace" in refused(volumes, *folds, "--measured", path)


def test_files_of_all_folds_and_pictures_beside_predictions_are_outputs(volumes, refused):
    os.link("cohort/0.nii.gz", "s-fold2.npz")
    os.link("cohort/1.nii.gz", "t-folds.csv")
    os.link("cohort/3.nii.gz", "p-curves.png")
    folds = ["train", "--model", "net3d.py:net", "--data", "nifti:cohort/participants.tsv", "--folds", "2", "--fold", "all"]
    assert "--save would replace a scan or mask of --data" in refused(volumes, *folds, "--save", "s.npz")
    assert "the predictions of all folds would replace a scan" in " ".join(refused(volumes, *folds, "--save", "t.npz").split())
    assert "name the same file" in refused(volumes, *folds, "--save", "u.npz", "--measured", "u-fold1-scores.json")
    predict = ["predict", "--data", "nifti:cohort/participants.tsv", "--checkpoint", "state.npz"]
    assert "the picture of the curves would replace a scan" in " ".join(refused(volumes, *predict, "-o", "p.tsv").split())


@pytest.mark.parametrize("path", ["state.npz", "state-data.json", "net3d.py", "plan.json"])
def test_what_a_trained_network_is_read_from_is_an_input(volumes, refused, path):
    trained = ["--data", "nifti:cohort/participants.tsv", "--checkpoint", "state.npz", "--plan", "plan.json", "--model", "net3d.py:net"]
    assert "--output would replace" in refused(volumes, "predict", *trained, "-o", path)
    assert "--json would replace" in refused(volumes, "evaluate", *trained, "--json", path)


def test_files_that_training_on_volumes_writes_beside_others_are_outputs(volumes, refused, cli):
    train = ["train", "--model", "net3d.py:net", "--data", "nifti:cohort/participants.tsv"]
    for options in (
        ["--save", "a.npz", "--measured", "a-data.json"],
        ["--output", "a.keras", "--measured", "a-data.json"],
        ["--save", "a.npz", "--plan", "a-data.json"],
        ["--save", "a.npz", "--split", "./a.npz"],
        ["--save", "a.npz", "--split", "a-plan.json"],
    ):
        assert refused(volumes, *train, *options)
    (volumes / "split.json").write_text("not read")
    assert "--save would replace --split" in refused(volumes, *train, "--split", "split.json", "--save", "split.json")
    drawn = cli(*train, "--split", "split.json", "--save", "b.npz", "--cluster", "local:cpu:0", "--no-cache")
    assert drawn.code == 1 and "split.json" in drawn.err and "replace" not in drawn.err


def test_a_map_does_not_replace_a_scan(volumes, refused):
    os.link("cohort/0.nii.gz", "cohort/sub-00_gradcam-AD.nii.gz")
    arguments = ["predict", "--data", "nifti:cohort/participants.tsv", "--checkpoint", "state.npz", "--grad-cam", "cohort"]
    assert "--grad-cam would replace a scan or mask of --data" in refused(volumes, *arguments)


@pytest.mark.parametrize("path", ["maps", "./maps", "maps/sub-00_gradcam-AD.nii.gz"])
def test_a_map_does_not_replace_the_table_of_predictions_nor_that_the_folder_of_maps(volumes, refused, path):
    arguments = ["predict", "--data", "nifti:cohort/participants.tsv", "--checkpoint", "state.npz", "--grad-cam", "maps", "-o", path]
    assert "--output and --grad-cam name the same file" in refused(volumes, *arguments)
    (volumes / "maps").mkdir()
    assert "--output and --grad-cam name the same file" in refused(volumes, *arguments)
