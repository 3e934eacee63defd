"""Chains that are supposed, not measured: the shape of real networks on unequal devices, drawn from a seed."""

from __future__ import annotations

import math

import numpy as np

from hetero_mtf.planning.allocation.problem import ChainProblem

_LEVELS = 5  # resolutions a network goes through
_BLOCK_S = 4e-3  # seconds of a block on the fastest device
_SENT_BYTES, _WEIGHT_BYTES = 1.6e7, 1.5e6  # of the first level
_SPREAD = 10.0  # the fastest device is at most so many times as fast as the slowest
_OPERATION_S = 6e-4  # seconds of an operation on the fastest device, in the median
_WIDE_SPREAD = 30.0  # the same where a device may be very slow
_IDLE = 0.08  # of the operations take no time
_TRANSFER = (0.3, 5.0)  # seconds of a transfer at the median boundary, relative to those of a stage of an equal split
_DENSE = 6.0  # times as much is sent at the end of a level, where all before it is read again


def drawn_chain(seed: int, blocks: int, devices: int, microbatches: int, tightness: float = 0.0) -> ChainProblem:
    """Return a problem with one group a device.

    Along the chain activations shrink to a half and weights grow fourfold from level to level, as where the resolution halves and the
    channels double. Blocks compute about equally much. Speeds are 1:1 to 1:10, drawn for a device's arithmetic and, apart, for
    its memory, which early blocks lean on. Links have latencies of 10 us to 1 ms and bandwidths of 0.3 to 10 GB/s.

    Parameters
    ----------
    seed : of all that is drawn.
    blocks, devices, microbatches : how many.
    tightness : 0 for memory that holds everything on any device; else the bytes of all devices together are those that the whole
        chain needs with one microbatch in flight, divided by this; who has them has nothing to do with who is fast.

    Examples
    --------
    >>> problem = drawn_chain(0, blocks=12, devices=3, microbatches=8)
    >>> problem.seconds.shape, bool(problem.sent_bytes[0] > problem.sent_bytes[-1])
    ((3, 12), True)
    """
    rng = np.random.default_rng(seed)
    level = np.minimum(np.arange(blocks) * _LEVELS // blocks, _LEVELS - 1)
    sent = _SENT_BYTES * 0.5**level * rng.lognormal(0.0, 0.15, blocks)
    weights = _WEIGHT_BYTES * 4.0**level * rng.lognormal(0.0, 0.2, blocks)
    work = rng.lognormal(0.0, 0.35, blocks)
    leaning = np.clip(0.6 * 0.6**level + rng.normal(0.0, 0.05, blocks), 0.02, 0.9)  # part of the time that memory takes
    spread = rng.uniform(1.0, _SPREAD)
    arithmetic = _unequal(rng, devices, spread)
    bandwidth = np.sqrt(arithmetic * _unequal(rng, devices, spread))
    seconds = _BLOCK_S * work * ((1.0 - leaning) / arithmetic[:, None] + leaning / bandwidth[:, None])
    fixed, kept = 3.0 * weights, 2.5 * sent
    memory = _memory(rng, devices, float((fixed + kept).sum()), tightness)
    latency, per_byte = _links(rng, devices)
    groups = tuple((d,) for d in range(devices))
    return ChainProblem(seconds, groups, sent[:-1], latency, per_byte, fixed, kept, memory, microbatches)


def drawn_operations(seed: int, blocks: int, devices: int, microbatches: int, tightness: float = 0.0) -> ChainProblem:
    """Return a problem with one group a device whose blocks are single operations: sending costs as much as computing.

    As a network that was profiled operation by operation, with a possible boundary between any two. The bytes sent grow within a level,
    as where all outputs of a level are read again, fall from level to level and vary by orders of magnitude; most bytes are sent over a
    few early boundaries.
    Seconds of operations vary by orders of magnitude too, some take none. Devices come in pairs in half of the draws; one of them is
    up to thirty times slower than the fastest. All links are alike in half of the draws, and a transfer at the median boundary takes 0.3 to
    5 times the seconds of a stage of an equal split.

    Parameters
    ----------
    seed, blocks, devices, microbatches, tightness : as for `drawn_chain`.

    Examples
    --------
    >>> problem = drawn_operations(0, blocks=100, devices=4, microbatches=8)
    >>> problem.seconds.shape, bool(problem.sent_bytes.max() > 30 * problem.sent_bytes.min())
    ((4, 100), True)
    """
    rng = np.random.default_rng([seed, 2])
    inside, level = np.modf(np.arange(blocks) * _LEVELS / blocks)
    sent = _SENT_BYTES * 0.5**level * (1.0 + (_DENSE - 1.0) * inside) * rng.lognormal(0.0, 0.4, blocks)
    early = rng.random(blocks) < 0.5 * (np.arange(blocks) < max(2, blocks // 20))
    sent = np.where(early, sent * rng.uniform(5.0, 15.0, blocks), sent) * np.where(rng.random(blocks) < 0.005, 0.02, 1.0)
    weights = _WEIGHT_BYTES * 4.0**level * rng.lognormal(0.0, 0.8, blocks) / 10.0
    work = _OPERATION_S * rng.lognormal(0.0, 1.0, blocks) * (rng.random(blocks) >= _IDLE)
    speeds = _unequal(rng, devices, rng.uniform(3.0, _WIDE_SPREAD))
    if rng.random() < 0.5:
        speeds = speeds[np.arange(devices) % ((devices + 1) // 2)]
    seconds = work / speeds[:, None] * rng.lognormal(0.0, 0.05, (devices, blocks))
    latency, per_byte = _links(rng, devices)
    if rng.random() < 0.5:
        latency, per_byte = (np.where(np.eye(devices, dtype=bool), 0.0, np.median(links)) for links in (latency, per_byte))
    stage_s = float(work.sum() / speeds.sum())
    wanted_s = stage_s * _TRANSFER[0] * (_TRANSFER[1] / _TRANSFER[0]) ** rng.random()
    usual = float(np.median(per_byte[~np.eye(devices, dtype=bool)]))
    per_byte = per_byte * wanted_s / (2.0 * float(np.median(sent)) * usual)
    fixed, kept = 3.0 * weights, 0.3 * sent
    memory = _memory(rng, devices, float((fixed + kept).sum()), tightness)
    return ChainProblem(seconds, tuple((d,) for d in range(devices)), sent[:-1], latency, per_byte, fixed, kept, memory, microbatches)


def drawn_operations_size(seed: int) -> tuple[int, int, int]:
    """Return how many blocks (60 to 430), devices (3 to 8) and microbatches (4 to 32) to draw for `drawn_operations`.

    Parameters
    ----------
    seed : of all that is drawn.
    """
    rng = np.random.default_rng([seed, 3])
    return int(rng.integers(60, 431)), int(rng.integers(3, 9)), int(rng.choice([4, 8, 16, 32]))


def drawn_size(seed: int) -> tuple[int, int, int]:
    """Return how many blocks (10 to 60), devices (2 to 10) and microbatches (4 to 32) to draw.

    Parameters
    ----------
    seed : of all that is drawn.
    """
    rng = np.random.default_rng([seed, 1])
    return int(rng.integers(10, 61)), int(rng.integers(2, 11)), int(rng.choice([4, 8, 16, 32]))


def _memory(rng: np.random.Generator, devices: int, needed_bytes: float, tightness: float) -> np.ndarray:
    """Return what each device can hold: everything, or a part of what is needed, drawn."""
    if not tightness:
        return np.full(devices, math.inf)
    return np.asarray(rng.dirichlet(np.full(devices, 6.0)) * needed_bytes / tightness)


def _unequal(rng: np.random.Generator, devices: int, spread: float) -> np.ndarray:
    """Return speeds of which the largest is 1 and the smallest 1 / spread."""
    drawn = rng.uniform(0.0, 1.0, devices)
    drawn = (drawn - drawn.min()) / max(float(np.ptp(drawn)), 1e-9)
    return np.asarray(spread ** (drawn - 1.0))


def _links(rng: np.random.Generator, devices: int) -> tuple[np.ndarray, np.ndarray]:
    latency = 10.0 ** rng.uniform(-5.0, -3.0, (devices, devices))
    per_byte = 10.0 ** -rng.uniform(8.5, 10.0, (devices, devices))
    return np.triu(latency, 1) + np.triu(latency, 1).T, np.triu(per_byte, 1) + np.triu(per_byte, 1).T
