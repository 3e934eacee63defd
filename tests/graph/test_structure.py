"""Structures: values packed in any way that Keras takes come out in one order, others are refused with what to give."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from hetero_mtf.errors import DataError, UnsupportedError
from hetero_mtf.graph.structure import Structure, leaves_of, map_leaves

NESTED = {"z": ["p", {"y": "q", "x": "r"}], "a": "s"}


def test_a_nested_structure_packs_what_it_flattens_in_keras_order() -> None:
    keras = pytest.importorskip("keras")
    structure = Structure.of(NESTED)
    value = {"a": 1, "z": (2, {"x": 3, "y": 4})}
    assert structure.flatten(value, "y") == (1, 2, 3, 4) == tuple(keras.tree.flatten(value))
    assert structure.pack([1, 2, 3, 4]) == {"z": [2, {"y": 4, "x": 3}], "a": 1}
    assert list(structure.pack([1, 2, 3, 4])) == ["z", "a"]
    assert structure.names == ("s", "p", "r", "q") and structure.count == 4
    assert structure.paths() == (("a",), ("z", 0), ("z", 1, "x"), ("z", 1, "y"))


def test_an_ordered_dict_keeps_its_order_as_in_keras() -> None:
    ordered = collections.OrderedDict([("b", "1"), ("a", "2")])
    assert Structure.of(ordered).names == ("b", "a") and leaves_of(ordered) == ["1", "2"]
    assert list(map_leaves(ordered, str.lower)) == ["b", "a"]


@pytest.mark.parametrize("names", ["out", ["out"], ("out",)])
def test_a_list_of_one_stands_for_its_only_entry(names: Any) -> None:
    structure = Structure.of(names)
    assert structure.alone and structure.pack([7]) == 7
    assert structure.flatten(7, "y") == structure.flatten({"out": 7}, "y") == (7,)
    assert structure.flatten([1, 2], "y") == ([1, 2],)


def test_a_dict_of_one_stays_a_dict() -> None:
    structure = Structure.of({"out": "layer"})
    assert not structure.alone and structure.names == ("out",) and structure.pack([7]) == {"out": 7}
    assert structure.flatten(7, "y") == structure.flatten({"out": 7}, "y") == structure.flatten([7], "y") == (7,)


@pytest.mark.parametrize(
    "names, value, expected",
    [
        (["a", "b"], [1, 2], (1, 2)),
        (["a", "b"], (1, 2), (1, 2)),
        (["a", "b"], {"b": 2, "a": 1}, (1, 2)),
        ({"a": "x", "b": "y"}, {"b": 2, "a": 1}, (1, 2)),
        ({"a": "x", "b": "y"}, [1, 2], (1, 2)),
        ({"a": "s", "z": ["p", "q"]}, [1, 2, 3], (1, 2, 3)),
        (["a", "b"], [None, 2], (None, 2)),
    ],
)
def test_values_may_be_packed_by_place_or_by_name(names: Any, value: Any, expected: tuple[int, ...]) -> None:
    assert Structure.of(names).flatten(value, "x") == expected


@pytest.mark.parametrize(
    "names, value, words",
    [
        (["a", "b"], 1, "x is one int, the model has 2 values a, b; give a list of 2, or a dict {'a': ..., 'b': ...}"),
        (["a", "b"], [1, 2, 3], "x is a list of 3, the model has 2 values a, b; give a list of 2"),
        (["a", "b"], {"a": 1, "c": 2}, "x is a dict of a, c, the model has 2 values a, b; give"),
        (["a", "b"], {"a": 1, "b": 2, "c": 3}, "x is a dict of a, b, c, the model has 2 values a, b; give"),
        (["a", "a"], {"a": 1}, "x is a dict of a, the model has 2 values a, a"),
        ({"a": "x", "b": "y"}, {"a": 1}, "x is a dict of a, the model has 2 values a, b; give a dict {'a': ..., 'b': ...}"),
        ({"a": "x", "b": "y"}, {"a": 1, "b": 2, "c": 3}, "x is a dict of a, b, c, the model has"),
        ({"b": "x", "a": "y"}, [1, 2], "x is a list of 2, the model has 2 values a, b; give a dict"),
        (["a", ["b", "c"]], 1, "x is one int, the model has 3 values a, b, c; give them packed as ['a', ['b', 'c']]"),
        ("out", {"in": 1}, "x is a dict of in, the model has one value out; give it alone, or {'out': ...}"),
        ("out", {}, "x is a dict of nothing, the model has one value out"),
    ],
)
def test_values_packed_in_another_way_are_refused(names: Any, value: Any, words: str) -> None:
    with pytest.raises(DataError) as caught:
        Structure.of(names).flatten(value, "x")
    assert words in str(caught.value)


def test_a_dict_by_name_may_hold_more_where_that_is_said() -> None:
    assert Structure.of(["a", "b"]).flatten({"a": 1, "b": 2, "c": 3}, "x", spare=True) == (1, 2)


def test_the_error_may_be_of_another_kind() -> None:
    with pytest.raises(UnsupportedError, match="loss is one int"):
        Structure.of(["a", "b"]).flatten(3, "loss", UnsupportedError)
