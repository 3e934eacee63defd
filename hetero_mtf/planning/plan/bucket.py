"""Buckets of gradients: which of them are sent as one message."""

from __future__ import annotations

from collections.abc import Sequence


def buckets(tensor_bytes: Sequence[float], up_to_bytes: float) -> list[list[int]]:
    """Return the tensors of each message, by their indices: small ones together, larger ones alone.

    A bucket takes tensors in the order given until another one would make it larger than the limit. Tensors that are larger by
    themselves go alone, and the bucket that is begun stays open meanwhile: small gradients are fused although large ones lie between.

    Parameters
    ----------
    tensor_bytes : (tensors,) bytes of each, in the order in which they are computed.
    up_to_bytes : most bytes of a bucket; 0 for no buckets.

    References
    ----------
    Li et al., "PyTorch Distributed: experiences on accelerating data parallel training", VLDB 2020; Sergeev, Del Balso, "Horovod",
    arXiv 1802.05799. Their limits are constants of 25 and 64 MB, here a limit follows from the links.

    Examples
    --------
    >>> buckets([10, 900, 20, 80, 5], 100)
    [[1], [0, 2], [3, 4]]
    """
    messages: list[list[int]] = []
    begun: list[int] = []
    held = 0.0
    for index, size in enumerate(tensor_bytes):
        if size > up_to_bytes:
            messages.append([index])
            continue
        if begun and held + size > up_to_bytes:
            messages.append(begun)
            begun, held = [], 0.0
        begun.append(index)
        held += size
    return [*messages, begun] if begun else messages
