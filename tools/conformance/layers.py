"""Every concrete class of keras.layers in a small network."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from hetero_mtf.graph.records import Layer
from hetero_mtf.keras_reading.keras_call import draws_at_random
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers import kind_of
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call
from hetero_mtf.planning.layout.arrangement import splits_batch
from tools.conformance.compare import BATCH, Batches, sgd

L = keras.layers
Build = Callable[[Any], Any]  # what the layer reads -> what it gives

# Why a class has no row of its own, by the first rule that holds.
RULES: Mapping[str, Callable[[str], bool]] = {
    "a base class": lambda name: name in ("Layer", "Wrapper"),
    "an input, which every network here has": lambda name: name == "InputLayer",
    "reads texts": lambda name: name in ("StringLookup", "TextVectorization", "HashedCrossing"),
    "of another framework": lambda name: name in ("FlaxLayer", "JaxLayer", "TorchModuleWrapper", "TFSMLayer"),
    "a cell, which RNN calls": lambda name: name.endswith("Cell") or name == "StackedRNNCells",
    "reads images with their labels or boxes": lambda name: name in ("CutMix", "MixUp", "MaxNumBoundingBoxes"),
}

SHAPES = {1: (8, 4), 2: (6, 6, 4), 3: (4, 4, 4, 4)}

_ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "Activation": ("gelu",),
    "Dense": (5,),
    "EinsumDense": ("abc,cd->abd", (6, 5)),
    "Embedding": (9, 4),
    "ReversibleEmbedding": (9, 4),
    "GroupedQueryAttention": (4, 4, 2),
    "MultiHeadAttention": (2, 4),
    "CategoryEncoding": (9,),
    "Discretization": ([-0.5, 0.0, 0.5],),
    "Hashing": (5,),
    "Rescaling": (0.5,),
    "CenterCrop": (4, 4),
    "RandomCrop": (4, 4),
    "Resizing": (4, 4),
    "Permute": ((2, 1),),
    "Reshape": ((4, 6),),
    "RepeatVector": (3,),
    "AlphaDropout": (0.3,),
    "Dropout": (0.3,),
    "GaussianDropout": (0.3,),
    "GaussianNoise": (0.3,),
    "LSTM": (3,),
    "GRU": (3,),
    "SimpleRNN": (3,),
    "Dot": (-1,),
    "GroupNormalization": (2,),
    "RandomRotation": (0.1,),
    "RandomShear": (0.1, 0.1),
    "RandomTranslation": (0.1, 0.1),
    "RandomZoom": (0.1,),
    "RandomBrightness": (0.1,),
    "RandomContrast": (0.1,),
    "RandomHue": (0.1,),
    "RandomSaturation": (0.1,),
    "RandomSharpness": (0.1,),
    "RandomColorJitter": ((0.0, 255.0), 0.1),
    "RandomColorDegeneration": (0.1,),
    "RandomPosterization": (4,),
}
_MAKERS: Mapping[str, Callable[[], Any]] = {
    "IntegerLookup": lambda: L.IntegerLookup(vocabulary=list(range(9))),
    "Lambda": lambda: L.Lambda(lambda x: x * 2.0),
    "Normalization": lambda: L.Normalization(mean=0.2, variance=2.0),
    "SpectralNormalization": lambda: L.SpectralNormalization(L.Conv2D(5, 3)),
    "Bidirectional": lambda: L.Bidirectional(L.LSTM(3)),
    "TimeDistributed": lambda: L.TimeDistributed(L.Dense(5)),
    "RNN": lambda: L.RNN(L.GRUCell(3)),
    "Pipeline": lambda: L.Pipeline([L.Rescaling(0.5), L.CenterCrop(4, 4)]),
    "RandomPerspective": lambda: L.RandomPerspective(0.5, 0.1),
}
_PAIRS = ("Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract", "Attention", "AdditiveAttention")
_OF_HEADS = ("GroupedQueryAttention", "MultiHeadAttention")
_WITH_ITSELF = ("GroupedQueryAttention", "MultiHeadAttention")
_OF_NUMBERS = ("CategoryEncoding", "Embedding", "Hashing", "IntegerLookup", "ReversibleEmbedding")
_OF_IMAGES = (
    *("AugMix", "AutoContrast", "CenterCrop", "ContrastLimitedAdaptiveHistogramEqualization", "Equalization", "Pipeline"),
    *("RandAugment", "Resizing", "Solarization"),
)


def classes() -> dict[str, type]:
    """Return every class of layers in keras.layers, by its own name."""
    kinds = {kind.__name__: kind for kind in vars(L).values() if inspect.isclass(kind) and issubclass(kind, L.Layer)}
    return dict(sorted(kinds.items()))


def excluded(name: str) -> str:
    """Return why a class has no row of its own, "" where it has."""
    return next((reason for reason, holds in RULES.items() if holds(name)), "")


def layer_of(name: str) -> Any:
    """Return a layer of a class."""
    if name in _MAKERS:
        return _MAKERS[name]()
    kind = classes()[name]
    if name in _ARGUMENTS:
        return kind(*_ARGUMENTS[name])
    if name.startswith("ConvLSTM"):
        return kind(3, 3)
    if name.startswith("AveragePooling"):
        return kind(2)
    if "DepthwiseConv" in name:
        return kind(3)
    if "Conv" in name:
        return kind(5, 3)
    if name.startswith("Adaptive"):
        return kind(2)
    if name.startswith("SpatialDropout"):
        return kind(0.3)
    return kind()


def network(name: str) -> keras.Model:
    """Return a network around a layer of a class: a layer that trains before it, where it reads numbers that can be trained."""
    layer = layer_of(name)
    if name in _OF_NUMBERS:
        i = keras.Input((6,), dtype="int32")
        return keras.Model(i, _head(layer(i)))
    if name in _OF_IMAGES or name.startswith("Random"):
        i = keras.Input((6, 6, 3))
        return keras.Model(i, _head(layer(i)))
    if name in ("MelSpectrogram", "STFTSpectrogram"):
        i = keras.Input((4000,) if name == "MelSpectrogram" else (4000, 1))
        return keras.Model(i, _head(layer(i)))
    shape = _shape(name)
    i = keras.Input(shape)
    x = L.Dense(4, name="before")(i)
    if name in _PAIRS:
        return keras.Model(i, _head(layer([x, L.Dense(4, name="beside")(i)])))
    return keras.Model(i, _head(layer(x, x) if name in _WITH_ITSELF else layer(x)))


def _rank(name: str) -> int:
    match = re.search(r"([123])D", name)
    return int(match[1]) if match else 0


def _shape(name: str) -> tuple[int, ...]:
    if name.startswith("ConvLSTM"):
        return (3, *SHAPES[_rank(name)])
    if name == "SpectralNormalization":
        return SHAPES[2]
    if name in ("RepeatVector", "ActivityRegularization"):
        return (4,)
    return SHAPES.get(_rank(name), (6, 4))


def _head(x: Any) -> Any:
    if not str(x.dtype).startswith("float"):
        x = keras.ops.cast(x, keras.config.floatx())
    return L.Dense(3, name="after")(L.Flatten()(x) if len(x.shape) > 2 else x)


def batches(model: keras.Model, rng: np.random.Generator, steps: int = 5) -> Batches:
    """Return data for a network here."""
    shape, integers = (BATCH, *model.inputs[0].shape[1:]), "int" in str(model.inputs[0].dtype)
    images = len(shape) == 4 and shape[-1] == 3
    x = [
        rng.integers(0, 9, shape) if integers else rng.random(shape) * (255.0 if images else 1.0) - (0.0 if images else 0.3)
        for _ in range(steps)
    ]
    y = [rng.random((BATCH, 3)) for _ in range(steps)]
    return Batches(x, y, lambda: "mse", sgd)


def placed(model: keras.Model, name: str) -> str:
    """Return what the layer of a class is split over: channels, samples, or nothing ("whole")."""
    if name in _OF_HEADS:
        return "heads, samples"
    graph = layer_graph(model)
    layer = next(layer for layer in graph.layers if _is_of(layer, name))
    if kind_of(layer).layouts(layer) - {"replicated"}:
        return "channels, samples"
    return "samples" if splits_batch(layer) else "whole"


def is_read(model: keras.Model, name: str) -> bool:
    """Return whether a model has a layer of a class."""
    return any(type(layer) is classes()[name] for layer in model.layers)


def taken_as_it_is(model: keras.Model, name: str) -> bool:
    """Return whether the layer of a class is computed by Keras's own call."""
    return any(is_keras_call(layer) for layer in layer_graph(model).layers if _is_of(layer, name))


def _is_of(layer: Layer, name: str) -> bool:
    return layer.live is not None and type(layer.live.operation) is classes()[name]


def draws(model: keras.Model) -> bool:
    """Return whether a network draws at random."""
    return any(draws_at_random(layer) for layer in model.layers)
