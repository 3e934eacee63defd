from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.json_records import Fault, listed, read_fields, read_value, unchecked, unless_caused
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.plan.plan import Plan
from tests.cases import examples

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["layers", "devices", "axes", "x"]), inner, max_size=3),
    max_leaves=8,
)


@dataclasses.dataclass(frozen=True)
class Pet:
    name: str
    age: int = 1


def read(form: object, value: object) -> tuple[object, list[str]]:
    faults: list[Fault] = []
    return read_value(form, value, "p", faults), [str(fault) for fault in faults]


def test_values_of_the_right_form_pass() -> None:
    assert read(float, 3) == (3.0, [])
    assert read(tuple[tuple[str, int], ...], [["a", 1]]) == ((("a", 1),), [])
    assert read(dict[str, str], {"a": "b"}) == ({"a": "b"}, [])
    assert read(Pet | None, None) == (None, [])
    assert read(Pet | None, {"name": "Rex"}) == (Pet("Rex"), [])


@pytest.mark.parametrize(
    ("form", "value", "fault"),
    [
        (int, 1.5, "p: is 1.5, must be a whole number"),
        (int, True, "p: is True, must be a whole number"),
        (float, float("inf"), "p: is inf, must be a finite number"),
        (float, False, "p: is False, must be a finite number"),
        (str, 1, "p: is 1, must be a text"),
        (bool, 1, "p: is 1, must be true or false"),
        (tuple[int, ...], 1, "p: is 1, must be a list"),
        (tuple[str, int], ["a"], "p: is ['a'], must be a list of 2 entries"),
        (dict[str, str], [], "p: is [], must be an object"),
        (Pet, 3, "p: is 3, must be an object"),
        (Pet, {"age": 2}, "p.name: is missing"),
        (Pet, {"name": "Rex", "legs": 4}, "p.legs: is not known"),
    ],
)
def test_a_value_of_another_form_is_one_fault(form: object, value: object, fault: str) -> None:
    assert read(form, value)[1] == [fault]


def test_a_long_value_is_cut_in_the_message() -> None:
    assert read(int, "x" * 100)[1] == [f"p: is '{'x' * 36}..., must be a whole number"]


def test_faults_that_follow_from_others_are_left_out() -> None:
    causes = [Fault("stages[1]", "")]
    later = [Fault("stages[1].axes", ""), Fault("stages", ""), Fault("stages[10].axes", ""), Fault("digest", "")]
    assert unless_caused(later, causes) == [Fault("stages[10].axes", ""), Fault("digest", "")]


def test_faults_are_counted_and_joined() -> None:
    assert listed([Fault("a", "is 1")]) == "1 fault: a: is 1"
    assert listed([Fault("a", "is 1"), Fault("b", "is 2")]) == "2 faults: a: is 1; b: is 2"


def test_a_record_can_be_made_without_its_own_checks() -> None:
    assert unchecked(Plan, {"batch_size": -1}).batch_size == -1
    assert unchecked(Plan, {}).microbatches == 1 and unchecked(Plan, {}).collectives == ()


@examples(5, 100)
@given(json_values)
def test_no_document_whatever_breaks_the_reader(value: object) -> None:
    faults: list[Fault] = []
    read_fields(Stage, value, "", faults)
    assert faults or (isinstance(value, dict) and set(value) == {"layers", "devices", "axes", "layouts"})
