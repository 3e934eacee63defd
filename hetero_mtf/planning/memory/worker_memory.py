"""Bytes a worker's process takes besides its tensors: the runtime, its copy of the graph, messages, and scratch of convolutions.

What is here was measured on TensorFlow 2.21 on Linux (`tools/bench/memory.py`). It is memory of the C library's allocator, which does not
return what it once took, while tensors are in TensorFlow's own allocator; so the two peaks add up, whenever they occur.
"""

from __future__ import annotations

import math

import numpy as np

from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.profile.profile import Profile

RUNTIME_BYTES = 14 * 2**20  # threads, pages of code and tables that the first step brings in
GRAPH_BYTES = 700 * 2**10  # of a layer on one processor, in the process of all sessions: about 20 nodes and their rewriting
GRAPH_UP_TO_BYTES = 256 * 2**20  # the largest graph measured
TRANSFER_BYTES = 32 * 2**20  # most bytes of full values sent in one session call; a variable is not split
THREADS = 4  # that run operations in a worker
KEPT_UP_TO_BYTES = 32 * 2**20  # the C library returns larger pieces at once


def master(profile: Profile) -> int:
    """Return the index of the device whose process runs all sessions: the first of the largest share."""
    shares = [device.share for device in profile.cluster.devices]
    return shares.index(max(shares))


def worker_bytes(profile: Profile, stage: Stage, weights: np.ndarray, largest: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Return the (processors,) bytes of runtime, graph and messages.

    Parameters
    ----------
    stage : its devices and layouts count.
    weights : (processors,) bytes of the weights and optimizer slots.
    largest : (processors,) bytes of the largest weight.
    moved : (processors,) bytes that are sent to a processor at once.

    Notes
    -----
    Initial values are sent through the master, which holds them twice, as received and as sent. Later messages reuse the memory
    of earlier ones.
    """
    initial = np.minimum(weights, np.maximum(TRANSFER_BYTES, largest))
    at = [index for index, device in enumerate(stage.devices) if device == master(profile)]
    graph = np.zeros(len(stage.devices))
    if at:
        initial[at[0]] = 2 * min(weights.sum(), max(TRANSFER_BYTES, largest.sum()))
        graph[at[0]] = min(GRAPH_UP_TO_BYTES, GRAPH_BYTES * len(stage.layouts) * len(stage.devices))
    taken: np.ndarray = RUNTIME_BYTES + graph + np.maximum(initial, moved)
    return taken


def scratch_bytes(kernel_bytes: np.ndarray) -> np.ndarray:
    """Return the bytes that convolutions need beside their tensors, for the largest kernel.

    The gradient of a kernel is computed in two more copies of it, which each thread that ran one keeps.

    Parameters
    ----------
    kernel_bytes : (processors,) bytes of the largest kernel's slice.
    """
    scratch: np.ndarray = np.where(kernel_bytes < KEPT_UP_TO_BYTES, 2 * THREADS, 2) * kernel_bytes
    return scratch


def is_kernel(shape: tuple[int, ...]) -> bool:
    """Return whether a variable of this shape is a convolution's kernel.

    >>> is_kernel((3, 3, 8, 16)), is_kernel((8, 16))
    (True, False)
    """
    return len(shape) >= 4 and math.prod(shape) > 0
