"""The best partition for many orders of groups at once: which groups of an order have a stage, and the stage boundaries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetero_mtf.planning.allocation.genetic_population import Evaluation, Genomes

_FEW = 24  # groups in an order, of which any number may be left out between two stages
_SKIPPED = 2  # of longer orders
_INSERTED = 4  # unused groups, at most, that an order is given besides


class Sequences(NamedTuple):
    """Orders of groups of which some may be left out.

    Parameters
    ----------
    groups : (rows, places) array of int, groups in order, of which no two share a device; any number where a place holds none.
    counts : (rows,) array of int, places of each row that hold a group: the first ones.
    """

    groups: np.ndarray
    counts: np.ndarray


def drawn_sequences(evaluation: Evaluation, genomes: Genomes, rng: np.random.Generator) -> Sequences:
    """Return the groups in use of each allocation in their order, with some that are unused inserted at random places.

    With a fixed number of stages none is inserted.

    Parameters
    ----------
    evaluation : of the problem.
    genomes : valid allocations.
    rng : random numbers.
    """
    order = genomes.order
    rows, groups = order.shape
    counts = (genomes.starts < evaluation.blocks).sum(axis=1)
    place = np.arange(groups)
    spare = np.minimum(groups - counts, _INSERTED if evaluation.stages is None else 0)
    inserted = (rng.random(rows) * (spare + 1)).astype(int)
    drawn = rng.permuted(np.broadcast_to(place, order.shape), axis=1).astype(float)
    drawn[place < counts[:, None]] = np.inf
    # the unused groups in a random order, those in use behind them: the first `inserted` of it are taken
    nth = np.argsort(np.argsort(drawn, axis=1), axis=1)
    taken = (nth < inserted[:, None]) & (place >= counts[:, None])
    taken &= evaluation.apart(order, place < counts[:, None], taken)
    # a key in (k - 1, k) stands before stage k: each of the counts + 1 gaps is equally likely
    aside = rng.random(order.shape) * (counts[:, None] + 1) - 1.0
    key = np.where(place < counts[:, None], place, np.where(taken, aside, np.inf))
    counts = counts + taken.sum(axis=1)
    by = np.argsort(key, axis=1, kind="stable")[:, : int(counts.max())]
    return Sequences(np.take_along_axis(order, by, axis=1), counts)


def decoded(evaluation: Evaluation, genomes: Genomes, sequences: Sequences, limit_s: np.ndarray) -> Genomes:
    """Return the allocations of least sum for some orders of groups; a row for which there is none is unchanged.

    Minimises, for each row, sum_s t_s + sum_s c_s over the subsequences of its order and all boundaries, with t_s, c_s <= T of the row.
    With a fixed number of stages every group of the order has a stage. Where transfers count as load, the load of every stage is at most T,
    and what is least is that of the first stage.

    Parameters
    ----------
    evaluation : of the problem.
    genomes : the rows, valid; changed in place.
    sequences : their orders.
    limit_s : (rows,) array of float, T: the most seconds of a stage or a transfer.

    Notes
    -----
    A dynamic program from the last group to the first over (group of the order, first block of its stage), in step for all rows.
    Memory is a hard limit; a stage is taken to have all later groups of its order behind it: with groups left out that may be
    stricter than need be, never less strict. Of an order of more than 24 groups at most two are left out between two stages.
    O(rows * places * blocks * (log(blocks) + groups left out)).

    References
    ----------
    Prins, "A simple and effective evolutionary algorithm for the vehicle routing problem", Computers & Operations Research 31
    (2004) 1985-2002, evolves an order and partitions it at best in the same way.
    """
    table = _Table(evaluation, sequences, limit_s)
    chosen, starts, reached = table.read_off()
    done = np.flatnonzero(reached)
    genomes.starts[done], chosen = starts[done], chosen[done]
    # the groups that are not used come behind in the order that they had
    # the last column takes what is written for missing stages, whose group is the number of groups
    rank = np.full((len(done), genomes.order.shape[1] + 1), evaluation.width)
    np.put_along_axis(rank, chosen, np.arange(evaluation.width)[None, :], axis=1)
    kept = np.take_along_axis(rank[:, :-1], genomes.order[done], axis=1)
    genomes.order[done] = np.take_along_axis(genomes.order[done], np.argsort(kept, axis=1, kind="stable"), axis=1)
    return genomes


class _Table:
    """The dynamic program.

    With a a place of an order, g its group, i < j blocks, B their number, P(g, i) the prefix sums of g, so that a stage takes
    P(g, j) - P(g, i), and c(g, h, j) the transfers between g and h at boundary j, all in seconds,

        E(a, B) = 0,    E(a, j) = min over the later places b of  c(g, h, j) + V(b, j),    h the group of b
        V(a, i) = min_{i < j <= R(a, i)} { E(a, j) + P(g, j) } - P(g, i)

    with R the last end by T and memory, and c <= T. Where transfers count as load of a group, w being 1 for it and else 0,

        E(a, j) = min over b of  w_g c(g, h, j),    of those with  w_h c(g, h, j) + V(b, j) <= T

    as in `largest_load`: what a stage receives enters the limit, what it sends enters its own load.

    Attributes
    ----------
    reach : (rows, places, blocks + 1) R: last end of a stage from each block on.
    entered : (rows, places, blocks + 1) E: least seconds behind a stage that ends at each block.
    behind : (rows, places, blocks + 1) V: least seconds of a stage from each block on and all behind it; where transfers count as load,
        of that stage and the transfer behind it.
    """

    def __init__(self, evaluation: Evaluation, sequences: Sequences, limit_s: np.ndarray) -> None:
        self.evaluation, self.blocks, self.limit_s = evaluation, evaluation.blocks, limit_s
        self.groups, self.counts = sequences
        self.fixed = evaluation.stages is not None
        self.skipped = 0 if self.fixed else self.groups.shape[1] if self.groups.shape[1] <= _FEW else _SKIPPED
        rows, places = self.groups.shape
        self.reach = np.zeros((rows, places, self.blocks + 1), int)
        self.entered, self.behind = (np.full((rows, places, self.blocks + 1), np.inf) for _ in range(2))
        for at in range(places - 1, -1, -1):
            self._solve(at)

    def _solve(self, at: int) -> None:
        entered, groups = self.entered[:, at], self.groups[:, at]
        for later in range(at + 1, min(self.groups.shape[1], at + 2 + self.skipped)):
            sent = self.evaluation.sent_s(groups, self.groups[:, later])
            np.minimum(entered, self._left(sent, groups, self.groups[:, later], self.behind[:, later], self.limit_s), out=entered)
        here = at < self.counts
        # nothing is behind the chain's end; with a fixed number of stages only the last group may end it
        entered[:, -1] = np.where(at == self.counts - 1 if self.fixed else here, 0.0, np.inf)
        prefix_s = self.evaluation.problem.prefix_s[groups]
        # 1 where a place holds no group: only a valid index, as what is behind is infinite there
        self.reach[:, at] = self.evaluation.reach(groups, np.maximum(self.counts - at, 1), self.limit_s)
        least = _window_minimum(entered + prefix_s, self.reach[:, at]) - prefix_s
        self.behind[:, at] = np.where(here[:, None], least, np.inf)

    def _left(self, sent: np.ndarray, source: np.ndarray, destination: np.ndarray, behind: np.ndarray, limit_s: np.ndarray) -> np.ndarray:
        """Return the seconds that count for a stage after which some are sent; infinite where a term is above the limit.

        Parameters
        ----------
        sent, behind : (rows, places) or (rows,) array of float, seconds of a transfer, and least ones of the stage that receives.
        source, destination : (rows,) groups.
        limit_s : (rows,) array of float, T.
        """
        shape = (-1, 1) if sent.ndim == 2 else (-1,)
        limit_s, counted = limit_s.reshape(shape), self.evaluation.counted
        if counted is None:
            return np.asarray(np.where(sent <= limit_s, sent, np.inf) + behind)
        received = behind + counted[destination].reshape(shape) * sent
        return np.asarray(np.where(received <= limit_s * (1 + 1e-12), counted[source].reshape(shape) * sent, np.inf))

    def read_off(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (rows, most stages) groups and first blocks, and whether there is an allocation at all.

        Where there is no stage the group is the number of groups and the block the number of blocks.
        """
        rows, width = len(self.counts), self.evaluation.width
        # as between two stages, so many groups may be left out before the first one
        first = self.behind[:, : self.skipped + 1, 0]
        at = first.argmin(axis=1)
        reached = np.isfinite(first[np.arange(rows), at])
        if self.evaluation.counted is not None:
            reached &= first[np.arange(rows), at] <= self.limit_s * (1 + 1e-12)
        chosen = np.full((rows, width), len(self.evaluation.problem.groups))
        starts = np.full((rows, width), self.blocks)
        block = np.where(reached, 0, self.blocks)
        for stage in range(width):
            on = np.flatnonzero(block < self.blocks)
            if not len(on):
                break
            chosen[on, stage], starts[on, stage] = self.groups[on, at[on]], block[on]
            block[on] = end = self._end(on, at[on], block[on])
            at[on] = self._later(on, at[on], end)
        return chosen, starts, reached & (block == self.blocks)

    def _end(self, on: np.ndarray, at: np.ndarray, block: np.ndarray) -> np.ndarray:
        places = np.arange(self.blocks + 1)
        within = (places > block[:, None]) & (places <= self.reach[on, at, block][:, None])
        prefix_s = self.evaluation.problem.prefix_s[self.groups[on, at]]
        return np.asarray(np.where(within, self.entered[on, at] + prefix_s, np.inf).argmin(axis=1))

    def _later(self, on: np.ndarray, at: np.ndarray, end: np.ndarray) -> np.ndarray:
        best, chosen, last = np.full(len(on), np.inf), at, self.groups.shape[1] - 1
        for ahead in range(1, min(self.skipped, last) + 2):
            later = np.minimum(at + ahead, last)
            sent = self.evaluation.sent_s(self.groups[on, at], self.groups[on, later], end)
            total = self._left(sent, self.groups[on, at], self.groups[on, later], self.behind[on, later, end], self.limit_s[on])
            total = np.where(at + ahead <= last, total, np.inf)
            chosen = np.where(total < best, later, chosen)
            best = np.minimum(best, total)
        return np.asarray(chosen)


