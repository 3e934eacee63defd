"""A population of genomes as arrays: their fitness, and their repair."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from hetero_mtf.planning.allocation.partition import spaced
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.names import LARGEST_LOAD

_TIE = 1e-9  # of the sum of all stages and transfers


class Genomes(NamedTuple):
    """Genomes of allocations.

    Parameters
    ----------
    order : (rows, groups) array of int, a permutation of the groups; the first ones have the stages, the rest are unused.
    starts : (rows, most stages) array of int, rising: first block of each stage; the number of blocks where there is no stage.
    """

    order: np.ndarray
    starts: np.ndarray

    def rows(self, which: np.ndarray) -> Genomes:
        """Return some of them, copied.

        Parameters
        ----------
        which : (chosen rows,) array of int, or (rows,) array of bool.
        """
        return Genomes(self.order[which], self.starts[which])


@dataclasses.dataclass(frozen=True)
class Fitness:
    """Fitness of genomes; less is better.

    Parameters
    ----------
    score : (rows,) array of float, J in seconds, or L with 1e-9 of the sum of all stages and transfers, which ranks allocations of the
        same L; above `Evaluation.too_much` for those that break a limit, rising with the excess.
    largest_s : (rows,) array of float, the largest load: a stage or a transfer, or a stage with its transfers where these count as load.
    """

    score: np.ndarray
    largest_s: np.ndarray


class Evaluation:
    """J, or L, and memory of many allocations at once.

    Parameters
    ----------
    stages : number of stages; None for any.

    Attributes
    ----------
    width : the most stages of an allocation.
    too_much : seconds above any J and any L.
    counted : (groups,) array of float, 1 where transfers count as load of a group; None where they are loads of their own.
    """

    def __init__(self, problem: ChainProblem, stages: int | None) -> None:
        self.problem, self.stages = problem, stages
        self.blocks = problem.blocks
        self.width = problem.most_stages if stages is None else stages
        self.counted = np.array(problem.communication_load, dtype=float) if problem.communication_load else None
        self._prefix_s = problem.prefix_s.ravel()
        self._latency, self._per_byte = (np.ascontiguousarray(2.0 * links) for links in problem.links)
        sent = float((self._latency.max() + problem.boundary_bytes.max() * self._per_byte.max()) * self.width)
        self.too_much = 1.0 + 2.0 * problem.microbatches * (float(problem.prefix_s[:, -1].max()) * self.width + sent)
        flights = sorted({problem.in_flight(count) for count in range(1, self.width + 1)})
        self._row = np.array([0, *(flights.index(problem.in_flight(count)) for count in range(1, self.width + 1))])
        self.bound = bool((problem.reach(self.width) < self.blocks).any())
        if self.bound:
            by_flight = {problem.in_flight(count): problem.reach(count) for count in range(1, self.width + 1)}
            self._reach = np.stack([by_flight[flying] for flying in flights])
            self._least = np.stack([[np.searchsorted(row, np.arange(self.blocks + 1)) for row in table] for table in self._reach])
        members = np.zeros((len(problem.groups), problem.devices), dtype=bool)
        for at, group in enumerate(problem.groups):
            members[at, list(group)] = True
        self._members = members
        # the seconds before each block, one group after the other and so far apart that one search finds places in all of them
        self._offset = 2.0 * float(problem.prefix_s[:, -1].max()) + 1.0
        self._flat = (problem.prefix_s + self._offset * np.arange(len(problem.groups))[:, None]).ravel()

    def fitness(self, genomes: Genomes) -> Fitness:
        """Return the fitness of genomes; they must be valid but for memory and the number of stages."""
        seconds, sent = self.stage_s(genomes), self._transfers_s(genomes)
        if self.counted is None:
            largest = np.maximum(seconds.max(axis=1), sent.max(axis=1, initial=0.0))
        else:
            largest = self._loads(genomes, seconds, sent).max(axis=1)
        if self.problem.objective == LARGEST_LOAD:
            score = largest + _TIE * (seconds.sum(axis=1) + sent.sum(axis=1))
        else:
            score = seconds.sum(axis=1) + sent.sum(axis=1) + (self.problem.microbatches - 1) * largest
        broken = self.broken(genomes)
        return Fitness(np.where(broken > 0, self.too_much * (1.0 + broken) + score, score), largest)

    def stage_s(self, genomes: Genomes) -> np.ndarray:
        """Return the (rows, most stages) seconds of each stage, 0 where there is none."""
        rows = genomes.order[:, : self.width] * (self.blocks + 1)
        return np.asarray(self._prefix_s[rows + self._stage_end(genomes.starts)] - self._prefix_s[rows + genomes.starts])

    def load_s(self, genomes: Genomes) -> np.ndarray:
        """Return the (rows, most stages) seconds of each stage, with its transfers where these count as its load."""
        seconds = self.stage_s(genomes)
        return seconds if self.counted is None else self._loads(genomes, seconds, self._transfers_s(genomes))

    def _transfers_s(self, genomes: Genomes) -> np.ndarray:
        groups, boundaries = genomes.order[:, : self.width], genomes.starts[:, 1:]
        links = groups[:, :-1] * len(self._latency) + groups[:, 1:]
        sent = self._latency.ravel()[links] + self.problem.boundary_bytes[boundaries] * self._per_byte.ravel()[links]
        return np.asarray(sent * (boundaries < self.blocks))

    def _loads(self, genomes: Genomes, seconds: np.ndarray, sent: np.ndarray) -> np.ndarray:
        assert self.counted is not None
        loads, counted = seconds.copy(), self.counted[genomes.order[:, : self.width]]
        loads[:, :-1] += counted[:, :-1] * sent
        loads[:, 1:] += counted[:, 1:] * sent
        return loads

    def broken(self, genomes: Genomes) -> np.ndarray:
        """Return the (rows,) blocks that do not fit, and for each stage that is missing or too many as many as the chain has."""
        counts = (genomes.starts < self.blocks).sum(axis=1)
        broken = np.zeros(len(counts), int) if self.stages is None else np.abs(counts - self.stages) * self.blocks
        if self.bound:
            groups = genomes.order[:, : self.width]
            reach = self._reach[self._flights(counts), groups, genomes.starts]
            broken = broken + np.maximum(self._stage_end(genomes.starts) - reach, 0).sum(axis=1)
        return np.asarray(broken)

    def repaired(self, genomes: Genomes) -> Genomes:
        """Return allocations whose stages give up blocks they cannot hold: to the next stage, then from the last on to the one before."""
        if not self.bound:
            return genomes
        rows = np.flatnonzero(self.broken(genomes) > 0)
        if not len(rows):
            return genomes
        groups, starts = genomes.order[rows, : self.width], genomes.starts[rows]
        counts = (starts < self.blocks).sum(axis=1)
        flights = self._flights(counts)
        for at in range(self.width - 1):
            reach = self._reach[flights[:, at], groups[:, at], starts[:, at]]
            starts[:, at + 1] = np.where(at + 1 < counts, np.minimum(starts[:, at + 1], reach), starts[:, at + 1])
        stage_end = np.full(len(rows), self.blocks)
        for at in range(self.width - 1, 0, -1):
            least = self._least[flights[:, at], groups[:, at], stage_end]
            starts[:, at] = np.where(at < counts, np.minimum(np.maximum(starts[:, at], least), stage_end), starts[:, at])
            stage_end = np.where(at < counts, starts[:, at], self.blocks)
        genomes.starts[rows] = starts
        return self.valid(genomes)

    def valid(self, genomes: Genomes) -> Genomes:
        """Return allocations without empty stages and without groups that share devices with one before them."""
        order, starts = genomes
        np.maximum.accumulate(starts, axis=1, out=starts)
        starts[:, 0] = 0
        if self.stages is not None:
            starts[:] = spaced(starts, self.blocks)
        kept = starts < self._stage_end(starts)
        if not self.problem.disjoint:
            self._drop_shared(order, kept)
        rows = np.flatnonzero((kept[:, 1:] & ~kept[:, :-1]).any(axis=1) | ((starts < self.blocks) & ~kept).any(axis=1))
        if len(rows):
            dropped = np.ones((len(rows), order.shape[1]), dtype=bool)
            dropped[:, : self.width] = ~kept[rows]
            order[rows] = np.take_along_axis(order[rows], np.argsort(dropped, axis=1, kind="stable"), axis=1)
            starts[rows] = np.sort(np.where(kept[rows], starts[rows], self.blocks), axis=1)
            starts[rows, 0] = 0
        return genomes

    def filled(self, genomes: Genomes, limit_s: np.ndarray, backward: bool) -> Genomes:
        """Return allocations whose stages take blocks as long as they stay below a limit each; the last one takes what is left.

        Parameters
        ----------
        genomes : allocations; the number of stages is theirs, or less.
        limit_s : (rows,) array of float, seconds.
        backward : whether to begin at the end of the chain.
        """
        counts = (genomes.starts < self.blocks).sum(axis=1)
        places, flat = self.blocks + 1, self._flat
        limit_s = np.minimum(limit_s, 0.5 * self._offset)
        edge = np.full(len(counts), self.blocks) if backward else np.zeros(len(counts), int)
        for at in range(self.width - 1, 0, -1) if backward else range(self.width - 1):
            groups = genomes.order[:, at]
            here = flat[groups * places + edge]
            if backward:
                begin = np.minimum(np.maximum(np.searchsorted(flat, here - limit_s) - groups * places, at), edge - 1)
                edge = np.where(at < counts, begin, edge)
                genomes.starts[:, at] = np.where(at < counts, edge, self.blocks)
            else:
                edge = np.minimum(np.searchsorted(flat, here + limit_s, side="right") - 1 - groups * places, self.blocks)
                edge = np.maximum(edge, genomes.starts[:, at] + 1)
                genomes.starts[:, at + 1] = np.where(at + 1 < counts, np.minimum(edge, self.blocks), self.blocks)
                edge = genomes.starts[:, at + 1]
        return genomes

    def sent_s(self, source: np.ndarray, destination: np.ndarray, boundary: np.ndarray | None = None) -> np.ndarray:
        """Return seconds of the transfers forth and back: (rows, blocks + 1) at every boundary, or (rows,) at one boundary each.

        Parameters
        ----------
        source, destination : (rows,) groups.
        boundary : (rows,) first block of the stage that receives; None for every boundary.
        """
        latency, per_byte = self._latency[source, destination], self._per_byte[source, destination]
        if boundary is None:
            return np.asarray(latency[:, None] + self.problem.boundary_bytes * per_byte[:, None])
        return np.asarray(latency + self.problem.boundary_bytes[boundary] * per_byte)

    def reach(self, groups: np.ndarray, counts: np.ndarray, limit_s: np.ndarray) -> np.ndarray:
        """Return (rows, blocks + 1) array of int: the last end of a stage from each block on, by time and by memory.

        Parameters
        ----------
        groups : (rows,) of the stage.
        counts : (rows,) stages from it to the last, itself included.
        limit_s : (rows,) array of float, the most seconds.
        """
        first = groups[:, None] * (self.blocks + 1)
        places = first + np.arange(self.blocks + 1)
        limit_s = np.minimum(limit_s * (1 + 1e-12), 0.5 * self._offset)
        last = np.searchsorted(self._flat, self._flat[places] + limit_s[:, None], side="right") - 1 - first
        return np.asarray(np.minimum(last, self._reach[self._row[counts], groups]) if self.bound else last)

    def apart(self, order: np.ndarray, used: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return which of the wanted groups share no device with those used, nor with a wanted one before them.

        Parameters
        ----------
        order : (rows, groups) array of int.
        used, wanted : (rows, groups) array of bool, in that order.
        """
        if self.problem.disjoint:
            return wanted
        members = self._members[order]
        devices = (members & used[:, :, None]).any(axis=1)
        apart = wanted.copy()
        for at in np.flatnonzero(wanted.any(axis=0)):
            apart[:, at] &= ~(devices & members[:, at]).any(axis=1)
            devices |= members[:, at] & apart[:, at : at + 1]
        return apart

    def allocation(self, genomes: Genomes, row: int) -> Allocation:
        """Return one of them as an allocation.

        Parameters
        ----------
        row : which.
        """
        starts = genomes.starts[row]
        count = int((starts < self.blocks).sum())
        return Allocation(tuple(starts[:count].tolist()), tuple(genomes.order[row, :count].tolist()))

    def genome(self, allocation: Allocation) -> tuple[list[int], list[int]]:
        """Return (groups,) order and (most stages,) starts of an allocation, unused groups behind by their index."""
        rest = [g for g in range(len(self.problem.groups)) if g not in allocation.groups]
        return [*allocation.groups, *rest], [*allocation.boundaries, *[self.blocks] * (self.width - len(allocation.boundaries))]

    def _stage_end(self, starts: np.ndarray) -> np.ndarray:
        return np.concatenate([starts[:, 1:], np.full((len(starts), 1), self.blocks)], axis=1)

    def _flights(self, counts: np.ndarray) -> np.ndarray:
        return np.asarray(self._row[np.maximum(counts[:, None] - np.arange(self.width), 0)])

    def _drop_shared(self, order: np.ndarray, kept: np.ndarray) -> None:
        used = np.zeros((len(order), self.problem.devices), dtype=bool)
        for at in range(self.width):
            members = self._members[order[:, at]]
            kept[:, at] &= ~(used & members).any(axis=1)
            used |= members & kept[:, at : at + 1]
