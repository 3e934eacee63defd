"""A cohort of scans, a model file for it, and a training on it, which the tests of a session share."""

import pytest

from tests.commands.volume_cohorts import MODEL, write_corners


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with a model file, a cohort, a plan and what a training saved."""
    from hetero_mtf.commands import main

    folder = tmp_path_factory.mktemp("volumes")
    (folder / "net3d.py").write_text(MODEL)
    write_corners(folder / "cohort")
    typed = ["--shares", "2,1", "--cluster", "local:cpu:0,cpu:0", "--batch-size", "4", "-o", folder / "plan.json"]
    assert main.run(list(map(str, ["plan", "--model", f"{folder / 'net3d.py'}:net", *typed]))) == 0
    return folder


@pytest.fixture(scope="session")
def table(place):
    """--data's value."""
    return f"nifti:{place / 'cohort' / 'participants.tsv'}"


@pytest.fixture(scope="session")
def training(place, table):
    """What `train` is called with, by two processors of this process."""
    subject = ["train", "--data", table, "--model", f"{place / 'net3d.py'}:net", "--cluster", "local:cpu:0,cpu:0"]
    return [*subject, "--plan", place / "plan.json", "--optimizer", "adam", "--learning-rate", "0.01", "--test-fraction", "0.34"]


@pytest.fixture(scope="session")
def trained(place, training):
    """The checkpoint of a training, and what was printed."""
    import contextlib
    import io

    from hetero_mtf.commands import main

    state, said = place / "state.npz", io.StringIO()
    options = ["--epochs", "6", "--validation-fraction", "0.2", "--shift", "1", "--noise", "0.1", "--save", state]
    with contextlib.redirect_stdout(said):
        assert main.run(list(map(str, [*training, *options]))) == 0
    return state, said.getvalue()
