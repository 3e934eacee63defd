"""The extension of the site moves annotations into the lists of parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

from docs.parameter_types import annotations_of, with_types


@dataclasses.dataclass
class Record:
    size: int
    name: str = ""


def function(path: str, options: Any, *, count: int = 1) -> None: ...


def test_types_come_from_annotations_and_stand_above_the_meaning() -> None:
    lines = [
        "Do it.",
        "",
        "Parameters",
        "----------",
        "path, other : two files.",
        "    More.",
        "count : (*n) how many.",
        "",
        "Notes",
        "-----",
    ]
    assert with_types([*lines, "path : no parameter"], {"path": "str", "count": "int"}) == [
        *("Do it.", "", "Parameters", "----------"),
        *("path, other : str", "    two files.", "    More.", "count : int", "    (\\*n) how many.", ""),
        *("Notes", "-----", "path : no parameter"),
    ]


def test_annotations_are_those_of_a_signature_or_of_fields_and_any_is_left_out() -> None:
    assert annotations_of(function) == {"path": "str", "count": "int"}
    assert annotations_of(Record) == {"size": "int", "name": "str"}
    assert annotations_of(3) == {}
