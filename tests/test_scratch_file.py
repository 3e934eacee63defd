"""Scratch files and writers' locks: those of living processes stay, those of killed ones go."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.json_file import replace_file, write_json
from hetero_mtf.scratch_file import open_scratch, remove_abandoned, sole_writer

HOLD = """
import sys
from hetero_mtf.json_file import replace_file
from hetero_mtf.scratch_file import sole_writer
with {block} as file:
    if file is not None:
        file.write(b"half")
        file.flush()
    print("inside", flush=True)
    sys.stdin.readline()
    if file is not None:
        file.write(b" and half")
"""
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def inside() -> Iterator[Start]:
    """Starts a process that is inside a block until its input ends."""
    started: list[subprocess.Popen[str]] = []

    def start(block: str) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", HOLD.format(block=block)]
        process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."})
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "inside\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def _names(folder: pathlib.Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("suffix", ["", ".keras"])
def test_what_a_killed_writer_left_is_removed_by_the_next_one(suffix: str, tmp_path: pathlib.Path, inside: Start) -> None:
    path = tmp_path / "state.npz"
    path.write_text("old")
    _kill(inside(f"replace_file({str(path)!r}, {suffix!r})"))
    assert len(_names(tmp_path)) == 2 and path.read_text() == "old"
    with replace_file(path) as file:
        file.write(b"new")
    assert _names(tmp_path) == ["state.npz"] and path.read_text() == "new"


def test_a_living_writer_is_left_alone_and_the_last_one_wins(tmp_path: pathlib.Path, inside: Start) -> None:
    path = tmp_path / "state.npz"
    other = inside(f"replace_file({str(path)!r})")
    with replace_file(path) as file:
        file.write(b"ours")
    remove_abandoned(path)
    assert len(_names(tmp_path)) == 2 and path.read_text() == "ours"
    other.communicate("\n")
    assert other.returncode == 0 and _names(tmp_path) == ["state.npz"] and path.read_text() == "half and half"


def test_a_folder_is_not_listed_where_that_is_not_wanted(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".a.json.0123456789ab").write_text("left")
    write_json(tmp_path / "a.json", {}, sweep=False)
    assert _names(tmp_path) == [".a.json.0123456789ab", "a.json"]
    write_json(tmp_path / "a.json", {})
    assert _names(tmp_path) == ["a.json"]


def test_only_scratch_files_of_this_path_are_removed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.npz"
    kept = [".state.npz.0123456789ag", ".state.npz.0123456789abc", ".state.npz", ".other.npz.0123456789ab", "state.npz.0123456789ab"]
    for name in kept:
        (tmp_path / name).write_text("")
    (tmp_path / ".state.npz.ba9876543210").mkdir()
    (tmp_path / ".state.npz.0123456789ab").write_text("")
    (tmp_path / ".state.npz.0123456789ac").symlink_to(tmp_path / "state.npz.0123456789ab")
    remove_abandoned(path)
    assert _names(tmp_path) == sorted([*kept, ".state.npz.ba9876543210", ".state.npz.0123456789ac"])
    remove_abandoned(tmp_path / "nowhere" / "state.npz")


def test_a_scratch_file_that_is_removed_before_it_is_locked_is_made_anew(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    lock, times = fcntl.flock, list[int]()

    def remove_first(file: object, operation: int) -> None:
        times.append(operation)
        if len(times) == 1:
            (only,) = tmp_path.iterdir()
            only.unlink()
        lock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with open_scratch(tmp_path / "a", "", 0o600) as file:
        assert pathlib.Path(file.name).exists() and len(times) == 2


def test_a_file_system_without_locks_removes_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: object, operation: int) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr("fcntl.flock", refuse)
    (tmp_path / ".a.json.0123456789ab").write_text("")
    write_json(tmp_path / "a.json", {})
    with sole_writer(tmp_path / "a.json"):
        pass
    assert _names(tmp_path) == [".a.json.0123456789ab", "a.json"]


def test_a_second_writer_is_refused_at_once_and_may_go_on_after_the_first(tmp_path: pathlib.Path, inside: Start) -> None:
    path, link = tmp_path / "state.npz", tmp_path / "link.npz"
    link.symlink_to(path)
    first = inside(f"sole_writer({str(path)!r})")
    for place in (path, link):
        with pytest.raises(HeteroError, match=rf"is being written by another training \(process {first.pid}\); wait until it ends"):
            with sole_writer(place):
                pass
    write_json(path, {"replaced": "meanwhile"})
    with pytest.raises(HeteroError, match="is being written by another training"), sole_writer(path):
        pass
    with sole_writer(tmp_path / "other.npz"):
        pass
    first.communicate("\n")
    with sole_writer(path):
        write_json(path, {})
    assert _names(tmp_path) == ["link.npz", "state.npz"]


def test_a_killed_writer_locks_nobody_out_and_leaves_nothing_after_the_next(tmp_path: pathlib.Path, inside: Start) -> None:
    path = tmp_path / "state.npz"
    _kill(inside(f"sole_writer({str(path)!r})"))
    _kill(inside(f"replace_file({str(path)!r})"))
    with sole_writer(path):
        assert _names(tmp_path) == [".state.npz.lock"]
        assert (tmp_path / ".state.npz.lock").read_text() == f"{os.getpid()}\n"
    assert _names(tmp_path) == []


def test_a_lock_that_its_holder_removes_meanwhile_is_made_anew(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    lock, times = fcntl.flock, list[int]()

    def remove_first(file: object, operation: int) -> None:
        times.append(operation)
        if len(times) == 1:
            (tmp_path / ".a.lock").unlink()
        lock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with sole_writer(tmp_path / "a"):
        assert (tmp_path / ".a.lock").exists() and len(times) == 2


def test_a_lock_that_cannot_be_made_is_one_sentence(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".a.lock").mkdir()
    for place in (tmp_path / "a", tmp_path / "nowhere" / "a"):
        with pytest.raises(HeteroError, match="cannot lock .*a with .*lock: .*; choose another place"), sole_writer(place):
            pass


@pytest.mark.slow
def test_many_processes_that_replace_one_file_at_once_leave_one_whole_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.npz"
    program = f"""
from hetero_mtf.json_file import replace_file
import sys
for turn in range(30):
    with replace_file({str(path)!r}) as file:
        for part in range(20):
            file.write(sys.argv[1].encode() * 1000)
            file.flush()
"""
    environment = {**os.environ, "PYTHONPATH": "."}
    writers = [subprocess.Popen([sys.executable, "-c", program, letter], env=environment) for letter in "abcd"]
    assert [writer.wait(120) for writer in writers] == [0] * 4
    content = path.read_text()
    assert len(content) == 20_000 and len(set(content)) == 1 and _names(tmp_path) == ["state.npz"]
