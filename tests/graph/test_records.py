"""LayerGraph: structure named by a digest, JSON that comes back equal, damage refused."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.graph.records import Layer, LayerGraph, Variable

GRAPH = LayerGraph(
    (
        Layer("image", "InputLayer", {"shape": [4, 4, 3]}, (), (4, 4, 3)),
        Layer("conv", "Conv2D", {"filters": 5}, (0,), (4, 4, 5), (Variable("kernel", (3, 3, 3, 5), True),), 100.0),
        Layer("twice", "Add", {}, (1, 1), (4, 4, 5)),
    ),
    "float32",
)


def test_a_graph_comes_back_equal_from_json() -> None:
    document = json.loads(json.dumps(GRAPH.to_json()))
    found = LayerGraph.from_json(document)
    assert found == GRAPH and found.digest == GRAPH.digest


def test_names_do_not_enter_the_digest_and_structure_does() -> None:
    def changed(**values: Any) -> LayerGraph:
        return dataclasses.replace(GRAPH, layers=(GRAPH.layers[0], dataclasses.replace(GRAPH.layers[1], **values), GRAPH.layers[2]))

    assert changed(name="other").digest == GRAPH.digest
    assert len(GRAPH.digest) == 12
    others = [
        changed(kind="Dense"),
        changed(attributes={"filters": 6}),
        changed(variables=(Variable("kernel", (3, 3, 3, 5), False),)),
        changed(output_shape=(4, 4, 6)),
        dataclasses.replace(GRAPH, dtype="float64"),
        dataclasses.replace(GRAPH, layers=GRAPH.layers[:2], outputs=()),
    ]
    assert len({graph.digest for graph in [GRAPH, *others]}) == 1 + len(others)


def test_readers_sizes_and_units_follow_from_the_layers() -> None:
    assert GRAPH.readers == ((1,), (2,), ())
    assert GRAPH.layers[1].variables[0].size == 135 and GRAPH.layers[1].units == 5
    assert GRAPH.item_bytes == 4 and dataclasses.replace(GRAPH, dtype="float64").item_bytes == 8


@pytest.mark.parametrize("inputs", [(1,), (2,), (-1,)])
def test_a_layer_that_reads_what_comes_later_is_refused(inputs: tuple[int, ...]) -> None:
    with pytest.raises(HeteroError, match=r"layer conv reads layers \(.*\), which do not all come before it; sort the layers"):
        LayerGraph((GRAPH.layers[0], dataclasses.replace(GRAPH.layers[1], inputs=inputs)), "float32")


SHARED = LayerGraph((*GRAPH.layers[:2], dataclasses.replace(GRAPH.layers[1], name="conv:2", shared_with=1)), "float64", (2, 0, 1))


def test_shared_layers_and_outputs_come_back_from_json_and_enter_the_digest() -> None:
    document = json.loads(json.dumps(SHARED.to_json()))
    assert LayerGraph.from_json(document) == SHARED
    assert [SHARED.owner(index) for index in range(3)] == [0, 1, 1]
    assert SHARED.outputs == (2, 0, 1) and SHARED.inputs == (0,) and GRAPH.outputs == (2,)
    apart = dataclasses.replace(SHARED, layers=(*SHARED.layers[:2], dataclasses.replace(SHARED.layers[2], shared_with=None)))
    assert len({SHARED.digest, apart.digest, dataclasses.replace(SHARED, outputs=(0, 2, 1)).digest}) == 3


@pytest.mark.parametrize("changes", [{"shared_with": 2}, {"shared_with": -1}, {"shared_with": 0}, {"variables": ()}, {"kind": "Conv3D"}])
def test_a_layer_that_is_shared_with_what_cannot_hold_its_variables_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(HeteroError, match=r"layer conv:2 is shared with layer .*, which is no earlier first call with the same variables"):
        dataclasses.replace(SHARED, layers=(*SHARED.layers[:2], dataclasses.replace(SHARED.layers[2], **changes)))


@pytest.mark.parametrize("outputs", [(3,), (0, -1)])
def test_outputs_that_are_no_layers_are_refused(outputs: tuple[int, ...]) -> None:
    with pytest.raises(HeteroError, match=r"the outputs are layers \(.*\) of 3; give indices of layers"):
        dataclasses.replace(SHARED, outputs=outputs)


def _damaged(*path: Any, value: Any = None) -> dict[str, Any]:
    document: Any = copy.deepcopy(json.loads(json.dumps(GRAPH.to_json())))
    at = document
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return document  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "document",
    [
        _damaged("layers"), _damaged("dtype"), _damaged("digest"), _damaged("dtype", value="float16"), _damaged("layers", value=3),
        _damaged("layers", 1, "kind"), _damaged("layers", 1, "output_shape", value="four"), _damaged("layers", 1, "variables", 0, "shape"),
        _damaged("layers", 1, "flops", value="many"), _damaged("layers", 1, "inputs", value=[7]),
        _damaged("layers", 1, "flops", value=10**400), _damaged("layers", 1, "output_shape", value=[float("inf")]),
    ],
)  # fmt: skip
def test_a_damaged_description_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(HeteroError, match="the network description is damaged|do not all come before it"):
        LayerGraph.from_json(document)


def test_a_description_that_does_not_fit_its_digest_is_refused() -> None:
    with pytest.raises(HeteroError, match="the network description has digest .* and its file .*; calibrate again"):
        LayerGraph.from_json(_damaged("layers", 1, "flops", value=7))
