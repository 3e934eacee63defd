"""Reading a model's wiring: order, sources and names, for functional and sequential models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.keras_reading.wiring_reader import read_configuration

L = keras.layers


def _diamond() -> keras.Model:
    i = keras.Input((4,), name="in")
    a = L.Dense(3, name="a")(i)
    b = L.Dense(3, name="b")(a)
    return keras.Model(i, L.Dense(2, name="end")(L.Add(name="sum")([b, a, b])))


def test_layers_come_after_what_they_read_and_the_output_comes_last() -> None:
    nodes = read_wiring(_diamond()).nodes
    assert [node.name for node in nodes] == ["in", "a", "b", "sum", "end"]
    assert [node.inputs for node in nodes] == [(), (0,), (1,), (2, 1, 2), (3,)]
    assert [node.kind for node in nodes] == ["InputLayer", "Dense", "Dense", "Add", "Dense"]


def test_an_output_that_is_read_elsewhere_still_comes_last() -> None:
    i = keras.Input((4,))
    inner = L.Dense(3, name="inner")(i)
    L.Dense(3, name="unused")(inner)
    assert [node.name for node in read_wiring(keras.Model(i, inner)).nodes][-1] == "inner"


def test_a_sequential_model_reads_as_the_functional_one() -> None:
    stack = keras.Sequential([keras.Input((4,)), L.Dense(3), L.ReLU(), L.Dense(2)])
    i = keras.Input((4,))
    chain = keras.Model(i, L.Dense(2)(L.ReLU()(L.Dense(3)(i))))
    assert layer_graph(stack).digest == layer_graph(chain).digest


def test_a_sequential_model_may_learn_its_shape_from_data() -> None:
    model = keras.Sequential([L.Dense(3), L.Dense(2)])
    model(np.zeros((1, 4), "float32"))
    i = keras.Input((4,))
    assert layer_graph(model).digest == layer_graph(keras.Model(i, L.Dense(2)(L.Dense(3)(i)))).digest


def test_clones_and_rebuilt_copies_have_one_digest_and_other_structures_another() -> None:
    digest = layer_graph(_diamond()).digest
    assert layer_graph(_diamond()).digest == layer_graph(keras.models.clone_model(_diamond())).digest == digest
    frozen = _diamond()
    frozen.get_layer("a").trainable = False
    assert layer_graph(frozen).digest != digest


def test_models_with_one_input_and_output_in_any_packing_are_read() -> None:
    i = keras.Input((4,), name="in")
    out = L.Dense(2, name="out")(i)
    packings: list[Any] = [(i, out), ([i], [out]), ({"in": i}, {"out": out}), ([i], out)]
    assert {layer_graph(keras.Model(a, b)).digest for a, b in packings} == {layer_graph(keras.Model(i, out)).digest}


def _siamese() -> keras.Model:
    """Two calls of one encoder, in which a layer is called twice."""
    inner = keras.Sequential([keras.Input((4,)), L.Dense(4, name="d"), L.BatchNormalization(name="n")], name="stack")
    i = keras.Input((4,))
    encoder = keras.Model(i, inner(inner(i)), name="encoder")
    a, b = keras.Input((4,), name="late"), keras.Input((4,), name="early")
    joined = L.Concatenate(name="join")([encoder(a), encoder(b)])
    return keras.Model([a, b], joined)


def test_nested_models_are_opened_up_and_every_call_of_a_layer_has_its_own_name_and_the_first_calls_variables() -> None:
    nodes = read_wiring(_siamese()).nodes
    names = [node.name for node in nodes]
    path, norm = "encoder/stack/d", "encoder/stack/n"
    assert names[:2] == ["late", "early"] and names[-1] == "join"
    assert names[2:10] == [path, norm, f"{path}:2", f"{norm}:2", f"{path}:3", f"{norm}:3", f"{path}:4", f"{norm}:4"]
    assert [node.inputs for node in nodes[2:]] == [(0,), (2,), (3,), (4,), (1,), (6,), (7,), (8,), (5, 9)]
    graph = layer_graph(_siamese())
    assert [layer.shared_with for layer in graph.layers] == [None, None, None, None, 2, 3, 2, 3, 2, 3, None]
    assert all(graph.layers[i].variables == graph.layers[graph.owner(i)].variables for i in range(len(graph.layers)))


def test_a_layer_without_variables_that_is_called_twice_is_as_good_as_two() -> None:
    def build(shared: bool) -> keras.Model:
        i = keras.Input((4,))
        relu = L.ReLU()
        return keras.Model(i, (relu if shared else L.ReLU())(L.Dense(3)(relu(i))))

    assert layer_graph(build(True)).digest == layer_graph(build(False)).digest


def test_sharing_is_part_of_the_structure() -> None:
    def build(shared: bool) -> keras.Model:
        i = keras.Input((4,))
        dense = L.Dense(4)
        return keras.Model(i, (dense if shared else L.Dense(4))(dense(i)))

    assert layer_graph(build(True)).digest != layer_graph(build(False)).digest


def test_one_layer_in_two_models_is_shared() -> None:
    dense = L.Dense(4, name="both")
    j, i = keras.Input((4,)), keras.Input((4,))
    inner = keras.Model(j, dense(j), name="inner")
    graph = layer_graph(keras.Model(i, inner(dense(i))))
    assert [(layer.name, layer.shared_with) for layer in graph.layers[1:]] == [("both", None), ("inner/both", 1)]


def test_inputs_come_first_in_the_models_order_and_outputs_are_as_the_model_packs_them() -> None:
    a, b, unused = keras.Input((4,), name="a"), keras.Input((3,), name="b"), keras.Input((2,), name="unused")
    deep = L.Dense(3, name="deep")(L.Dense(3)(a))
    end = L.Add(name="end")([deep, b])
    packed = {"z": [end, deep], "a": b, "twice": end}
    wiring = read_wiring(keras.Model([unused, b, a], packed))
    assert [node.name for node in wiring.nodes[:3]] == ["unused", "b", "a"]
    names = [wiring.nodes[i].name for i in wiring.outputs]
    assert names == ["b", "end", "end", "deep"]
    assert wiring.input_structure.names == ("unused", "b", "a")
    assert wiring.output_structure.pack(names) == {"z": ["end", "deep"], "a": "b", "twice": "end"}


def test_a_nested_model_takes_and_gives_dicts_by_name() -> None:
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    sides = {"right": L.Dense(2, name="r")(right), "left": L.Dense(2, name="l")(left)}
    inner = keras.Model({"right": right, "left": left}, sides, name="inner")
    i = keras.Input((4,), name="i")
    first = L.Dense(4, name="first")(i)
    given = inner({"left": first, "right": i})
    nodes = read_wiring(keras.Model(i, L.Subtract(name="end")([given["right"], given["left"]]))).nodes
    place = {node.name: index for index, node in enumerate(nodes)}
    assert nodes[place["inner/r"]].inputs == (place["i"],) and nodes[place["inner/l"]].inputs == (place["first"],)
    assert nodes[place["end"]].inputs == (place["inner/r"], place["inner/l"])


def _kinds_of_models() -> list[keras.Model]:
    i = keras.Input((4,))
    shared = L.Dense(4, name="shared")
    deep = L.Dense(4)(L.Dense(4)(i))
    skewed = keras.Model(i, [shared(deep), L.Add()([shared(i), shared(L.ReLU()(i))]), deep])
    return [_diamond(), _siamese(), skewed]


@pytest.mark.fast("0")
@pytest.mark.parametrize("which", range(3))
def test_calls_come_in_the_order_in_which_keras_runs_them(which: int) -> None:
    model = _kinds_of_models()[which]
    expected = [
        node.operation.name for depth in sorted(model._nodes_by_depth, reverse=True) for node in model._nodes_by_depth[depth]
        if not node.is_input
    ]  # fmt: skip
    found = [node.name.split("/")[0].split(":")[0] for node in read_wiring(model).nodes if node.inputs]
    assert [name for at, name in enumerate(found) if name != "encoder" or not (at % 4)] == expected


@pytest.mark.slow
def test_clones_of_shared_and_nested_models_have_one_digest() -> None:
    for model in _kinds_of_models():
        for options in ({}, {"recursive": True}):
            assert layer_graph(keras.models.clone_model(model, **options)).digest == layer_graph(model).digest


def test_functional_models_may_stand_in_sequential_ones_and_be_called_with_a_list_of_one() -> None:
    i, j = keras.Input((4,)), keras.Input((4,))
    inner = keras.Model(j, L.Dense(4, name="d")(j), name="inner")
    stack = keras.Sequential([keras.Input((4,)), inner, L.Dense(2, name="end")])
    assert [node.name for node in read_wiring(stack).nodes][1:] == ["inner/d", "end"]
    assert read_wiring(keras.Model(i, inner([i]))).nodes[1].inputs == (0,)


def test_a_nested_model_that_is_called_with_more_than_it_takes_is_read_by_name_or_refused() -> None:
    def build(packing: type, more: str = "c") -> keras.Model:
        a, b, i, j = (keras.Input((4,), name=name) for name in "abij")
        ends = {"a": a, "b": b}
        inner = keras.Model(ends if packing is dict else [b, a], L.Subtract(name="end")([a, b]), name="inner")
        return keras.Model([i, j], inner({more: i, "b": i, "a": j}))

    assert read_wiring(build(list)).nodes[-1].inputs == read_wiring(build(dict)).nodes[-1].inputs == (1, 0)
    with pytest.raises(UnsupportedError, match="what the nested model inner is called with is a dict of .*, the model has 2 values a, b"):
        read_wiring(build(dict, "0"))  # which Keras takes for the first of the two


class _Own(keras.Model):
    """Of a class of one's own."""


