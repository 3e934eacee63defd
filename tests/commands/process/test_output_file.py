"""Files that commands write."""

import errno

import keras
import numpy as np
import pytest

from hetero_mtf.commands.process.output_file import check_folder, check_target, save_model
from hetero_mtf.commands.runs.predict import save_arrays
from hetero_mtf.errors import HeteroError


def _model():
    inputs = keras.Input((4,))
    return keras.Model(inputs, keras.layers.Dense(2)(inputs))


def test_a_path_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    check_target(None)
    check_target(tmp_path / "new.json")
    with pytest.raises(HeteroError, match="it is a folder; give the path of a file"):
        check_target(tmp_path)
    with pytest.raises(HeteroError, match="there is no folder .*nowhere; make it first"):
        check_target(tmp_path / "nowhere" / "plan.json")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for looped in (tmp_path / "loop", tmp_path / "loop" / "plan.json"):
        with pytest.raises(HeteroError, match="cannot write .*: Too many levels of symbolic links; choose another place"):
            check_target(looped)
    (tmp_path / "file").write_text("")
    with pytest.raises(HeteroError, match="there is no folder .*file; make it first"):
        check_target(tmp_path / "file" / "plan.json")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(HeteroError, match="is not writable; choose another place"):
        check_target(tmp_path / "plan.json")


def test_a_model_is_written_in_one_piece_and_loads_again(tmp_path):
    model = _model()
    save_model(tmp_path / "m.keras", model)
    again = keras.models.load_model(tmp_path / "m.keras")
    assert all(np.array_equal(a, b) for a, b in zip(model.get_weights(), again.get_weights()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.keras"]


def test_a_full_disk_leaves_the_old_model_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "m.keras").write_bytes(b"old")

    def fill(self, path):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(keras.Model, "save", fill)
    with pytest.raises(HeteroError, match="cannot write .*m.keras: No space left on device; choose another place or free some space"):
        save_model(tmp_path / "m.keras", _model())
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {"m.keras": b"old"}


def test_arrays_are_written_and_read_again(tmp_path):
    save_arrays(tmp_path / "a.npz", {"y": np.arange(3)})
    assert np.load(tmp_path / "a.npz")["y"].tolist() == [0, 1, 2]


def test_a_model_that_a_killed_process_was_writing_is_removed_by_the_next_one(tmp_path):
    (tmp_path / ".m.keras.0123456789ab.keras").write_bytes(b"half")
    save_model(tmp_path / "m.keras", _model())
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.keras"]


def test_a_model_that_is_being_written_is_locked_and_private(tmp_path, monkeypatch):
    import fcntl

    (tmp_path / "m.keras").write_bytes(b"old")
    (tmp_path / "m.keras").chmod(0o640)
    save, seen = keras.Model.save, []

    def watched(self, path):
        save(self, path)
        with open(path, "rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(path)

    monkeypatch.setattr(keras.Model, "save", watched)
    save_model(tmp_path / "m.keras", _model())
    assert len(seen) == 1 and (tmp_path / "m.keras").stat().st_mode & 0o777 == 0o640
    keras.models.load_model(tmp_path / "m.keras")


def test_a_folder_must_be_one_or_be_made_in_one_that_is_writable(tmp_path, monkeypatch):
    check_folder(None, "--log-dir")
    check_folder(tmp_path, "--log-dir")
    check_folder(tmp_path / "new" / "logs", "--log-dir")
    assert list(tmp_path.iterdir()) == []  # nothing is made yet
    (tmp_path / "file").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "file", tmp_path / "file" / "logs", tmp_path / "gone"):
        with pytest.raises(HeteroError, match="--log-dir is .*is no folder; give the path of a folder"):
            check_folder(path, "--log-dir")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(HeteroError, match="is not writable; choose another place"):
        check_folder(tmp_path / "new", "--log-dir")
