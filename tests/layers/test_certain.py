"""The lists of what is certain about functions and layers of Keras: parts give parts of the whole."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest
from keras.src.ops import core, math, nn, numpy

from hetero_mtf.layers.fallback.certain import ELEMENTWISE_OPERATIONS, SAMPLEWISE_LAYERS
from tools.conformance import layers

OPTIONS: dict[str, tuple[Any, ...]] = {"Clip": (-0.5, 0.5), "Cast": ("float32",), "ConvertToTensor": (None, None), "Threshold": (0.2, 0.0)}
TRUTHS = ("LogicalAnd", "LogicalNot", "LogicalOr", "LogicalXor")


def _operation(name: str) -> type:
    short = name.removeprefix("keras.ops.")
    known = [getattr(module, short) for module in (numpy, nn, math, core) if hasattr(module, short)]
    if not known and not hasattr(keras.ops, {"ConvertToTensor": "convert_to_tensor"}.get(short, short.lower())):
        pytest.skip(f"Keras {keras.__version__} has no {name}")
    return known[0]


@pytest.mark.parametrize("name", sorted(ELEMENTWISE_OPERATIONS))
def test_elementwise_functions_give_parts_of_samples_and_channels_from_parts(name: str) -> None:
    kind, short, rng = _operation(name), name.removeprefix("keras.ops."), np.random.default_rng(0)
    operation = kind(*OPTIONS.get(short, ()))
    required = [p for p in inspect.signature(kind.call).parameters.values() if p.name != "self"]
    count = 3 if short == "Where" else sum(p.default is inspect.Parameter.empty for p in required)
    tensors = [rng.uniform(0.1, 0.9, (4, 3, 6)).astype("float32") for _ in range(count)]
    if short in TRUTHS or short == "Where":
        tensors = [tensor > 0.5 if short in TRUTHS or at == 0 else tensor for at, tensor in enumerate(tensors)]
    full = np.asarray(operation(*tensors))
    for part in ((slice(1, 3),), (slice(None), slice(None), slice(2, 5))):
        np.testing.assert_allclose(np.asarray(operation(*(tensor[part] for tensor in tensors))), full[part], rtol=1e-6)


LISTED = sorted(name for name in SAMPLEWISE_LAYERS if name.isidentifier() and not name.endswith("Cell"))


# A layer after it cannot use the mask: of no matter to the values compared.
@pytest.mark.fast("Permute")
@pytest.mark.filterwarnings("ignore:Layer:UserWarning")
@pytest.mark.parametrize("name", LISTED)
def test_samplewise_layers_give_samples_from_samples(name: str) -> None:
    model = layers.network(next(own for own, kind in layers.classes().items() if getattr(keras.layers, name) is kind))
    x = layers.batches(model, np.random.default_rng(1)).x[0]
    drawn = any(  # what draws at random gives every call other numbers in training
        layer._seed_generators for layer in model._flatten_layers()
    )
    for training in (False,) if drawn else (False, True):
        full = np.asarray(model(x, training=training))
        for part in (slice(0, 1), slice(2, 5)):
            np.testing.assert_allclose(np.asarray(model(x[part], training=training)), full[part], rtol=1e-4, atol=1e-5)
