"""Backbones of keras_hub, the networks that Keras's authors publish, small: models that nobody here wrote.

They are compared where the package is installed (`pip install keras-hub`); the project does not depend on it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tools.conformance.compare import BATCH, Batches

LENGTH, WORDS = 8, 50
_LAYERS = {"vocabulary_size": WORDS, "num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32}
_ENCODER = {**_LAYERS, "num_heads": 2}
_TEXT = {**_ENCODER, "max_sequence_length": 12}
_DECODER = {**_LAYERS, "num_query_heads": 4, "num_key_value_heads": 2}
_IMAGE = {"image_shape": (32, 32, 3)}
_PATCHES = {**_IMAGE, "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 16}

CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "BertBackbone": _TEXT,
    "AlbertBackbone": {**_TEXT, "embedding_dim": 8},
    "DistilBertBackbone": _TEXT,
    "RobertaBackbone": _TEXT,
    "XLMRobertaBackbone": _TEXT,
    "DebertaV3Backbone": {**_TEXT, "bucket_size": 4},
    "GPT2Backbone": _TEXT,
    "OPTBackbone": _TEXT,
    "BartBackbone": _TEXT,
    "FNetBackbone": {**_LAYERS, "max_sequence_length": 12},
    "GPTNeoXBackbone": _TEXT,
    "BloomBackbone": _ENCODER,
    "FalconBackbone": {**_LAYERS, "num_attention_heads": 2},
    "LlamaBackbone": _DECODER,
    "MistralBackbone": {**_DECODER, "sliding_window": 4},
    "Phi3Backbone": _DECODER,
    "QwenBackbone": _DECODER,
    "GemmaBackbone": {**_DECODER, "head_dim": 4},
    "MixtralBackbone": {**_DECODER, "num_experts": 2, "top_k": 1},
    "Qwen3Backbone": {**_DECODER, "head_dim": 4},
    "T5Backbone": _ENCODER,
    "XLNetBackbone": _ENCODER,
    "ESMBackbone": _ENCODER,
    "WhisperBackbone": {**_ENCODER, "max_encoder_sequence_length": LENGTH, "max_decoder_sequence_length": LENGTH},
    "ViTBackbone": {**_PATCHES, "mlp_dim": 32},
    "DeiTBackbone": {**_PATCHES, "intermediate_dim": 32},
    "DINOV2Backbone": {**_PATCHES, "intermediate_dim": 32},
    "SwinTransformerBackbone": {**_IMAGE, "patch_size": 4, "embed_dim": 8, "depths": (2, 2), "num_heads": (1, 2), "window_size": 4},
    "DenseNetBackbone": {**_IMAGE, "stackwise_num_repeats": [2, 2], "compression_ratio": 0.5, "growth_rate": 4},
    "VGGBackbone": {**_IMAGE, "stackwise_num_repeats": [1, 1], "stackwise_num_filters": [8, 16]},
    "XceptionBackbone": {
        "image_shape": (71, 71, 3),
        "stackwise_conv_filters": [[8, 8], [16, 16]],
        "stackwise_pooling": [True, False],
    },
}


def names() -> list[str]:
    """Return the names of the backbones; none where keras_hub is not installed."""
    return list(CONFIGURATIONS) if importlib.util.find_spec("keras_hub") else []


def case(name: str, rng: np.random.Generator) -> tuple[keras.Model, Batches]:
    """Return a backbone, called with inputs of known length, with a dense layer behind it, and two batches.

    Plain SGD trains it: Keras clips and squares the gradients of a word that is twice in a batch one by one.
    """
    import keras_hub

    backbone = getattr(keras_hub.models, name)(**CONFIGURATIONS[name])
    given = {symbol.name: symbol for symbol in keras.tree.flatten(backbone.input)}
    inputs = {key: keras.Input(_extents(symbol), dtype=symbol.dtype, name=key) for key, symbol in given.items()}
    alone = not isinstance(backbone.input, dict)
    outputs = keras.tree.flatten(backbone(next(iter(inputs.values())) if alone else inputs))
    head = keras.layers.Dense(2, name="own_head")(keras.layers.Flatten()(outputs[-1]))
    model = keras.Model(next(iter(inputs.values())) if alone else inputs, head)
    x = [{key: _drawn(key, symbol, rng) for key, symbol in inputs.items()} for _ in range(2)]
    batches = [next(iter(each.values())) for each in x] if alone else x
    return model, Batches(batches, [rng.normal(size=(BATCH, 2)) for _ in x], lambda: "mse", lambda: keras.optimizers.SGD(0.02))


def _extents(symbol: Any) -> tuple[int, ...]:
    return tuple(LENGTH if extent is None else int(extent) for extent in symbol.shape[1:])


def _drawn(name: str, symbol: Any, rng: np.random.Generator) -> np.ndarray:
    shape = (BATCH, *symbol.shape[1:])
    if "int" not in str(symbol.dtype):
        return rng.normal(size=shape)
    if "mask" in name:
        mask = np.ones(shape, "int32")
        mask[::2, -2:] = 0
        return mask
    return rng.integers(0, 2 if "segment" in name else WORDS, shape).astype("int32")
