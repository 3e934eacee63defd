"""The tables of whole trainings: medians, what is wanted of the one that tries plans, and where it gets ahead."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.start.start_tables import end_s, even_s, gain_row, rounds_text, rows, still_s
from tools.bench.start.start_tasks import DIGITS, is_network, title_of
from tools.bench.start.started_training import BEST, KERAS, MEASURES, ONE

TRIED, MEASURED_FIRST = MEASURES


def training(arrangement: str, seconds: float, first_step_s: float, step_s: float, steps: int, number: int = 1) -> dict[str, Any]:
    """Return the figures of a training whose steps take the same time and that ends a second after the last."""
    ends = [first_step_s + step_s * (at - 1) for at in (*range(10, steps + 1, 10), steps)]
    figures = {"first_step_s": first_step_s, "progress": ends, "end_s": ends[-1] + 1.0, "steps": steps, "step_s": step_s}
    return {"network": "vgg8", "shares": [1.0, 0.5], "arrangement": arrangement, "seconds": seconds, "round": number, **figures}


def cases() -> list[dict[str, Any]]:
    tried = [training(TRIED, 60.0, 10.0 + at, 0.4, 120, at) for at in range(3)] + [training(TRIED, 120.0, 11.0, 0.4, 240)]
    steady = {ONE: (9.0, 0.5), BEST: (9.0, 0.36), KERAS: (5.0, 0.5)}
    constant = [training(name, 120.0, *figures, 240) for name, figures in steady.items()]
    return [*tried, *constant, training(MEASURED_FIRST, 120.0, 70.0, 0.36, 240)]


def test_a_longer_training_tells_when_a_shorter_one_would_have_ended() -> None:
    case = training(ONE, 120.0, 9.0, 0.5, 245)
    for steps in (1, 7, 120, 243, 245):
        assert end_s(case, steps) == pytest.approx(9.0 + 0.5 * (steps - 1) + 1.0)


def test_rows_are_medians_beside_one_device_of_as_many_steps() -> None:
    table = {(row.numbers["length_s"], row.texts["arrangement"]): row for row in rows(cases())}
    assert [name for length_s, name in table if length_s == 60] == [TRIED, BEST, MEASURED_FIRST, ONE, KERAS]
    assert table[60, TRIED].numbers["first_step_s"] == 11.0 and table[60, TRIED].numbers["end_s"] == pytest.approx(11 + 0.4 * 119 + 1)
    assert table[60, ONE].numbers["end_s"] == pytest.approx(9 + 0.5 * 119 + 1) and table[60, ONE].numbers["times_one"] == 1
    assert table[120, MEASURED_FIRST].numbers["times_one"] > 1


def test_only_of_the_training_that_tries_plans_something_is_wanted() -> None:
    table = rows(cases())
    assert all(bool(row.wanted) == (row.texts["arrangement"] == TRIED) for row in table)
    assert {row.wanted["end_s"] for row in table if row.wanted} == {round(1.05 * (9 + 0.5 * (n - 1) + 1) + 5) for n in (120, 240)}


def test_a_training_is_ahead_from_where_it_has_taken_more_steps_for_good() -> None:
    one = training(ONE, 120.0, 9.0, 0.5, 240)
    assert even_s(training(TRIED, 120.0, 13.0, 0.4, 240), one) == pytest.approx(13.0 + 0.4 * 40, abs=0.4 * 10)
    assert even_s(training(TRIED, 120.0, 8.0, 0.4, 240), one) == 8.0
    never = training(TRIED, 120.0, 13.0, 0.5, 240)
    assert even_s(never, one) == never["progress"][-1]


def test_seconds_that_a_training_stood_still_are_told() -> None:
    steady = training(ONE, 120.0, 9.0, 0.5, 240)
    assert still_s(steady, 240) == 0.0
    stopped = {**steady, "progress": [at + 40 * (at > 60) for at in steady["progress"]]}
    assert still_s(stopped, 240) == pytest.approx(40.0) and still_s(stopped, 50) == 0.0


def test_the_part_of_the_gain_is_beside_the_best_plan_given() -> None:
    (row,) = gain_row(cases())
    assert row.numbers["gain"] == pytest.approx(0.5 / 0.36) and row.wanted == {"even_s": 60.0}
    saved_s, possible_s = (9 + 0.5 * 239) - (11 + 0.4 * 239), (0.5 - 0.36) * 239
    assert row.numbers["part"] == pytest.approx(saved_s / possible_s)
    (longer,) = gain_row([{**case, "seconds": 300.0} for case in cases() if case["seconds"] == 120])
    assert longer.wanted == {"part": 0.9, "even_s": 60.0}
    assert gain_row([case for case in cases() if case["arrangement"] != BEST]) == []


def test_one_round_is_said_to_be_one() -> None:
    assert rounds_text(3, 3, "slow") == "Medians of 3 rounds; slow: one run." and rounds_text(1, 1, "slow").startswith("One round")
    assert rounds_text(2, 3, "slow").startswith("Medians of 2 to 3 rounds")


def test_networks_have_names_and_titles() -> None:
    assert is_network("vgg8") and is_network(DIGITS) and is_network("drawn-00ff00ff") and not is_network("drawn-") and not is_network("vgg")
    assert title_of("vgg8") == "VGG-8" and title_of("drawn-00ff00ff") == "drawn 00ff00ff"
