"""Structures from files: what a trained network says is built again, and whatever names code is refused before Keras sees it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest

from hetero_mtf.errors import CheckpointError
from hetero_mtf.keras_reading import wiring_reader
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.training.checkpoint import State
from hetero_mtf.training.keras_configuration import DEEPEST, check_configuration, configuration_of, model_of
from hetero_mtf.training.keras_side import read_weights
from models import digits, resattnet3d

layers = keras.layers


def _net() -> Any:
    """A model with a nested one, an own layer's neighbours, and options that are objects."""
    regularizer, constant = keras.regularizers.L2(0.1), keras.initializers.Constant(0.5)
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="relu", kernel_regularizer=regularizer)], name="inner")
    inputs = keras.Input((4,), name="inputs")
    first = layers.Dense(4, kernel_initializer=constant, name="first")(inputs)
    model = keras.Model(inputs, layers.Add(name="sum")([inner(inputs), inner(first)]))
    model.compile("adam", "mse")
    return model


def _state(model: Any, **more: Any) -> State:
    graph = layer_graph(model)
    return State(graph.digest, "SGD", {**read_weights(model, graph), **more}, 0, 0)


NET = {"the nested one": _net, "digits": digits.wide_digits, "3-D": lambda: resattnet3d.resattnet18(size=16, width=4)}


@pytest.mark.few(2)
@pytest.mark.parametrize("make", NET.values(), ids=NET)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_a_network_says_is_built_again_as_the_same_network(make: Callable[[], Any], dtype: str) -> None:
    keras.config.set_floatx(dtype)
    model = make()
    graph = layer_graph(model)
    document = json.loads(json.dumps(configuration_of(model)))
    keras.config.set_floatx("float32")
    again, found = model_of(document, "f", _state(model), graph.digest)
    assert found == graph and found.dtype == dtype and [w.shape for w in again.weights] == [w.shape for w in model.weights]


class _Watch:
    """Fails if Keras looks up any class or function."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.asked: list[Any] = []
        patch.setattr(keras.saving, "deserialize_keras_object", lambda *asked, **options: self.asked.append(asked))


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keras is not asked for anything in this test."""
    watch = _Watch(monkeypatch)
    yield
    assert not watch.asked


def _entry(module: str | None, name: str, config: Any = None, **more: Any) -> dict[str, Any]:
    return {"module": module, "class_name": name, "config": {} if config is None else config, "registered_name": None, **more}


FOREIGN = {
    "os": _entry("os", "system", "true"),
    "builtins": _entry("builtins", "eval", "1"),
    "a function of os": _entry("os", "function", "system"),
    "a function that fetches files": _entry("keras.utils", "function", "get_file", registered_name="get_file"),
    "get_file as a class": _entry("keras.utils", "get_file", {"origin": "http://localhost/x"}),
    "an inner function of Keras": _entry("keras.src.utils.file_utils", "get_file"),
    "a loader of models": _entry("keras.models", "load_model", {"filepath": "x.keras"}),
    "a loader that looks like a layer": _entry("keras.layers", "deserialize"),
    "any function of Keras": _entry("builtins", "function", "relu", registered_name="relu"),
    "a Lambda": _entry("keras.layers", "Lambda", {"function": {"class_name": "__lambda__", "config": {"value": "4wAA"}}}),
    "lambda code": {"class_name": "__lambda__", "config": {"value": "4wAA"}},
    "a saved TensorFlow model": _entry("keras.layers", "TFSMLayer", {"filepath": "/tmp/x"}),
    "a Torch module": _entry("keras.layers", "TorchModuleWrapper", {"module": "4wAA"}),
    "a JAX function": _entry("keras.layers", "JaxLayer", {}),
    "a Flax module": _entry("keras.layers", "FlaxLayer", {}),
    "a layer that reads a file": _entry("keras.layers", "StringLookup", {"vocabulary": "/etc/passwd"}),
    "a wrapper": _entry("keras.layers", "TimeDistributed", {"layer": _entry("keras.layers", "Dense", {"units": 1})}),
    "a model of another class": _entry("keras.src.models.cloning", "Functional", {"layers": []}),
    "a dtype policy that maps": _entry("keras.dtype_policies", "DTypePolicyMap"),
    "a constraint": _entry("keras.constraints", "NonNeg"),
    "an optimizer": _entry("keras.optimizers", "SGD"),
    "a registered name": _entry("keras.layers", "Dense", {"units": 1}, registered_name="mine>Gain"),
    "a module that is a list": {**_entry(None, "Dense"), "module": ["keras.layers"]},
    "a class that is a number": {**_entry("keras.layers", "Dense"), "class_name": 3},
    "no module": {"class_name": "Dense", "config": {"units": 1}},
    "no configuration": {"class_name": "Dense", "module": "keras.layers"},
    "a text as configuration": _entry("keras.layers", "Dense", "config"),
    "a shared object": _entry("keras.layers", "Dense", {"units": 1}, shared_object_id=3),
    "a type of TensorFlow": _entry("tensorflow", "__typespec__", [], spec_name="x"),
    "what is compiled": _entry("keras.layers", "Dense", {"units": 1}, compile_config={"loss": "mse"}),
    "an array of objects": {"class_name": "__numpy__", "config": {"value": ["x"], "dtype": "object"}},
    "an array with more": {"class_name": "__numpy__", "config": {"value": [1], "dtype": "float32"}, "module": "os"},
    "a tensor of texts": {"class_name": "__tensor__", "config": {"value": ["x"], "dtype": "float32"}},
    "bytes": {"class_name": "__bytes__", "config": {"value": "x"}},
    "a registered name alone": {"registered_name": "mine>Gain"},
    "infinity": float("inf"),
    "a name that code registered": "mine>registered",
}
PLACES = {
    "as a layer": ("config", "layers", 1),
    "in a nested model": ("config", "layers", 2, "config", "layers", 1),
    "as an initializer": ("config", "layers", 1, "config", "kernel_initializer"),
    "as an activation of a nested layer": ("config", "layers", 2, "config", "layers", 1, "config", "activation"),
    "as a regularizer": ("config", "layers", 1, "config", "bias_regularizer"),
    "as a constraint": ("config", "layers", 1, "config", "kernel_constraint"),
    "as a dtype": ("config", "layers", 1, "config", "dtype"),
    "as an argument of a call": ("config", "layers", 1, "inbound_nodes", 0, "kwargs", "training"),
    "in an initializer": ("config", "layers", 1, "config", "kernel_initializer", "config", "value"),
    "in how a layer is built": ("config", "layers", 1, "build_config", "input_shape"),
}


