"""What a call of Keras's own keeps for its backward pass, counted in the TensorFlow operations that it and its gradient make."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.keras_reading.live_call import LiveCall
from hetero_mtf.keras_reading.operations import is_layer
from hetero_mtf.keras_reading.private_names import loop_body
from hetero_mtf.keras_reading.traced_calls.placeholder_call import call_on_placeholders
from hetero_mtf.keras_reading.traced_calls.present_tensors import present_tensors

_BATCH = 4
_MANY = 400  # operations
_VIEWS = frozenset({"Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient"})
_GIVEN = frozenset({"Placeholder", "Const"})
_PUSH = "TensorListPushBack"  # what a loop keeps of each of its iterations


def kept_elements(call: LiveCall) -> int:
    """Return the elements a sample that the backward pass of a layer's call reads, besides what the call reads itself.

    Parameters
    ----------
    call : of a layer, with tensors that have a batch; 0 where it is none, or cannot be called on placeholders.

    Notes
    -----
    Tensors that operations of the gradient read are kept, each once, views of others not. Of a loop, as in recurrent layers, each iteration
    keeps what it pushes on lists; there is an iteration for each step of the longest input. Of a call of hundreds of operations all
    tensors are counted.
    """
    symbols = call.node.arguments.keras_tensors
    if not is_layer(call.operation) or call.output != 0:
        return 0
    if not symbols or any(None in symbol.shape[1:] or not call.has_batch(symbol) for symbol in symbols):
        return 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of code that has run before
            return _counted(call)
    except Exception:  # the user's own code may raise anything on placeholders
        return 0


def _counted(call: LiveCall) -> int:
    graph, symbols = tf.Graph(), call.node.arguments.keras_tensors
    with graph.as_default(), present_tensors():
        run = call_on_placeholders(call, _BATCH, training=True)
        forward = {operation.name for operation in graph.get_operations()}
        if len(forward) > _MANY:  # a gradient would take seconds to build
            read = [tensor for operation in graph.get_operations() for tensor in operation.outputs if _base(tensor) is tensor]
            return _elements(call, [tensor for tensor in read if tensor.dtype.is_floating and tensor.op.type not in _GIVEN])
        trained = [tensor for tensor in (*run.inputs, *run.values.values()) if tensor.dtype.is_floating]
        tf.gradients([y for y in run.outputs if y.dtype.is_floating], trained)
    stored: dict[str, Any] = {}
    for operation in graph.get_operations():
        if operation.name not in forward:
            read = [_base(tensor) for tensor in operation.inputs]
            stored.update({base.name: base for base in read if base.op.name in forward and base.op.type not in _GIVEN})
    iterations = max((int(symbol.shape[1]) for symbol in symbols if len(symbol.shape) > 2), default=1)
    pushed = [tensor for name in forward for tensor in _pushed(graph.get_operation_by_name(name))]
    return _elements(call, list(stored.values())) + iterations * _elements(call, pushed)


def _elements(call: LiveCall, tensors: Sequence[Any]) -> int:
    """Return the elements a sample of tensors, in those of the call's dtype."""
    item = int(tf.as_dtype(str(call.symbol.dtype)).size)
    return math.ceil(sum(map(_bytes, tensors)) / (_BATCH * item))


def _base(tensor: Any) -> Any:
    """Return the tensor that one is a view of."""
    while tensor.op.type in _VIEWS and len(tensor.op.inputs):
        tensor = tensor.op.inputs[tensor.value_index if tensor.op.type == "IdentityN" else 0]
    return tensor


def _pushed(operation: tf.Operation) -> Iterator[Any]:
    """Yield what each iteration of a loop keeps; nothing of another operation."""
    body = loop_body(operation)
    if body is not None:
        yield from (inner.inputs[1] for inner in body.get_operations() if inner.type == _PUSH)


def _bytes(tensor: Any) -> int:
    """Return the bytes of a tensor; 0 where its shape is not known."""
    count = tensor.shape.num_elements() if tensor.shape.rank else None
    return 0 if count is None or tensor.dtype.size is None else int(count) * int(tensor.dtype.size)
