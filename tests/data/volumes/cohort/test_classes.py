from __future__ import annotations

import pytest

from hetero_mtf.data.volumes.cohort.classes import alike_faults, class_order, measurements_text, spread_faults


def texts(faults) -> list[str]:
    return [fault.text for fault in faults]


def test_numbers_are_ordered_by_value_and_words_by_letter() -> None:
    assert class_order(["10", "9", "1", "10"]) == ("1", "9", "10")
    assert class_order(["b", "10", "9"]) == ("10", "9", "b")
    assert class_order([]) == ()


def test_labels_that_differ_in_capitals_or_as_numbers_are_alike() -> None:
    assert texts(alike_faults(["AD", "NC", "ad"])) == ["labels 'AD', 'ad' differ in writing only; write them alike"]
    assert texts(alike_faults(["1", "1.0", "2"])) == ["labels '1', '1.0' differ in writing only; write them alike"]
    assert not alike_faults(["AD", "NC"]) and not alike_faults(["0", "1"])


@pytest.mark.parametrize("pair", [("AD", "\uff21\uff24"), ("mild AD", "mild  AD"), ("a-b", "A\u2013b"), ("'AD'", "AD")])
def test_labels_that_differ_in_width_spaces_dashes_or_quotes_are_alike(pair: tuple[str, str]) -> None:
    assert texts(alike_faults([*pair, "NC"])) == [f"labels {pair[0]!r}, {pair[1]!r} differ in writing only; write them alike"]


def test_two_participants_a_class_are_enough() -> None:
    spread = {"AD": ["a", "b"], "NC": ["c", "d"]}
    assert not spread_faults("diagnosis", ("AD", "NC"), spread, spread)


def test_one_class_no_class_and_classes_without_usable_scans_are_faults() -> None:
    both = {"AD": ["a", "b"]}
    assert texts(spread_faults("dx", (), {}, {})) == ["dx: no scan has a label; write them"]
    assert texts(spread_faults("dx", ("AD",), both, both)) == [
        "dx: every label is 'AD' and a classifier needs two classes; add scans of another"
    ]
    assert texts(spread_faults("dx", ("AD", "NC", "XX"), {**both, "NC": ["c", "d"]}, both)) == [
        "dx: class 'NC' is empty, its 2 participants have no usable scan; fix its scans, or take the class out of the table",
        "dx: class 'XX' is empty, no row has it; fix its scans, or take the class out of the table",
    ]


def test_labels_of_one_participant_are_named_together_and_not_endlessly() -> None:
    spread = {str(number): [f"sub-{number}"] for number in range(7)}
    (fault,) = spread_faults("age", tuple(spread), spread, spread)
    assert fault.text == (
        "age: labels '0' (of sub-0), '1' (of sub-1), '2' (of sub-2), '3' (of sub-3), '4' (of sub-4) and 2 more occur with one usable "
        "participant only, and training and testing need 2; correct a misspelt label, add participants, or take the row out of the table"
    )
    assert fault.line is None


def people(counts: dict[str, int]) -> dict[str, list[str]]:
    return {label: [f"{label}-{number}" for number in range(count)] for label, count in counts.items()}


AGES = {
    "24 ages, one participant each": {str(age): 1 for age in range(60, 84)},
    "24 ages of many": {str(age): 30 for age in range(60, 84)},
    "12 ages of few": {str(age): 4 for age in range(60, 72)},
    "scores with a fraction, mostly once": {"71.5": 1, "64.25": 2, "80": 1},
    "ages with an open end": {**{str(age): 2 for age in range(60, 90)}, "90+": 3},
}
CLASSES = {
    "two numbers": {"0": 1, "1": 1},
    "grades with one rare": {"0": 5, "0.5": 4, "1": 3, "2": 1, "3": 1},
    "12 sites of many": {str(site): 9 for site in range(12)},
    "names, one participant each": {f"site-{site}": 1 for site in range(30)},
    "none": {},
}


@pytest.mark.parametrize("name", AGES)
def test_a_column_of_many_numbers_is_no_column_of_classes(name: str) -> None:
    text, counts = measurements_text("age", people(AGES[name])), AGES[name]
    assert text is not None and f"age has {len(counts)} different values of {sum(counts.values())} participants, numbers from" in text
    assert "and regression is not supported; name a column of categories with --label (label=...), or bin the values" in text


@pytest.mark.parametrize("name", CLASSES)
def test_few_numbers_numbers_of_many_participants_and_words_are_classes(name: str) -> None:
    assert measurements_text("grade", people(CLASSES[name])) is None
