"""What functions of the user's, and of Keras, expect of tensors in a graph: those of the present as constants, comparison by elements."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.private_names import EagerTensor, builds_function, takes_eager_tensors
from hetero_mtf.keras_reading.traced_calls.replacements import replaced

_ONE_THREAD = threading.RLock()


@contextlib.contextmanager
def present_tensors() -> Iterator[None]:
    """Let functions of the user's, and of Keras, use eager tensors that they hold; a plain TensorFlow graph refuses these.

    Raises
    ------
    UnsupportedError
        Inside, if such a tensor is a resource, which only the process that made it has.

    Notes
    -----
    Sets how TensorFlow converts eager tensors while the context is open (TensorFlow 2.16 to 2.21), in one thread at a time: others wait.
    """

    def converting(before: Any) -> Any:
        def converted(value: Any, dtype: Any = None, name: str | None = None) -> Any:
            if takes_eager_tensors():
                return before(value, dtype, name)
            if value.dtype in (tf.resource, tf.variant):
                raise UnsupportedError(
                    "a layer or function holds a table or variable of TensorFlow that Keras does not know of",
                    "look numbers up in the data, before training, and hold weights in Keras variables (add_weight)"
                )
            return tf.constant(value.numpy(), dtype or value.dtype, name=name or "present")

        return converted

    with _ONE_THREAD, replaced(EagerTensor, "__tf_tensor__", converting):
        yield


@contextlib.contextmanager
def compared_by_elements() -> Iterator[None]:
    """Let `==` and `!=` of tensors compare elements, in functions of the user's, and of Keras, that a plain TensorFlow graph is built with.

    A plain graph compares tensors by identity, and TensorFlow's own code relies on it there: open it around such functions alone.
    """
    kind: Any = tf.Tensor

    def comparing(operation: Any, own: Any) -> Any:
        def compared(one: Any, other: Any) -> Any:
            graph = getattr(one, "graph", None)
            if other is None or graph is None or builds_function(graph):
                return own(one, other)
            try:
                another = tf.convert_to_tensor(other, one.dtype)
            except (TypeError, ValueError):
                return own(one, other)
            return operation(x=one, y=another, incompatible_shape_error=False)

        return compared

    equal, unequal = (functools.partial(comparing, operation) for operation in (tf.raw_ops.Equal, tf.raw_ops.NotEqual))
    with replaced(kind, "__eq__", equal), replaced(kind, "__ne__", unequal):
        yield
