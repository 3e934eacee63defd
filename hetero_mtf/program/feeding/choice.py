"""Which way batches take to the devices of a cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.program.feeding.sent_batches import LEAST_BYTES, SentBatches
from hetero_mtf.program.feeding.shared_batches import SharedBatches
from hetero_mtf.program.feeding.staged_batches import StagedBatches
from hetero_mtf.runtime.shared.batch_memory import Form


def staged_batches(cluster: Any, container: str, forms: Sequence[Form], dtypes: Sequence[tf.DType]) -> StagedBatches | None:
    """Return where the batches of a program are written before their steps; None where they are fed through placeholders.

    That is in this process, where nothing is sent; for text, which has no fixed size; and for small batches of servers elsewhere.

    Parameters
    ----------
    cluster : live cluster.
    container, forms, dtypes : as for `StagedBatches`.
    """
    if any(np.dtype(dtype).hasobject or np.dtype(dtype).kind in "US" for _, dtype in forms):
        return None
    if getattr(cluster, "shares_memory", False):
        try:
            return SharedBatches(container, forms, dtypes)
        except (OSError, AttributeError):  # no anonymous files
            pass
    size = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in forms)
    return SentBatches(cluster, container, forms, dtypes) if getattr(cluster, "target", "") and size >= LEAST_BYTES else None
