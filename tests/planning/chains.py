"""Small chains of all kinds, and the best allocation by trying all."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator

import numpy as np

from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from tools.generated.chains import drawn_chain

SMALL = range(16)


def plain(seconds: list[list[float]], microbatches: int = 4, memory: float = math.inf) -> ChainProblem:
    """Return a chain whose blocks hold a byte all the time and one for each microbatch in flight; nothing sent takes time."""
    devices, blocks = np.array(seconds).shape
    links, ones = np.zeros((devices, devices)), np.ones(blocks)
    groups = tuple((d,) for d in range(devices))
    return ChainProblem(np.array(seconds), groups, ones[1:], links, links, ones, ones, np.full(devices, memory), microbatches)


def small(seed: int) -> ChainProblem:
    """Return a chain that can be enumerated: with free, scarce or too little memory, one device a group or several."""
    rng = np.random.default_rng([seed, 7])
    blocks, devices = int(rng.integers(2, 8)), int(rng.integers(1, 5))
    problem = drawn_chain(seed, blocks, devices, int(rng.choice([1, 2, 5, 16])), float(rng.choice([0.0, 0.4, 0.8])))
    problem = dataclasses.replace(problem, schedule=str(rng.choice(["1f1b", "fill_drain"])))
    return grouped(problem, rng) if seed % 2 else problem


def linked(seed: int) -> ChainProblem:
    """Return a small chain whose links are up to a thousand times slower than drawn, in a third of the draws with scarce memory."""
    problem = small(seed)
    return dataclasses.replace(problem, seconds_per_byte=problem.seconds_per_byte * 10.0 ** np.random.default_rng(seed).uniform(0, 3))


def loaded(seed: int) -> ChainProblem:
    """Return a small chain with slow links whose largest load counts; transfers count as load of no, of some or of all groups."""
    rng = np.random.default_rng([seed, 11])
    problem = linked(seed)
    part = (0.0, 0.5, 1.0)[seed % 3]
    counted = tuple(bool(rng.random() < part) for _ in problem.groups) if part else ()
    return dataclasses.replace(problem, objective="largest_load", communication_load=counted)


def grouped(problem: ChainProblem, rng: np.random.Generator) -> ChainProblem:
    """Return the problem with groups of two and three devices besides, some of which hold their weights whole."""
    devices = range(problem.devices)
    more = [group for size in (2, 3) for group in itertools.combinations(devices, size)]
    shares = [(1.0,)] * problem.devices + [tuple(rng.uniform(0.5, 2.0, len(group)).tolist()) for group in more]
    together = [1.2 / (1.0 / problem.seconds[list(group)]).sum(axis=0) for group in more]
    groups = (*problem.groups, *more)
    seconds = np.array([*problem.seconds, *together])
    whole = tuple(bool(rng.random() < 0.5) for _ in groups)
    return dataclasses.replace(problem, seconds=seconds, groups=groups, shares=tuple(shares), replicated_weights=whole)


def allocations(problem: ChainProblem) -> Iterator[Allocation]:
    """Yield every allocation, whether it fits into memory or not."""
    groups = range(len(problem.groups))
    for stages in range(1, problem.most_stages + 1):
        for chosen in itertools.permutations(groups, stages):
            devices = [d for g in chosen for d in problem.groups[g]]
            if len(set(devices)) == len(devices):
                for boundaries in itertools.combinations(range(1, problem.blocks), stages - 1):
                    yield Allocation((0, *boundaries), chosen)


def least(problem: ChainProblem, stages: int | None = None) -> float:
    """Return the least J, or L, of all allocations that fit; infinite if none does."""
    fitting = (a for a in allocations(problem) if stages in (None, len(a.boundaries)) and not problem.shortfall_bytes(a))
    return min((problem.value(a) for a in fitting), default=math.inf)
