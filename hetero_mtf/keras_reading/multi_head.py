"""Multi-head attention opened up: projections, attention and output as nodes of their own, which split by heads.

In grouped-query attention several heads of the queries read one head of keys and values: what is split are these groups.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras

from hetero_mtf.graph.description import FLOATS
from hetero_mtf.keras_reading.private_names import attention_axes, attention_extras, attention_scale, mask_of, projections

_PLAIN = ("kernel_regularizer", "bias_regularizer", "activity_regularizer", "kernel_constraint", "bias_constraint")


def attended(node: Any) -> tuple[Any, Any, Any] | None:
    """Return query, key and value of a call of multi-head or grouped-query attention that can be opened up, None for another call.

    It can be with three-dimensional tensors, without masks but the causal one, dropout, gates, windows, regularizers and constraints.

    Parameters
    ----------
    node : a Keras node.
    """
    layer = node.operation
    if type(layer) not in (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention):
        return None
    arguments = inspect.signature(layer.call).bind(*node.arguments.args, **node.arguments.kwargs).arguments
    query, value = arguments["query"], arguments["value"]
    key = value if arguments.get("key") is None else arguments["key"]
    named = {name for name, argument in arguments.items() if argument is not None and argument is not False}
    tensors = (query, key, value)
    plain = (
        named <= {"query", "value", "key", "use_causal_mask", "training"}
        and all(len(tensor.shape) == 3 and None not in tensor.shape[1:] for tensor in tensors)
        and all(mask_of(tensor) is None for tensor in tensors)
        and all(str(tensor.dtype) in FLOATS for tensor in tensors)
        and not attention_extras(layer)
        and attention_axes(layer) == (1,)
        and len(node.outputs) == 1
        and len(node.outputs[0].shape) == 3
        and all(_is_plain(part) for part in projections(layer))
    )
    return tensors if plain else None


def _repeats(layer: keras.Layer) -> int:
    """Return how many heads of the queries read one head of keys and values."""
    return int(getattr(layer, "num_repeats", 1))


def projection_options(part: Any, layer: keras.Layer) -> dict[str, Any]:
    """Return the options of the node of a projection to heads."""
    heads, size = part.kernel.shape[1:]
    repeats = _repeats(layer) if part is projections(layer)[0] else 1
    options = {"heads": int(heads) // repeats, "size": int(size), "repeats": repeats}
    return {**options, "use_bias": part.bias is not None, "dtype": layer.dtype_policy.name}


def attention_options(node: Any) -> dict[str, Any]:
    """Return the options of the node of the attention itself."""
    layer = node.operation
    causal = bool(inspect.signature(layer.call).bind(*node.arguments.args, **node.arguments.kwargs).arguments.get("use_causal_mask"))
    return {"scale": attention_scale(layer), "causal": causal, "repeats": _repeats(layer), "dtype": layer.dtype_policy.name}


def output_options(layer: keras.Layer) -> dict[str, Any]:
    """Return the options of the node of the output."""
    part = projections(layer)[3]
    options = {"units": int(part.kernel.shape[-1]), "repeats": _repeats(layer)}
    return {**options, "use_bias": part.bias is not None, "dtype": layer.dtype_policy.name}


def _is_plain(part: Any) -> bool:
    without = all(getattr(part, name, None) is None for name in _PLAIN)
    variables = all(variable.regularizer is None and variable.constraint is None for variable in part.weights)
    return without and variables and len(part.kernel.shape) == 3 and not getattr(part, "lora_enabled", False)