def test_a_nested_model_of_the_users_own_is_opened_where_it_inherits_its_call() -> None:
    i, j = keras.Input((4,)), keras.Input((4,))
    own = _Own(j, L.Dense(2, name="inner")(j), name="odd")
    assert [layer.name for layer in layer_graph(keras.Model(i, own(i))).layers][1:] == ["odd/inner"]


def _entry(name: str, *sources: str) -> dict[str, Any]:
    tensors = [{"class_name": "__keras_tensor__", "config": {"keras_history": [source, 0, 0]}} for source in sources]
    return {"name": name, "class_name": "Add", "module": "keras.layers", "config": {"name": name}, "inbound_nodes": [{"args": [tensors]}]}


def _ends(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"layers": list(entries), "input_layers": [["a", 0, 0]], "output_layers": [["z", 0, 0]]}


@pytest.mark.parametrize(
    "config, words",
    [
        (_ends(_entry("a"), _entry("z", "y"), _entry("y", "z")), "read each other in a circle; a network must be acyclic"),
        (_ends(_entry("a"), _entry("z")), "layer z is read and reads nothing itself; connect it to an input"),
    ],
)
def test_a_description_that_makes_no_network_is_refused(config: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        read_configuration(config)


def test_a_layer_with_several_outputs_is_refused() -> None:
    entry = _entry("z", "a")
    entry["inbound_nodes"][0]["args"][0][0]["config"]["keras_history"][2] = 1
    with pytest.raises(UnsupportedError, match="output 1 of layer a is read; only layers with one output are supported"):
        read_configuration(_ends(_entry("a"), entry))


@pytest.mark.filterwarnings("ignore:Layer 'functional.*was passed an input with a mask")  # Keras's loss sees it nonetheless
def test_a_nested_model_that_is_called_with_a_mask_and_hands_on_one_of_its_own() -> None:
    class Both(keras.layers.Layer):
        supports_masking = True

        def call(self, x: Any, other: Any) -> Any:
            return x + keras.ops.mean(other, 1, keepdims=True)

    words, state = keras.Input((5,), dtype="int32"), keras.Input((5, 4))
    inner = keras.Model([words, state], Both()(keras.layers.Embedding(9, 4, mask_zero=True)(words), state))
    first, second = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    model = keras.Model([first, second], inner([second, keras.layers.Embedding(9, 4, mask_zero=True)(first)]))
    wiring = read_wiring(model)
    by_name = {node.name: node for node in wiring.nodes}
    output = wiring.nodes[wiring.outputs[0]]
    masks = [wiring.nodes[index] for index in output.inputs[1:]]
    assert output.name.endswith("[masked]")
    assert [wiring.nodes[index].name for index in masks[0].inputs] == [model.inputs[1]._keras_history.operation.name]
    assert sum("not_equal" in name for name in by_name) == 2