INNER_UNITS = ("config", "layers", 2, "config", "layers", 1, "config", "units")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The configuration of the network with a nested one."""
    found = configuration_of(_net())
    assert found is not None
    return found


def _put(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    inner: Any = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return changed


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("foreign", FOREIGN.values(), ids=FOREIGN)
def test_whatever_names_code_is_refused_unseen(
    foreign: Any, place: tuple[Any, ...], document: dict[str, Any], untouched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(keras.saving.get_custom_objects(), "mine>registered", object)
    words = "^data.json (names|holds) .* in structure.*; name the model's function with --model"
    with pytest.raises(CheckpointError, match=words) as caught:
        check_configuration(_put(document, place, foreign), "data.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("foreign", [*FOREIGN.values(), None, [], "Functional", 3], ids=str)
def test_what_is_no_model_is_refused_unseen(foreign: Any, untouched: None) -> None:
    with pytest.raises(CheckpointError, match="as its network, which is no Keras model; name"):
        check_configuration(foreign, "data.json")


def test_a_class_that_the_users_code_registers_as_a_layer_is_not_taken_from_a_file(document: dict[str, Any], untouched: None) -> None:
    entry = _entry("tests", "Gain", {"power": 1}, registered_name="mine>Gain")
    with pytest.raises(CheckpointError, match=r"names 'tests.Gain' in structure.config.layers\[1\]"):
        check_configuration(_put(document, ("config", "layers", 1), entry), "data.json")


def test_what_is_nested_too_deeply_is_one_sentence(document: dict[str, Any], untouched: None) -> None:
    deep: Any = 1.0
    for _ in range(50_000):
        deep = [deep]
    with pytest.raises(CheckpointError, match=f"^data.json is nested more than {DEEPEST} deep in .*; name"):
        check_configuration(_put(document, ("config", "layers", 1, "config", "units"), deep), "data.json")


@pytest.mark.parametrize(
    "place, value, words",
    [
        (INNER_UNITS, 10**12, r"another network than its checkpoint's .*kernel is float32 \(4, 3\), expected float32 \(4, 10{12}\)"),
        (INNER_UNITS, 10**400, "that cannot be built"),
        (("config", "layers", 1, "config", "units"), 5, "is not supported: input inner/input_layer of a nested model has the shape"),
        (("config", "layers", 1, "config", "units"), "four", "that cannot be built"),
        (("config", "layers", 1, "config", "use_bias"), False, "another network than its checkpoint's .*bias is unknown"),
        (("config", "layers", 1, "config", "trainable"), False, "a network with digest"),
        (("config", "layers", 1, "config", "surprise"), 1, "is not supported: .*surprise"),
        (("config", "layers", 1, "inbound_nodes"), [], "is not supported: .*reads nothing"),
        (("config", "layers"), 3, "that cannot be built"),
        (("config", "output_layers"), ["nowhere", 0, 0], "that cannot be built"),
        (("config", "layers", 1, "config", "kernel_initializer"), _entry("keras.layers", "Dense", {"units": 1}), "that cannot be built"),
    ],
)
def test_a_structure_that_is_not_its_checkpoints_is_one_sentence(
    place: tuple[Any, ...], value: Any, words: str, document: dict[str, Any]
) -> None:
    model = _net()
    with pytest.raises(CheckpointError, match=f"^data.json describes .*{words}.*; ") as caught:
        model_of(_put(document, place, value), "data.json", _state(model), layer_graph(model).digest)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 2000


def test_models_that_multiply_their_calls_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring_reader, "CALLS_UP_TO", 500)
    inner = keras.Input((1,))
    model: Any = keras.Model(inner, layers.ReLU()(inner))
    for _ in range(3):
        outer = keras.Input((1,))
        x = outer
        for _ in range(10):
            x = model(x)
        model = keras.Model(outer, x)
    document = configuration_of(model)
    with pytest.raises(CheckpointError, match="is not supported: the model has more than 500 calls of layers; build a smaller one"):
        model_of(document, "data.json", State("", "SGD", {}, 0, 0), "")


def test_a_structure_that_json_cannot_hold_is_none() -> None:
    class Own(keras.initializers.Initializer):
        def __call__(self, shape: Any, dtype: Any = None) -> Any:
            return keras.ops.zeros(shape, dtype)

        def get_config(self) -> dict[str, Any]:
            return {"object": object()}

    assert configuration_of(keras.Sequential([keras.Input((2,)), layers.Dense(1, kernel_initializer=Own())])) is None
