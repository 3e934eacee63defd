"""Checkpoints: whole tensors in one file, refused unless complete, and never half-written."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import pathlib
import re
import resource
import subprocess
import sys
import textwrap
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.errors import CheckpointError
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.program.optimizer_reading import read_optimizer
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.training.checkpoint import State, check_name, check_values, checksum, fitting_values, load_state, save_state
from hetero_mtf.training.finite import holds_finite

GRAPH = LayerGraph(
    (
        Layer("x", "InputLayer", {"shape": [2]}, (), (2,)),
        Layer("d", "Dense", {}, (0,), (3,), (Variable("kernel", (2, 3), True), Variable("bias", (3,), True))),
    ),
    "float64",
)


def _state(**changes: Any) -> State:
    values = {"001/kernel": np.arange(6.0).reshape(2, 3), "001/bias": np.zeros(3), "001/kernel/momentum": np.ones((2, 3))}
    return State(**{"digest": "abc", "optimizer": "SGD", "values": values, "step": 7, "seed": 3, "position": {"epoch": 1}, **changes})


def test_what_is_saved_is_loaded_with_the_same_bits(tmp_path: pathlib.Path) -> None:
    save_state(tmp_path / "state", _state())
    found = load_state(tmp_path / "state")
    assert (found.digest, found.optimizer, found.step, found.seed, found.position) == ("abc", "SGD", 7, 3, {"epoch": 1})
    assert {key: value.tolist() for key, value in found.values.items()} == {key: value.tolist() for key, value in _state().values.items()}
    check_values("state", found, GRAPH)


def test_notes_are_stored_with_a_state_and_a_file_without_them_has_none(tmp_path: pathlib.Path) -> None:
    for notes in ({"loss": "mse", "watched": {"val_loss": [0.5, 1, 2]}}, {}):
        save_state(tmp_path / "state", _state(notes=notes))
        assert load_state(tmp_path / "state").notes == notes
    changed = _state(notes=["mse"])
    with pytest.raises(ValueError):
        save_state(tmp_path / "state", changed)


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read checkpoint .*absent: No such file or directory; check the path"):
        load_state(tmp_path / "absent")


def test_a_folder_is_no_checkpoint(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match="cannot read checkpoint"):
        load_state(tmp_path)


def test_a_file_cut_off_anywhere_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state"
    save_state(path, _state())
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="is not a complete checkpoint"):
            load_state(path)


def _archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _meta(**entries: Any) -> Any:
    return np.frombuffer(json.dumps(entries).encode(), np.uint8)


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros(3))
    return file.getvalue()


FOREIGN = {
    "text": (b"hello, world", "not a complete checkpoint"),
    "a single array": (_npy(), "not a complete checkpoint"),
    "an archive without meta": (_archive(a=np.zeros(3)), "not a complete checkpoint"),
    "meta that is no JSON": (_archive(meta=np.zeros(3, np.uint8)), "not a complete checkpoint"),
    "meta that is a list": (_archive(meta=np.frombuffer(b"[1]", np.uint8)), "not a checkpoint of version 2"),
    "another kind": (_archive(meta=_meta(kind="plan", version=1)), "not a checkpoint of version 2"),
    "another version": (_archive(meta=_meta(kind="checkpoint", version=3)), "not a checkpoint of version 2"),
    "no digest": (
        _archive(meta=_meta(kind="checkpoint", version=1, optimizer="SGD", step=1, seed=0, position=None)),
        "not a complete checkpoint",
    ),
    "a step that is text": (
        _archive(meta=_meta(kind="checkpoint", version=1, digest="a", optimizer="SGD", step="x", seed=0, position=None)),
        "not a complete checkpoint",
    ),
    "pickled objects": (_archive(meta=np.array([{}], dtype=object)), "not a complete checkpoint"),
}


@pytest.mark.parametrize("content, words", FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_another_kind_is_refused(content: bytes, words: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=words):
        load_state(path)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"001/bias": None}, "001/bias is missing"),
        ({"001/bias": np.zeros(4)}, r"001/bias is float64 \(4,\), expected float64 \(3,\)"),
        ({"001/bias": np.zeros(3, complex)}, "001/bias is complex128"),
        ({"001/kernel/momentum": np.zeros(5)}, "001/kernel/momentum is float64"),
        ({"002/kernel": np.zeros(3)}, "002/kernel is unknown"),
    ],
)
def test_values_that_are_not_the_networks_are_refused(change: dict[str, Any], words: str) -> None:
    values = {key: value for key, value in {**_state().values, **change}.items() if value is not None}
    with pytest.raises(CheckpointError, match=rf"state is not a complete checkpoint \({words}"):
        check_values("state", _state(values=values), GRAPH)


def _rule(momentum: float) -> UpdateRule:
    return read_optimizer(keras.optimizers.SGD(momentum=momentum), "float64")[0]


def test_steps_without_a_slot_that_the_optimizer_needs_are_refused_and_other_slots_left_out() -> None:
    state = _state()
    with pytest.raises(CheckpointError, match="^state was made by 7 steps of SGD without momentum; give the optimizer the options it was"):
        fitting_values("state", state, GRAPH, _rule(0.9))  # the bias has none
    assert set(fitting_values("state", state, GRAPH, _rule(0.0))) == {"001/kernel", "001/bias"}
    assert set(fitting_values("state", _state(step=0), GRAPH, _rule(0.9))) == set(state.values)


def test_saving_into_a_missing_folder_is_one_sentence(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match="cannot write .*No such file or directory; choose another place"):
        save_state(tmp_path / "absent" / "state", _state())


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_checkpoint_and_no_scrap(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state"
    save_state(path, _state())
    before = path.read_bytes()
    program = f"""
        import resource, signal, sys
        import numpy as np
        from hetero_mtf.errors import CheckpointError
        from hetero_mtf.training.checkpoint import State, save_state
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        try:
            save_state({str(path)!r}, State("abc", "SGD", {{"001/kernel": np.zeros(100000)}}, 1, 0))
        except CheckpointError as fault:
            print(fault)
            sys.exit(3)
    """
    done = subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert "cannot write" in done.stdout and "free some space" in done.stdout
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20000


@pytest.mark.parametrize("name", ["a.keras", "a.h5", "a.weights.h5"])
def test_the_name_of_a_keras_file_is_refused_with_the_call_that_writes_one(name: str, tmp_path: pathlib.Path) -> None:
    exported = {"a.h5": "a.keras"}.get(name, name)
    with pytest.raises(CheckpointError, match=rf"call trainer.export\('.*/{exported}'\), or save the state as state.npz"):
        check_name(tmp_path / name)
    check_name(tmp_path / "keras.npz")


def _members(path: pathlib.Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist()}


def _zip(path: pathlib.Path, members: Sequence[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # about a name that is there twice
        for name, content in members:
            archive.writestr(name, content)


def _npy_of(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _meta_of(members: Mapping[str, bytes]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(np.load(io.BytesIO(members["meta.npy"])).tobytes())
    return document


def _with_meta(members: Mapping[str, bytes], changes: Mapping[str, Any], honest: bool) -> list[tuple[str, bytes]]:
    """Return members with a changed document, whose checksum fits if that is wanted."""
    meta = {**_meta_of(members), **changes}
    if honest:
        values = {name.removesuffix(".npy"): np.load(io.BytesIO(content)) for name, content in members.items() if name != "meta.npy"}
        meta["checksum"] = checksum({key: value for key, value in meta.items() if key != "checksum"}, values)
    return [*((name, content) for name, content in members.items() if name != "meta.npy"), ("meta.npy", _npy_of(_meta(**meta)))]


def _loaded_or_refused(path: pathlib.Path) -> State | None:
    """Return the state that a file holds, None if it is refused in one line."""
    try:
        return load_state(path)
    except CheckpointError as fault:
        assert "\n" not in str(fault) and "; " in str(fault) and len(str(fault)) < 1000
        return None


def _same(found: State, state: State) -> bool:
    whole = dataclasses.replace(found, values={}) == dataclasses.replace(state, values={})
    same = all(np.array_equal(found.values[key], value) and found.values[key].dtype == value.dtype for key, value in state.values.items())
    return whole and same and set(found.values) == set(state.values)


def _mutated(path: pathlib.Path, rng: np.random.Generator) -> None:
    """Damage a state file in one of many ways."""
    content, members = bytearray(path.read_bytes()), list(_members(path).items())
    kind, at, other = int(rng.integers(9)), int(rng.integers(len(content))), int(rng.integers(len(content)))
    chosen = int(rng.integers(len(members)))
    name, inner = members[chosen]
    if kind < 3:  # bits
        for place in rng.integers(len(content), size=1 + 5 * kind):
            content[place] ^= 1 << int(rng.integers(8))
    elif kind == 3:  # cut off, cut out, doubled
        low, high = sorted((at, other))
        content = [content[:at], content[:low] + content[high:], content[:high] + content[low:]][int(rng.integers(3))]
    elif kind == 4:  # a run of bytes
        content[at : at + 8] = rng.bytes(8)
    if kind < 5:
        path.write_bytes(content)
        return
    if kind == 5:  # a member's bytes, with a fitting CRC of the archive
        spoilt = bytearray(inner)
        spoilt[int(rng.integers(len(spoilt)))] ^= 1 << int(rng.integers(8))
        members[chosen] = (name, bytes(spoilt))
    elif kind == 6:  # another array, none, one more, one twice
        extra = _npy_of(rng.normal(size=rng.integers(1, 4, size=2)))
        members = [members[:chosen] + members[chosen + 1 :], [*members, ("x.npy", extra)], [*members, (name, extra)]][int(rng.integers(3))]
    elif kind == 7:  # what is no array
        members[chosen] = (name, [b"", b"hello", inner[: len(inner) // 2], inner + b"x"][int(rng.integers(4))])
    else:  # a header that declares another size
        shape = [b"(1000000000000,)", b"(2, 3, 0, 99)", b"(-1,)", b"(3.0,)", b"[3]", b"(9" + b"9" * 30 + b",)"][int(rng.integers(6))]
        members[chosen] = (name, re.sub(rb"\([\d, ]*\)", shape, inner, count=1))
    _zip(path, members, zipfile.ZIP_DEFLATED if rng.integers(8) == 0 else zipfile.ZIP_STORED)


@pytest.mark.fast("4")
@pytest.mark.parametrize("batch", range(6))
def test_a_damaged_file_is_the_same_state_or_refused_in_one_sentence(batch: int, tmp_path: pathlib.Path) -> None:
    path, state = tmp_path / "state", _state()
    save_state(path, state)
    whole, loaded = path.read_bytes(), 0
    for seed in range(batch * 100, batch * 100 + 100):
        path.write_bytes(whole)
        _mutated(path, np.random.default_rng(seed))
        found = _loaded_or_refused(path)
        assert (found is None or _same(found, state)) and holds_finite(path), seed
        loaded += found is not None
    assert loaded < 50


WRONG = {
    "step": [-5, 10**12, 10**400, float("inf"), float("nan"), 1.5, "x", None, True, [7], {}],
    "seed": [-1, float("inf"), 1.5, "x", None, False],
    "digest": [3, None, []],
    "optimizer": ["a function", "x" * 10**6, 3, None],
    "position": [3, "x", [1], {"epoch": -1}, {"batch": 10**400}, {"sample": float("inf")}, {"epoch": "x"}],
}


@pytest.mark.parametrize("honest", [True, False], ids=["with a checksum that fits", "with the old checksum"])
@pytest.mark.parametrize("name, value", [(name, value) for name in WRONG for value in WRONG[name]], ids=lambda value: str(value)[:20])
def test_a_document_with_values_out_of_range_is_refused(name: str, value: Any, honest: bool, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state"
    save_state(path, _state())
    _zip(path, _with_meta(_members(path), {name: value}, honest))
    assert _loaded_or_refused(path) is None


def test_a_document_that_is_nested_deeply_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state"
    save_state(path, _state())
    for depth in (500, 900, 100_000):
        text = b'{"kind": "checkpoint", "version": 1, "position": ' + b"[" * depth + b"]" * depth + b"}"
        _zip(path, [("meta.npy", _npy_of(np.frombuffer(text, np.uint8)))])
        assert _loaded_or_refused(path) is None


@pytest.mark.slow
def test_nothing_is_inflated(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    save_state(path, _state())
    large = ("001/large.npy", _npy_of(np.zeros(10**7)))
    _zip(path, [*_members(path).items(), large], zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**6
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *asked, **options: pytest.fail("a member is read"))
    with pytest.raises(CheckpointError, match="a member is compressed"):
        load_state(path)
    assert holds_finite(path)


def test_members_that_share_their_bytes_are_refused_unread(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    save_state(path, _state(values={"001/kernel": np.zeros(10**5)}))
    with zipfile.ZipFile(path, "a") as archive:
        (large,) = [member for member in archive.infolist() if "kernel" in member.filename]
        for number in range(2, 100):
            twin = copy.copy(large)
            twin.filename = f"{number:03}/kernel.npy"
            archive.filelist.append(twin)
        archive._didModify = True  # type: ignore[attr-defined]
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *asked, **options: pytest.fail("a member is read"))
    with pytest.raises(CheckpointError, match="its members declare more than"):
        load_state(path)


def test_a_file_without_a_checksum_is_read_if_it_is_of_version_1_only(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state"
    save_state(path, _state())
    meta = {key: value for key, value in _meta_of(_members(path)).items() if key != "checksum"}
    values = dict(_state().values)
    for array in values.values():
        array.setflags(write=False)
    path.write_bytes(_archive(meta=_meta(**{**meta, "version": 1}), **values))
    assert _same(load_state(path), _state())
    path.write_bytes(_archive(meta=_meta(**meta), **values))
    with pytest.raises(CheckpointError, match="not a complete checkpoint .*checksum"):
        load_state(path)


@pytest.mark.parametrize(
    "array",
    [np.ones((2, 3), order="F"), np.float32(3), np.zeros((0, 3)), np.arange(6)[::2], np.array([True]), np.arange(3, dtype=">f8")],
    ids=["by columns", "one number", "none", "every second", "truth", "big-endian"],
)
def test_arrays_of_any_layout_are_read_as_they_were(array: Any, tmp_path: pathlib.Path) -> None:
    save_state(tmp_path / "state", _state(values={"a": array}))
    found = load_state(tmp_path / "state").values["a"]
    assert np.array_equal(found, array) and found.shape == np.shape(array) and found.dtype == array.dtype and found.flags.writeable
