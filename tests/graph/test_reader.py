"""Reading a model's wiring: order, sources and names, for functional and sequential models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.reader import read_nodes
from hetero_mtf.layers import layer_graph

L = keras.layers


def _diamond() -> keras.Model:
    i = keras.Input((4,), name="in")
    a = L.Dense(3, name="a")(i)
    b = L.Dense(3, name="b")(a)
    return keras.Model(i, L.Dense(2, name="end")(L.Add(name="sum")([b, a, b])))


def test_layers_come_after_what_they_read_and_the_output_comes_last() -> None:
    nodes = read_nodes(_diamond())
    assert [node.name for node in nodes] == ["in", "a", "b", "sum", "end"]
    assert [node.inputs for node in nodes] == [(), (0,), (1,), (2, 1, 2), (3,)]
    assert [node.kind for node in nodes] == ["InputLayer", "Dense", "Dense", "Add", "Dense"]


def test_an_output_that_is_read_elsewhere_still_comes_last() -> None:
    i = keras.Input((4,))
    inner = L.Dense(3, name="inner")(i)
    L.Dense(3, name="unused")(inner)
    assert [node.name for node in read_nodes(keras.Model(i, inner))][-1] == "inner"


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


class _Fake:
    """Stands for a model of Keras with any description."""

    __module__ = "keras.fake"

    def __init__(self, config: Any) -> None:
        self.config = config

    def get_config(self) -> Any:
        return self.config


def _entry(name: str, *sources: str) -> dict[str, Any]:
    tensors = [{"class_name": "__keras_tensor__", "config": {"keras_history": [source, 0, 0]}} for source in sources]
    return {"name": name, "class_name": "Add", "module": "keras.layers", "config": {"name": name}, "inbound_nodes": [{"args": [tensors]}]}


def _ends(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"layers": list(entries), "input_layers": [["a", 0, 0]], "output_layers": [["z", 0, 0]]}


@pytest.mark.parametrize(
    "config, words",
    [
        (3, "does not list its layers; build it as a functional or sequential"),
        (_ends(_entry("a"), _entry("z", "y"), _entry("y", "z")), "read each other in a circle; a network must be acyclic"),
        (_ends(_entry("a"), _entry("z")), "the output does not depend on input a; connect them"),
    ],
)
def test_a_description_that_makes_no_network_is_refused(config: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        read_nodes(_Fake(config))


def test_a_layer_with_several_outputs_is_refused() -> None:
    entry = _entry("z", "a")
    entry["inbound_nodes"][0]["args"][0][0]["config"]["keras_history"][2] = 1
    with pytest.raises(UnsupportedError, match="layer z reads output 1 of layer a; only layers with one output are supported"):
        read_nodes(_Fake(_ends(_entry("a"), entry)))


def test_a_model_that_cannot_describe_itself_is_refused() -> None:
    class Mute(_Fake):
        __module__ = "keras.fake"

        def get_config(self) -> Any:
            raise NotImplementedError

    with pytest.raises(
        UnsupportedError, match=r"Mute is not a Keras functional or sequential model \(NotImplementedError\); build it from keras.Input"
    ):
        read_nodes(Mute(None))
