from __future__ import annotations

import pathlib

import pytest

from hetero_mtf.data.volumes import cache_folder
from hetero_mtf.errors import DataError


def test_the_cache_lies_beside_the_table_and_nothing_else_is_left_there(tmp_path: pathlib.Path) -> None:
    folder, notes = cache_folder(tmp_path / "participants.tsv", {"HOME": str(tmp_path / "home")})
    assert folder == tmp_path / ".hetero_mtf_cache" and notes == ()
    assert [path.name for path in tmp_path.rglob("*")] == [".hetero_mtf_cache"]


@pytest.mark.parametrize(("variables", "place"), [({"HOME": "home"}, "home/.cache"), ({"HOME": "home", "XDG_CACHE_HOME": "xdg"}, "xdg")])
def test_beside_a_table_that_cannot_be_written_to_the_users_folder_is_taken(tmp_path: pathlib.Path, variables, place: str) -> None:
    (tmp_path / ".hetero_mtf_cache").touch()  # a file where the folder would be, as good as a folder that is read-only
    placed = {name: str(tmp_path / value) for name, value in variables.items()}
    folder, notes = cache_folder(tmp_path / "participants.tsv", placed)
    assert folder == tmp_path / place / "hetero_mtf" / "volumes" and folder.is_dir()
    assert notes == (f"{tmp_path}/.hetero_mtf_cache cannot be written to (File exists): the cache is kept in {folder}",)


def test_a_folder_that_was_asked_for_is_made_or_refused(tmp_path: pathlib.Path) -> None:
    assert cache_folder("x.tsv", {}, tmp_path / "a" / "b") == (tmp_path / "a" / "b", ())
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="the cache cannot be kept in .*/file: File exists; choose another folder, or train without"):
        cache_folder("x.tsv", {"HOME": str(tmp_path)}, tmp_path / "file")


def test_where_nothing_can_be_written_every_place_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".hetero_mtf_cache").touch()
    (tmp_path / "home").touch()
    with pytest.raises(DataError) as caught:
        cache_folder(tmp_path / "participants.tsv", {"HOME": str(tmp_path / "home")})
    message = str(caught.value)
    assert message.startswith("the cache can be kept nowhere: ") and ".hetero_mtf_cache cannot be written to (File exists)" in message
    assert "home/.cache/hetero_mtf/volumes cannot be written to (Not a directory); name a folder for it, or train without" in message
