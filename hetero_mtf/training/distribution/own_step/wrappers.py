"""Keras layers around what a step calls beside layers: functions, layers in inference, and the loss."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras

from hetero_mtf.keras_reading.operations import is_symbol


class _Tensor:
    """Stands for a tensor among arguments."""


TENSOR = _Tensor()


class Wrappers(NamedTuple):
    """The classes.

    Parameters
    ----------
    computed : around a function and its arguments, called with the tensors among these.
    inference : around a layer that is called outside of training.
    loss : adds the scalar that it is called with to the loss, and returns it.
    """

    computed: Callable[..., Any]
    inference: Callable[..., Any]
    loss: Callable[..., Any]


@functools.cache
def wrappers() -> Wrappers:
    """Return the classes, made once Keras is imported."""
    class Computed(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
            super().__init__(autocast=False)
            self.function = function
            self.given = keras.tree.map_structure(lambda leaf: TENSOR if is_symbol(leaf) else leaf, (list(arguments), dict(options)))
            self.built = True

        def call(self, tensors: Sequence[Any]) -> Any:
            left = iter(tensors)
            arguments, options = keras.tree.map_structure(lambda leaf: next(left) if leaf is TENSOR else leaf, self.given)
            return self.function(*arguments, **options)

        def get_config(self) -> dict[str, Any]:
            return {"name": self.name, "function": self.function, "given": self.given}

    class Inference(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, layer: Any) -> None:
            super().__init__(name=f"{layer.name}_inference", autocast=False)
            self.layer = layer
            self.built = True

        def call(self, *arguments: Any, **options: Any) -> Any:
            return self.layer(*arguments, **{**options, "training": False})

        def get_config(self) -> dict[str, Any]:
            return {"name": self.name, "layer": self.layer}

    class StepLoss(keras.layers.Layer):  # type: ignore[misc]
        def call(self, value: Any) -> Any:
            self.add_loss(value)
            return value

    return Wrappers(Computed, Inference, StepLoss)
