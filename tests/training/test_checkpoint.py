"""Checkpoints: whole tensors in one file, refused unless complete, and never half-written."""

from __future__ import annotations

import io
import json
import pathlib
import resource
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

from hetero_mtf.errors import CheckpointError
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.training.checkpoint import State, check_name, check_values, fitting_values, load_state, save_state

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
    "meta that is a list": (_archive(meta=np.frombuffer(b"[1]", np.uint8)), "not a checkpoint of version 1"),
    "another kind": (_archive(meta=_meta(kind="plan", version=1)), "not a checkpoint of version 1"),
    "another version": (_archive(meta=_meta(kind="checkpoint", version=2)), "not a checkpoint of version 1"),
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
        ({"001/kernel/momentum": np.zeros(3)}, "001/kernel/momentum is float64"),
        ({"002/kernel": np.zeros(3)}, "002/kernel is unknown"),
    ],
)
def test_values_that_are_not_the_networks_are_refused(change: dict[str, Any], words: str) -> None:
    values = {key: value for key, value in {**_state().values, **change}.items() if value is not None}
    with pytest.raises(CheckpointError, match=rf"state is not a complete checkpoint \({words}"):
        check_values("state", _state(values=values), GRAPH)


def test_steps_without_a_slot_that_the_optimizer_needs_are_refused_and_other_slots_left_out() -> None:
    state = _state()
    with pytest.raises(CheckpointError, match="^state was made by 7 steps of SGD without momentum; give the optimizer the options it was"):
        fitting_values("state", state, GRAPH, ("momentum",))  # the bias has none
    assert set(fitting_values("state", state, GRAPH, ())) == {"001/kernel", "001/bias"}
    assert set(fitting_values("state", _state(step=0), GRAPH, ("momentum",))) == set(state.values)


def test_saving_into_a_missing_folder_is_one_sentence(tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match="cannot write .*No such file or directory; choose another place"):
        save_state(tmp_path / "absent" / "state", _state())


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
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert "cannot write" in done.stdout and "free some space" in done.stdout
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20000


@pytest.mark.parametrize("name", ["a.keras", "a.h5", "a.weights.h5"])
def test_the_name_of_a_keras_file_is_refused_with_the_call_that_writes_one(name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match=rf"call trainer.to_keras\(\).save\('.*/{name}'\), or save the state as state.npz"):
        check_name(tmp_path / name)
    check_name(tmp_path / "keras.npz")
