"""JSON files: never half-written, and refused in one sentence unless they are what is asked for."""

from __future__ import annotations

import os
import pathlib
import stat
from typing import Any

import pytest

from hetero_mtf import json_file
from hetero_mtf.errors import HeteroError
from hetero_mtf.json_file import read_json, replace_file, write_json


def _document(**changes: Any) -> dict[str, Any]:
    return {"kind": "plan", "version": 1, "text": "größer", **changes}


def test_what_is_written_is_read(tmp_path: pathlib.Path) -> None:
    write_json(tmp_path / "plan.json", _document())
    assert read_json(tmp_path / "plan.json", kind="plan", version=1) == _document()
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("fault", [RuntimeError("no more"), KeyboardInterrupt()])
def test_a_failure_in_the_middle_leaves_the_old_file_and_no_scrap(fault: BaseException, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    with pytest.raises(type(fault)), replace_file(path) as file:
        file.write(b"half of the new")
        raise fault
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    with pytest.raises(HeteroError, match="cannot write .*plan.json: No space left on device; choose another place or free some space"):
        with replace_file(path):
            raise OSError(28, os.strerror(28))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_failure_while_the_file_takes_its_place_leaves_the_old_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")

    def refuse(source: Any, target: Any) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(HeteroError, match="cannot write"):
        write_json(path, _document())
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_document_that_json_cannot_say_leaves_the_old_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    write_json(path, _document())
    with pytest.raises(ValueError):
        write_json(path, _document(seconds=float("nan")))
    assert read_json(path, kind="plan", version=1) == _document() and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("place", ["absent/plan.json", "file/plan.json", "."])
def test_a_place_where_no_file_can_be_is_one_sentence(place: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeteroError, match=r"cannot write .*: .*; choose another place or free some space"):
        write_json(tmp_path / place, _document())


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_others_may_read_a_new_file_as_far_as_the_users_mask_says(mask: int, mode: int, tmp_path: pathlib.Path) -> None:
    before = os.umask(mask)
    try:
        write_json(tmp_path / "plan.json", _document())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == mode


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(0o640)
    write_json(path, _document())
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", r"is not a complete JSON file \(.*\); make it again with hetero-mtf plan"),
        (b'{"kind": "plan", "ver', r"is not a complete JSON file \(.*\); make it again with hetero-mtf plan"),
        (b"\xff\xfe\xfa", r"is not a complete JSON file \(.*\); make it again with hetero-mtf plan"),
        (b"[" * 200_000, r"is not a complete JSON file \(.*\); make it again with hetero-mtf plan"),
        (b"[1, 2]", "is not a plan file; make it again with hetero-mtf plan"),
        (
            b'{"kind": "profile", "version": 1}',
            "is a profile of hetero-mtf calibrate and not a plan file; make it again with hetero-mtf plan",
        ),
        (b'{"kind": "plan", "version": 2}', "has version 2 and this program reads 1; make it again with hetero-mtf plan"),
        (b'{"kind": "plan"}', "has version None and this program reads 1; make it again with hetero-mtf plan"),
        (b'{"kind": "plan", "version": true}', "has version True and this program reads 1; make it again with hetero-mtf plan"),
    ],
)
def test_a_file_that_is_not_what_is_asked_for_is_refused(content: bytes, words: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(HeteroError, match=f"^{path} {words}$"):
        read_json(path, kind="plan", version=1)


def test_a_profile_is_made_again_by_calibrating(tmp_path: pathlib.Path) -> None:
    (tmp_path / "profile.json").write_text("{}")
    with pytest.raises(HeteroError, match="is not a profile file; make it again with hetero-mtf calibrate"):
        read_json(tmp_path / "profile.json", kind="profile", version=1)


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_file, "MAX_JSON_BYTES", 10)
    (tmp_path / "plan.json").write_bytes(b"not even JSON")
    with pytest.raises(HeteroError, match="has 13 bytes, too many for a plan; make it again with hetero-mtf plan"):
        read_json(tmp_path / "plan.json", kind="plan", version=1)


