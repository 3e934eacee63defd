"""Buckets of gradients, whose all-reduces are fused: which tensors go into one, and how large one is by the links."""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.planning.cost.device_ring import Ring
from hetero_mtf.planning.cost.link_cost import ring
from hetero_mtf.planning.layout.records import BUCKET_BYTES
from hetero_mtf.planning.profile.profile import Profile


def bucket_bytes(profile: Profile, devices: Sequence[int]) -> int:
    """Return the most bytes of a bucket of gradients: what the links send in the seconds of their latency, a r.

    Up to this size, n_1/2, latency is the larger part of a message's seconds a + n / r: what a message less saves exceeds what it costs
    that the gradients of a bucket wait for the last one and are copied twice. 0 where links cost nothing, the default for one device.

    Parameters
    ----------
    profile : Profile with measured links.
    devices : indices of the stage's devices.

    Raises
    ------
    ProfileError
        If the link between two neighbours was not measured.

    References
    ----------
    Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994, for n_1/2.
    """
    return bucket_bytes_of(ring(profile, devices)) if len(devices) > 1 else BUCKET_BYTES


def bucket_bytes_of(links: Ring) -> int:
    """Return `bucket_bytes` of links among several devices."""
    return int(links.latency_s / links.seconds_per_byte) if links.seconds_per_byte > 0 else 0


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
