from __future__ import annotations

import json
from typing import Any

import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.graph.description import description_faults
from hetero_mtf.graph.records import LayerGraph
from tests.planning.networks import residual_net

GRAPH = residual_net()


def spoilt(**changes: Any) -> dict[str, Any]:
    """Return the description of a network whose second layer is changed; a value `...` leaves the entry out."""
    document: dict[str, Any] = json.loads(json.dumps(GRAPH.to_json()))
    layer = document["layers"][1]
    layer.update(changes)
    document["layers"][1] = {key: value for key, value in layer.items() if value is not ...}
    return document


def test_a_whole_description_has_no_fault() -> None:
    assert description_faults(GRAPH.to_json()) == description_faults(spoilt()) == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"name": 3}, "layers[1].name is 3, must be a text"),
        ({"kind": ...}, "layers[1].kind is missing"),
        ({"attributes": []}, "layers[1].attributes is [], must be an object"),
        ({"attributes": {"rate": [1, float("nan")]}}, "layers[1].attributes.rate[1] is nan, must be a finite number"),
        ({"attributes": {"a": {"b": 10**400}}}, f"layers[1].attributes.a.b is 1{'0' * 36}..., must be a finite number"),
        ({"inputs": [1]}, "layers[1].inputs[0] is 1, must be from 0 to 0"),
        ({"inputs": 0}, "layers[1].inputs is 0, must be a list"),
        ({"output_shape": [9, -9, 8]}, "layers[1].output_shape[1] is -9, must be at least 1"),
        ({"output_shape": [9, True, 8]}, "layers[1].output_shape[1] is True, must be at least 1"),
        ({"variables": {}}, "layers[1].variables is {}, must be a list"),
        ({"variables": [7]}, "layers[1].variables[0] is 7, must be an object"),
        ({"variables": [{"name": "kernel", "shape": [3], "trainable": 1}]}, "layers[1].variables[0].trainable is 1, must be true or false"),
        ({"variables": [{"name": "kernel", "trainable": True}]}, "layers[1].variables[0].shape is missing"),
        ({"variables": [{"name": "k", "shape": [-3], "trainable": True}]}, "layers[1].variables[0].shape[0] is -3, must be at least 1"),
        ({"flops": -1.0}, "layers[1].flops is -1.0, must be a number of zero or more"),
        ({"flops": "many"}, "layers[1].flops is 'many', must be a number of zero or more"),
        ({"shared_with": 1}, "layers[1].shared_with is 1, must be an earlier layer or null"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_path(changes: dict[str, Any], fault: str) -> None:
    assert description_faults(spoilt(**changes)) == [fault]


@pytest.mark.parametrize("document", [None, [], 3, "text"])
def test_what_is_no_object_is_one_fault(document: Any) -> None:
    assert description_faults(document) == [f"it is {document!r}, must be an object"]


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("dtype", "int8", "dtype is 'int8', must be one of float32, float64"),
        ("digest", 3, "digest is 3, must be a text"),
        ("layers", [], "layers is [], must be a list of at least one"),
        ("layers", 3, "layers is 3, must be a list of at least one"),
        ("outputs", [99], "outputs[0] is 99, must be from 0 to 9"),
        ("outputs", None, "outputs is None, must be a list"),
    ],
)
def test_what_is_wrong_beside_the_layers_is_named_too(key: str, value: Any, fault: str) -> None:
    assert description_faults({**spoilt(), key: value})[0].startswith(fault)


def test_all_faults_are_named_at_once_and_of_very_many_the_first() -> None:
    with pytest.raises(
        HeteroError, match=r"damaged: dtype is missing, layers\[1\].flops is nan, .*, outputs\[0\] is 99, .*; calibrate again"
    ):
        document = {**spoilt(flops=float("nan")), "outputs": [99]}
        del document["dtype"]
        LayerGraph.from_json(document)
    with pytest.raises(HeteroError, match="and 800 more; calibrate again"):
        LayerGraph.from_json({**spoilt(), "layers": [None] * 1000})
