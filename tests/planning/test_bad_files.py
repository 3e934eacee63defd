"""Profiles and plans that are damaged in one place or in several: each is refused, and every fault is named with its path."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.json_records import LISTED_UP_TO
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import cluster_of, pair_net, profile_of

Reader = Callable[[dict[str, Any]], Any]
Place = tuple[Any, ...]


def _document(made: Profile | Plan) -> dict[str, Any]:
    return json.loads(json.dumps(made.to_json()))  # type: ignore[no-any-return]


MEASURED = profile_of(pair_net(), [1e6, 3e5], latency_s=1e-6, bandwidth=1e9)
PROFILE = _document(MEASURED)
PLANNED = _document(plan(MEASURED))
GRID = _document(Plan.grid(pair_net(), [3, 1], [1, 1], cluster_of(4), 4))
READERS: dict[str, tuple[dict[str, Any], Reader]] = {
    "profile": (PROFILE, Profile.from_json),
    "plan": (PLANNED, Plan.from_json),
    "grid": (GRID, Plan.from_json),
}


def _leaves(document: Any, place: Place = ()) -> Iterator[Place]:
    """Yield where the document's numbers are; its version is the reader's of files."""
    for key, inner in document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ():
        here = (*place, key)
        if isinstance(inner, int | float) and not isinstance(inner, bool) and here != ("version",):
            yield here
        yield from _leaves(inner, here)


def _path(place: Place) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")


def _changed(document: dict[str, Any], *places: Place, value: Any) -> dict[str, Any]:
    """Return the document with a value at some places; only what leads there is copied."""
    changed = dict(document)
    for place in places:
        at: Any = changed
        for key in place[:-1]:
            at[key] = copy.copy(at[key])
            at = at[key]
        at[place[-1]] = value
    return changed


def _said(reader: Reader, document: dict[str, Any]) -> str:
    with pytest.raises(HeteroError) as caught:
        reader(document)
    said = str(caught.value)
    assert said.count("\n") == 0 and "; " in said
    return said


def _named(place: Place, said: str) -> bool:
    """Tell whether a fault lies at a place, or at a list or record that it is in."""
    own = place[1:] if place[0] in ("cluster", "graph") else place
    wholes = [_path(own[:length]) for length in range(len(own), 0, -1)]
    return any(f"{whole}: " in said or f"{whole} is " in said or f"{whole} has " in said for whole in wholes)


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -1, -1.5, 10**400, "1", None, [], {}], ids=repr)
def test_no_number_may_be_something_else(kind: str, value: Any) -> None:
    document, reader = READERS[kind]
    kept = []
    for place in _leaves(document):
        if value is None and place[-1] in ("step_s", "up_to_bytes", "shared_with"):
            continue  # may be left open
        said = _said(reader, _changed(document, place, value=value))
        if not _named(place, said) and "digest" not in said:
            kept.append((_path(place), said))
    assert not kept


def test_a_changed_attribute_of_a_layer_is_found_by_the_digest() -> None:
    said = _said(Profile.from_json, _changed(PROFILE, ("graph", "layers", 1, "attributes", "strides", 0), value=-1))
    assert "graph: the network description has digest " in said


@pytest.mark.parametrize(
    "places",
    [
        [("curves", 0, "seconds"), ("links", 0, "latency_s"), ("memory", 0, "free_bytes"), ("batch_size",), ("measured_at",)],
        [("curves", index, "seconds", 0) for index in range(10)],
        [
            ("graph", "layers", 1, "flops"),
            ("graph", "layers", 2, "output_shape", 0),
            ("cluster", "pools", 0, "free_bytes"),
            ("measured_at",),
        ],
        [("cluster", "devices", 0, "memory_bytes"), ("cluster", "devices", 1, "share"), ("curves", 3, "units", 0)],
    ],
)
def test_faults_of_a_profile_in_several_places_are_all_named(places: list[Place]) -> None:
    said = _said(Profile.from_json, _changed(PROFILE, *places, value=float("nan")))
    assert all(_named(place, said) for place in places), said


def test_faults_of_a_plan_in_several_places_are_all_named() -> None:
    places: list[Place] = [
        ("batch_size",),
        ("stages", 0, "layouts", 1, "sizes"),
        ("predicted", "step_s"),
        ("predicted", "parts", 0, "compute_s"),
        ("alternatives", 0, "step_s"),
    ]
    said = _said(Plan.from_json, _changed(PLANNED, *places, value=float("nan")))
    assert all(_named(place, said) for place in places), said


@pytest.mark.parametrize("kind", READERS)
def test_no_entry_may_be_missing_or_unknown_unless_it_has_a_default(kind: str) -> None:
    document, reader = READERS[kind]
    for key in set(document) - {"kind", "version"}:
        changed = copy.deepcopy(document)
        changed[f"{key}_"] = changed.pop(key)
        assert f"{key}_: is not known" in _said(reader, changed)


def test_a_device_that_is_missing_is_named_wherever_it_is_spoken_of() -> None:
    changed = copy.deepcopy(PROFILE)
    del changed["cluster"]["devices"][1]
    said = _said(Profile.from_json, changed)
    assert "links[0].destination: is 1, there are 1 devices" in said and "device: is 1, there are 1 devices" in said


@pytest.mark.slow
def test_very_many_faults_are_counted_and_the_first_thousand_named() -> None:
    many = {**PROFILE, "curves": [{}] * 20_000}
    said = _said(Profile.from_json, many)
    assert "curves[0].layer: is missing" in said and f"and {20_000 * 8 - LISTED_UP_TO} more" in said
    assert said.count(": is missing") == LISTED_UP_TO


@pytest.mark.parametrize("depth", [30, 400])
def test_attributes_nested_in_each_other_are_one_fault(depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    said = _said(Profile.from_json, _changed(PROFILE, ("graph", "layers", 1, "attributes", "strides"), value=nested))
    assert "layers[1].attributes.strides" in said and "is nested too deeply" in said
    assert "batch_size: is [[" in _said(Profile.from_json, _changed(PROFILE, ("batch_size",), value=nested))
