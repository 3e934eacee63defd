from __future__ import annotations

from hetero_mtf.data.volumes.classes import alike_faults, class_order, spread_faults


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
        "dx: class 'NC' is empty, its 2 participants have no usable scan; mend its scans, or take the class out of the table",
        "dx: class 'XX' is empty, no row has it; mend its scans, or take the class out of the table",
    ]


def test_labels_of_one_participant_are_named_together_and_not_endlessly() -> None:
    spread = {str(number): [f"sub-{number}"] for number in range(7)}
    (fault,) = spread_faults("age", tuple(spread), spread, spread)
    assert fault.text == (
        "age: labels '0' (of sub-0), '1' (of sub-1), '2' (of sub-2), '3' (of sub-3), '4' (of sub-4) and 2 more occur with one usable "
        "participant only, and training and testing need 2; correct a misspelt label, add participants, or take the row out of the table"
    )
    assert fault.line is None
