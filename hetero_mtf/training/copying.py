"""Copies of Keras models in memory, also of those whose layers cannot say how they are copied."""

from __future__ import annotations

import contextlib
import copy
import copyreg
import importlib
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras

from hetero_mtf.keras_reading.following import FOLLOWED
from hetero_mtf.keras_reading.graph_of_calls import TRACED, functional_of
from hetero_mtf.keras_reading.operations import is_layer, layers_in, named_weights
from hetero_mtf.keras_reading.private_names import TRACKED, WIRING

_DROPPED = (TRACED, FOLLOWED)


def clone(model: Any) -> Any:
    """Return a copy of a Keras model in which the same layers are shared, with weights of its own, and not compiled.

    A layer is copied again from its configuration; one that has none that makes it again is copied as it is in memory, or, without
    weights, is part of both models.

    Parameters
    ----------
    model : keras.Model; it is not changed.
    """
    if functional_of(model) is None:
        return _in_memory(model)
    copies: dict[int, Any] = {}

    def cloned(layer: Any) -> Any:
        if not is_layer(layer):
            return layer  # a function has no weights
        if id(layer) not in copies:
            copies[id(layer)] = _copied(layer)
        return copies[id(layer)]

    with warnings.catch_warnings(), _not_compiled(model):
        warnings.simplefilter("ignore")  # about lambdas
        twin = keras.models.clone_model(model, clone_function=cloned)
        if len(twin.weights) == len(model.weights):
            return twin
        return keras.models.clone_model(
            model, recursive=True
        )  # a layer is in two of the models; this loses the frozen state of a nested model


@contextlib.contextmanager
def _not_compiled(model: Any) -> Iterator[None]:
    """Let a model pass for one that is not compiled: Keras compiles a copy from a text, in which functions of one's own have no place."""
    compiled, model.compiled = model.compiled, False
    try:
        yield
    finally:
        model.compiled = compiled


def _copied(layer: Any) -> Any:
    """Return a layer that computes the same, with weights of its own if it has any."""
    try:
        copied = type(layer).from_config(layer.get_config())
    except Exception:  # a class of the user's own may raise anything
        return _in_memory(layer) if layer.weights else layer
    if layer.built and len(named_weights(layer)) != len(named_weights(copied)) and _adds_later(layer, copied):
        return _in_memory(layer)
    return copied


def _adds_later(layer: Any, copied: Any) -> bool:
    """Return whether a layer that was copied again would not have the weights of the first when it is built, such as low-rank ones."""
    return getattr(layer, "lora_enabled", False) != getattr(copied, "lora_enabled", False)


def _in_memory(layer: Any) -> Any:
    """Return a deep copy of a layer apart from the calls that it is part of."""
    reducers: dict[type, Callable[[Any], tuple[Any, ...]]] = {type(each): _reduced for each in layers_in(layer)}
    reducers[types.ModuleType] = lambda module: (importlib.import_module, (module.__name__,))
    reducers.update(dict.fromkeys(TRACKED, _held))
    before = {kind: copyreg.dispatch_table.get(kind) for kind in reducers}
    try:
        copyreg.dispatch_table.update(reducers)
        return copy.deepcopy(layer)
    finally:
        for kind, own in before.items():
            copyreg.dispatch_table.pop(kind)
            if own is not None:
                copyreg.dispatch_table[kind] = own


def _held(collection: Any) -> tuple[Any, ...]:
    """Reduce a collection whose own methods would track what they are given once more."""
    plain = next(kind for kind in (list, dict, set) if isinstance(collection, kind))
    return _filled, (type(collection), plain, plain(collection), collection.tracker)


def _filled(kind: Any, plain: Any, items: Any, tracker: Any) -> Any:
    copied = plain.__new__(kind)
    plain.__init__(copied, items)
    copied.tracker = tracker
    return copied


def _reduced(layer: Any) -> tuple[Any, ...]:
    state = {key: ([] if key in WIRING else value) for key, value in layer.__dict__.items() if key not in _DROPPED}
    return copyreg.__newobj__, (type(layer),), state  # type: ignore[attr-defined]
