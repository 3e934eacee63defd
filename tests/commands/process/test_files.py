"""Files of a command: one file is one file, however its path is spelt."""

import os

import click
import pytest

from hetero_mtf.commands.process.files import CommandFiles, check_files, command_file, identity
from hetero_mtf.errors import HeteroError


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a file, which is the working directory, and other paths of that file."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "data.npz").write_bytes(b"data")
    (tmp_path / "link.npz").symlink_to("data.npz")
    (tmp_path / "second.npz").symlink_to(tmp_path / "link.npz")
    (tmp_path / "folder").symlink_to(tmp_path)
    os.link(tmp_path / "data.npz", tmp_path / "hard.npz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SPELT = ["data.npz", "./data.npz", "inner/../data.npz", "link.npz", "second.npz", "folder/data.npz", "hard.npz", "folder/folder/hard.npz"]


@pytest.mark.parametrize("path", SPELT)
def test_a_file_is_itself_by_every_path(place, path):
    assert identity(path) == identity(place / "data.npz") == identity(place / path)
    with pytest.raises(click.UsageError, match=r"--save would replace --data: .*; write to another file"):
        check_files(CommandFiles(command_file("--data", place / "data.npz"), command_file("--save", path)))


@pytest.mark.parametrize("path", ["new.npz", "inner/../new.npz", "folder/new.npz", "dangling.npz"])
def test_a_file_that_does_not_exist_is_itself_by_every_path(place, path):
    (place / "dangling.npz").symlink_to(place / "new.npz")
    assert identity(path) == identity(place / "new.npz")
    with pytest.raises(click.UsageError, match="--save and --output name the same file: .*; give each its own"):
        check_files(CommandFiles((), (*command_file("--save", "new.npz"), *command_file("--output", path))))


def test_files_that_differ_are_different_even_with_equal_content_or_in_folders_that_do_not_exist(place):
    (place / "inner" / "data.npz").write_bytes(b"data")
    (place / "loop").symlink_to(place / "loop")
    paths = ["data.npz", "inner/data.npz", "inner", ".", "new.npz", "none/new.npz", "none/other/new.npz", "loop"]
    assert len({identity(path) for path in paths}) == len(paths)


def test_an_output_may_be_the_input_that_it_updates_and_nothing_else(place):
    inputs = (*command_file("--resume", "data.npz"), *command_file("--plan", "plan.json"))
    updates = (("--save", "--resume"),)
    check_files(CommandFiles(inputs, command_file("--save", "hard.npz"), updates))
    for role, path in (("--save", "plan.json"), ("--output", "data.npz")):
        with pytest.raises(click.UsageError, match=f"{role} would replace"):
            check_files(CommandFiles(inputs, command_file(role, path), updates))
    both = (*command_file("--data", "link.npz"), *command_file("--resume", "data.npz"))
    with pytest.raises(click.UsageError, match="--save would replace --data: data.npz is link.npz"):
        check_files(CommandFiles(both, command_file("--save", "data.npz"), updates))


def test_outputs_of_one_role_may_be_one_file_and_every_output_must_be_writable(place):
    check_files(CommandFiles((), command_file("record", "a.json") * 2))
    with pytest.raises(HeteroError, match="there is no folder none; make it first"):
        check_files(CommandFiles((), command_file("--save", "none/a.json")))
    assert command_file("--save", None) == ()
