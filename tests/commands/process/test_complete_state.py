"""Which state a training goes on from where the newest one is damaged."""

import os

import numpy as np
import pytest

from hetero_mtf.commands.process.complete_state import newest_complete
from hetero_mtf.errors import CheckpointError
from hetero_mtf.training.checkpoint import State, save_state


@pytest.fixture
def kept(tmp_path):
    """A state, and those of three steps beside it, the last one of an earlier training; returns the path of one by its name."""
    for age, name in enumerate(("s", "s-step20", "s-step10", "s-step90")):
        save_state(tmp_path / f"{name}.npz", State("digest", "sgd", {"0/kernel": np.ones(3)}, 1, 0))
        os.utime(tmp_path / f"{name}.npz", (1e9 - age, 1e9 - age))
    return lambda name: str(tmp_path / f"{name}.npz")


def _damage(path, at=200):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, (1e9, 1e9))


def test_a_complete_state_is_gone_on_from_without_a_word(kept, capsys):
    assert newest_complete(kept("s"))[0] == kept("s") and capsys.readouterr().err == ""


def test_instead_of_a_damaged_state_the_newest_complete_one_is_taken_and_named(kept, capsys):
    _damage(kept("s"))
    assert newest_complete(kept("s"))[0] == kept("s-step20")
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"hetero-mtf: warning: {kept('s')} is not a complete checkpoint (")
    assert said.endswith(f"; training goes on from {kept('s-step20')}, the newest complete state there")
    with open(kept("s-step20"), "r+b") as file:
        file.truncate(100)
    os.utime(kept("s-step20"), (1e9, 1e9))
    assert newest_complete(kept("s"))[0] == kept("s-step10")  # written after that of step 90


def test_where_all_are_damaged_or_none_is_kept_the_fault_is_that_of_the_newest(kept):
    for name in ("s", "s-step10", "s-step20", "s-step90"):
        _damage(kept(name))
    with pytest.raises(CheckpointError, match=r"s.npz is not a complete checkpoint \(.*take an earlier one"):
        newest_complete(kept("s"))
    with pytest.raises(CheckpointError, match="step10.npz is not a complete checkpoint"):
        newest_complete(kept("s-step10"))
    with pytest.raises(CheckpointError, match="cannot read checkpoint .*none.npz"):
        newest_complete(kept("none"))
