"""Python functions of a worker that operations of its client's graphs call: TensorFlow has no operations that use shared memory."""

from __future__ import annotations

from typing import Any

from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.shared.batch_memory import read_part

READ_PART = "pyfunc_0"
"""TensorFlow numbers the functions of a process in the order in which they are registered."""


def register() -> Any:
    """Make `read_part` callable by operations in this process; return what must live as long as it is.

    Raises
    ------
    ClusterError
        If TensorFlow gives it another token than the one that clients use.
    """
    import tensorflow as tf  # takes seconds: a worker checks its port before

    with tf.Graph().as_default() as graph:
        token = tf.numpy_function(read_part, [tf.constant(b"")], tf.float32).op.get_attr("token").decode()
    if token != READ_PART:
        raise ClusterError(f"TensorFlow calls the function that reads batches {token}", "use the TensorFlow that pip installs")
    return graph
