"""Errors: what is wrong and what to do are parts of them, also of one that came from another process."""

from __future__ import annotations

import pickle

import pytest

from hetero_mtf import errors
from hetero_mtf.commands.workload.plain_configuration import ForeignObject

FAULTS = (
    errors.PlanError("there are 3 shares for 2 devices", "give one share a device"),
    errors.DataError("y is missing"),
    errors.UnsupportedOptionError("layer a has b=1", "leave it out", "b"),
    errors.UnsupportedModelError(["one; change it", "two"]),
    ForeignObject("Evil", "is no class of keras.losses", "name one"),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_an_error_from_another_process_is_the_same(fault: errors.HeteroError) -> None:
    again = pickle.loads(pickle.dumps(fault))
    assert type(again) is type(fault) and vars(again) == vars(fault) and str(again) == str(fault)


def test_a_text_is_the_reason_and_the_remedy_if_there_is_one() -> None:
    assert [str(fault) for fault in FAULTS[:2]] == ["there are 3 shares for 2 devices; give one share a device", "y is missing"]
    assert str(FAULTS[4]) == "Evil is no class of keras.losses; name one" and FAULTS[4].reason == "Evil is no class of keras.losses"