# Not that of sliding_window: there the ends are the same in all rows, here each row has its own.
def _window_minimum(values: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return (rows, places) array: at place i of a row the least of values i + 1 up to and with its end there; infinite for none.

    Two runs of 2^k values that overlap make up any run: with 2^k <= n < 2^(k+1) values, that of its begin and that of its end.

    References
    ----------
    Bender, Farach-Colton, "The LCA problem revisited", LATIN 2000, LNCS 1776, 88-94.
    """
    rows, places = values.shape
    begins = np.arange(1, places + 1)
    lengths = last - begins + 1
    # frexp gives n = m 2^e with 1/2 <= m < 1, so k = e - 1 exactly, which a rounded logarithm would not
    levels = np.frexp(np.maximum(lengths, 1))[1] - 1
    table = [values]
    for level in range(int(levels.max())):
        least = table[-1].copy()
        np.minimum(least[:, : -(1 << level)], table[-1][:, 1 << level :], out=least[:, : -(1 << level)])
        table.append(least)
    # flat index of (k, row, place): one look-up for all, each at a level of its own
    stacked = np.stack(table).ravel()
    base = (levels * rows + np.arange(rows)[:, None]) * places
    left = base + np.minimum(begins, places - 1)
    right = base + np.maximum(last - (1 << levels) + 1, 0)
    return np.where(lengths > 0, np.minimum(stacked[left], stacked[right]), np.inf)
