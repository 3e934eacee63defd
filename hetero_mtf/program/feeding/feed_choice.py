"""Which way batches take to the devices of a cluster."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.program.feeding.sent_batches import SentBatches
from hetero_mtf.program.feeding.shared_batches import SharedBatches
from hetero_mtf.program.feeding.staged_batches import StagedBatches
from hetero_mtf.runtime.cluster import Cluster
from hetero_mtf.runtime.shared.batch_memory import Form

LEAST_BYTES = 1 << 17
"""Smaller arrays are fed with their step: to read them, or to send them by a call of their own, would take longer."""


def staged_batches(cluster: Cluster, container: str, forms: Sequence[Form], dtypes: Sequence[tf.DType]) -> StagedBatches | None:
    """Return where the larger arrays of a program's batches are written before their steps; None where all are fed with these.

    That is in this process, where nothing is sent; for text, which has no fixed size; and for small arrays.

    Parameters
    ----------
    cluster : live cluster.
    container : as for `StagedBatches`.
    forms : (arrays,) form of each array of a batch.
    dtypes : (arrays,) what devices get of each.
    """
    staged = [form if _is_staged(*form) else None for form in forms]
    shares_memory = getattr(cluster, "shares_memory", False)
    if not any(staged) or not (shares_memory or getattr(cluster, "target", "")):  # whose workers may still start: no target is asked for
        return None
    if shares_memory:
        with contextlib.suppress(OSError, AttributeError):  # no anonymous files
            return SharedBatches(container, staged, dtypes)
    return SentBatches(cluster, container, staged, dtypes)


def forms_of(graph: LayerGraph, arrays: Sequence[np.ndarray]) -> tuple[list[Form], list[tf.DType]]:
    """Return the (arrays,) forms of a batch's arrays, and what devices get of each: inputs in the type of their layer, others as they are.

    Parameters
    ----------
    graph : the network.
    arrays : of a batch, its inputs first.
    """
    inputs = [tf.as_dtype(graph.layers[index].dtype(graph.dtype)) for index in graph.inputs]
    dtypes = [*inputs, *(tf.as_dtype(array.dtype) for array in arrays[len(inputs) :])]
    return [(array.shape, str(array.dtype)) for array in arrays], dtypes


def _is_staged(shape: tuple[int, ...], dtype: str) -> bool:
    own = np.dtype(dtype)
    return not own.hasobject and own.kind not in "US" and math.prod(shape) * own.itemsize >= LEAST_BYTES