@pytest.mark.parametrize("name", ["absent.json", ""])
def test_a_file_that_cannot_be_read_is_one_sentence(name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(HeteroError, match="cannot read .*: .*; check the path"):
        read_json(tmp_path / name, kind="plan", version=1)


def test_a_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_file, "MAX_JSON_BYTES", 1000)
    with pytest.raises(HeteroError, match="/dev/zero has more than 1000 bytes, too many for a plan; make it again with hetero-mtf plan"):
        read_json("/dev/zero", kind="plan", version=1)


def test_keys_that_an_object_names_twice_are_all_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"kind": "plan", "version": 1, "batch_size": 1, "batch_size": 2, "inner": {"a": 1, "b": 2, "a": 3, "b": 4}}')
    words = "plan.json names 'a', 'b', 'batch_size' twice in one object, so it is not clear what counts; make it again with hetero-mtf plan"
    with pytest.raises(HeteroError, match=words):
        read_json(path, kind="plan", version=1)
    path.write_text(
        "{" + ", ".join(f'"key{at}": {{"x": 1, "x": 2, "y{at}": 1, "y{at}": 2}}' for at in range(50)) + ', "kind": "plan", "version": 1}'
    )
    with pytest.raises(HeteroError) as caught:
        read_json(path, kind="plan", version=1)
    assert str(caught.value).count("'y") == 19


def test_a_file_that_another_process_removes_is_written_all_the_same(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.json"
    target.write_text("old")
    asked = pathlib.Path.stat

    def removed(path: pathlib.Path, **options: Any) -> os.stat_result:
        found = asked(path, **options)
        if path == target:
            target.unlink()
        return found

    monkeypatch.setattr(pathlib.Path, "stat", removed)
    with replace_file(target) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").mkdir()
    target, link, dangling = tmp_path / "real" / "a.json", tmp_path / "link", tmp_path / "dangling"
    target.write_text("old")
    link.symlink_to("real/a.json")
    dangling.symlink_to(tmp_path / "real" / "b.json")
    for path in (link, dangling):
        with replace_file(path) as file:
            assert pathlib.Path(file.name).parent == tmp_path / "real"
            file.write(b"new")
        assert path.is_symlink() and path.read_text() == "new"
    assert sorted(entry.name for entry in (tmp_path / "real").iterdir()) == ["a.json", "b.json"]


def test_other_names_of_a_file_keep_the_old_bytes(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.json").write_text("old")
    os.link(tmp_path / "a.json", tmp_path / "b.json")
    write_json(tmp_path / "a.json", _document())
    assert (tmp_path / "b.json").read_text() == "old" and read_json(tmp_path / "a.json", kind="plan", version=1) == _document()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_is_replaced_keeps_its_owner_group_and_permissions(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    os.chown(path, 1234, 4321)
    path.chmod(0o4750)
    write_json(path, _document())
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o4750)


def test_an_owner_that_cannot_be_kept_is_one_sentence_and_nothing_is_written(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    asked = pathlib.Path.stat

    def of_another(place: pathlib.Path, **options: Any) -> os.stat_result:
        found = list(asked(place, **options))
        return os.stat_result([*found[:4], 1234 if place == path else found[4], *found[5:]])

    def refuse(descriptor: int, user: int, group: int) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(pathlib.Path, "stat", of_another)
    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(HeteroError, match="cannot write .*plan.json: it belongs to user 1234 and group .*; write it as that user"):
        with replace_file(path):
            pytest.fail("the block must not begin")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_what_holds_a_file_s_place_and_is_none_is_left_as_it_is(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HeteroError, match="cannot write .*: it is a device, a pipe or a socket and no file; choose another place"):
        with replace_file(tmp_path / "pipe"):
            pytest.fail("the block must not begin")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_what_replaces_a_private_file_is_private_while_it_is_written(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text("old")
    path.chmod(0o600)
    with replace_file(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
