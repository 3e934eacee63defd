"""What the runs of an example say: equal, different, refused by name, crashed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tools.keras_io.compare import relative, verdict


def _run(loss: list[float], status: str = "done", **fault: Any) -> dict[str, Any]:
    entry = {"call": "fit", "values": {"loss": loss}, "plan": None}
    return {"status": status, "seconds": 1.0, "entries": [entry], "fault": fault or None}


def test_equal_losses_are_equal_and_the_greatest_difference_is_named() -> None:
    said = verdict([_run([1.0, 2.0])], [_run([1.0, 2.0 + 1e-7])], single=False)
    assert said.text == "equal" and said.where == "fit 1 loss 2" and said.difference == pytest.approx(5e-8)


@pytest.mark.parametrize(("single", "text"), [(False, "differs"), (True, "equal")])
def test_what_counts_as_equal_depends_on_the_precision(single: bool, text: str) -> None:
    assert verdict([_run([1.0])], [_run([1.0001])], single).text == text


@pytest.mark.parametrize("loss", [[1.0], [1.0, math.nan]])
def test_an_epoch_that_is_missing_or_not_a_number_differs(loss: list[float]) -> None:
    assert verdict([_run([1.0, 2.0])], [_run(loss)], single=False).text == "differs"


@pytest.mark.parametrize(("named", "text"), [(True, "named"), (False, "crashes")])
def test_an_error_of_the_package_is_told_from_a_crash(named: bool, text: str) -> None:
    failed = _run([], "failed", kind="ValueError", text="no loss", named=named)
    assert verdict([_run([1.0])], [failed], single=False).text == text
    assert verdict([failed], [], single=False).text == "Keras fails"


def test_means_of_seeds_are_compared_by_their_spread() -> None:
    keras = [_run([1.0 + 0.1 * i]) for i in range(5)]
    assert verdict(keras, [_run([1.03 + 0.1 * i]) for i in range(5)], single=False).text == "equal"
    assert verdict(keras, [_run([2.0 + 0.1 * i]) for i in range(5)], single=False).text == "differs"


def test_nothing_that_was_compared_is_no_equality() -> None:
    empty = {"status": "done", "seconds": 1.0, "entries": [], "fault": None}
    assert verdict([empty], [empty], single=False).text == "nothing compared"


def test_two_that_are_not_numbers_do_not_differ() -> None:
    assert relative(math.nan, math.nan) == 0 and relative(math.inf, 1.0) == math.inf


def test_a_weight_that_is_zero_but_for_rounding_does_not_differ() -> None:
    keras, distributed = _run([1.0]), _run([1.0])
    keras["entries"][0]["values"]["weights"], distributed["entries"][0]["values"]["weights"] = [3.0e-13], [3.1e-13]
    assert verdict([keras], [distributed], single=False).text == "equal"
