"""Every constructor of keras.applications at its smallest legal input, cut in depth where that is a parameter."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import unittest.mock
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from tools.conformance.compare import Batches, sgd

SAMPLES = 3
BLOCKS = 2  # of a stage, at most
_SMALLEST = {"inception_v3": 75, "inception_resnet_v2": 75, "xception": 71}


def _fewer(blocks: Any) -> Any:
    return min(blocks, BLOCKS) if isinstance(blocks, int) else [min(each, BLOCKS) for each in blocks]


def _once(_: Any) -> Any:
    return 1.0


def _shallow(arguments: Any) -> Any:
    """Return the description of EfficientNet's stages with fewer repetitions."""
    if isinstance(arguments, Mapping):
        return {name: _shallow(each) for name, each in arguments.items()}
    return [{key: _fewer(value) if "repeat" in key else value for key, value in stage.items()} for stage in arguments]


# Module -> function or constant of it -> parameter of the function that says how deep it is, and what it becomes.
_DEPTHS: Mapping[str, Mapping[str, tuple[str | None, Callable[[Any], Any]]]] = {
    "convnext": {"ConvNeXt": ("depths", _fewer)},
    "densenet": {"DenseNet": ("blocks", _fewer)},
    "efficientnet": {"EfficientNet": ("depth_coefficient", _once), "DEFAULT_BLOCKS_ARGS": (None, _shallow)},
    "efficientnet_v2": {"EfficientNetV2": ("depth_coefficient", _once), "DEFAULT_BLOCKS_ARGS": (None, _shallow)},
    "nasnet": {"NASNet": ("num_blocks", _fewer)},
    "resnet": {name: ("blocks", _fewer) for name in ("stack_residual_blocks_v1", "stack_residual_blocks_v2")},
}


def names() -> list[str]:
    """Return the names of all constructors."""
    return sorted(name for name, make in vars(keras.applications).items() if inspect.isfunction(make))


def case(name: str, rng: np.random.Generator) -> tuple[keras.Model, Batches]:
    """Return a model with weights as they are made, and one batch."""
    make = getattr(keras.applications, name)
    size = _SMALLEST.get(make.__module__.rpartition(".")[2], 32)
    options: dict[str, Any] = {"weights": None, "classes": 5, "input_shape": (size, size, 3)}
    parameters = inspect.signature(make).parameters
    if "include_preprocessing" in parameters:
        options["include_preprocessing"] = True
    with _cut_in_depth():
        model = make(**options)
    x, y = rng.random((SAMPLES, size, size, 3)) * 255.0, rng.integers(0, 5, SAMPLES)
    return model, Batches([x], [y], lambda: "sparse_categorical_crossentropy", sgd)


@contextlib.contextmanager
def _cut_in_depth() -> Iterator[None]:
    """Make the constructors build stages of few blocks."""
    with contextlib.ExitStack() as stack:
        for module_name, entries in _DEPTHS.items():
            module = sys.modules[f"keras.src.applications.{module_name}"]
            for name, (parameter, cut) in entries.items():
                before = getattr(module, name)
                after = cut(before) if parameter is None else _with_parameter(before, parameter, cut)
                stack.enter_context(unittest.mock.patch.object(module, name, after))
        yield


def _with_parameter(function: Callable[..., Any], parameter: str, cut: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function with one of its arguments changed."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def changed(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        bound.arguments[parameter] = cut(bound.arguments[parameter])
        return function(*bound.args, **bound.kwargs)

    return changed
