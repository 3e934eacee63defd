"""A published profile as a chain: DenseNet-121 of PipeDream, cut between any two operations (`data/README.md`)."""

from __future__ import annotations

import math
import pathlib

import numpy as np

from hetero_mtf.planning.allocation.problem import ChainProblem

_FILE = pathlib.Path(__file__).parent / "data" / "densenet121-chain.npz"
_LATENCY_S, _BYTES_PER_S, _MICROBATCHES = 50e-6, 1.25e9, 16


def densenet_chain(memory: float = math.inf) -> ChainProblem:
    """Return the chain on 8 devices with speeds 1, 0.7, 0.4 and 0.1 twice, all links alike; sent bytes count in both directions.

    Parameters
    ----------
    memory : bytes of each device, in parts of what the whole chain needs with one microbatch in flight. The profile's file has no
        memory: an operation is taken to keep a tenth of what crosses the cut behind it, and as much fixed in the mean.
    """
    with np.load(_FILE) as held:
        seconds, sent = held["seconds"], held["sent"]
    devices, blocks = seconds.shape
    apart = 1.0 - np.eye(devices)
    kept = 0.1 * np.append(sent, sent[-1])
    fixed = np.full(blocks, kept.mean())
    room = np.full(devices, memory * float((kept + fixed).sum()))
    links = _LATENCY_S * apart, apart / _BYTES_PER_S
    return ChainProblem(seconds, tuple((d,) for d in range(devices)), sent, *links, fixed, kept, room, _MICROBATCHES)
