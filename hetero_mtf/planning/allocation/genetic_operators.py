"""The genetic operators: mutations and a crossover, each on many genomes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hetero_mtf.planning.allocation.genetic_population import Evaluation, Genomes

_FINE = 3.5  # decades of the drawn distance to the present largest stage
_LONGEST = 0.3  # of the changes are made to the longest stage
_FAR = 0.45  # parameter of the geometric number of blocks that a boundary is shifted by


def crossover(first: Genomes, second: Genomes, blocks: int, rng: np.random.Generator) -> Genomes:
    """Return children that have the first stages of one parent and, after a block drawn for each, the boundaries of the other.

    Parameters
    ----------
    first, second : parents, row by row.
    blocks : blocks of the chain.
    rng : random numbers.

    Notes
    -----
    The groups are those of the first parent's stages, then the others in the order of the second: no group is there twice. O(rows *
    groups * log(groups)).
    """
    (rows, groups), width = first.order.shape, first.starts.shape[1]
    border = 1 + (rng.random((rows, 1)) * (blocks - 1)).astype(int)
    own = (first.starts < border).sum(axis=1)[:, None]
    place = np.empty_like(first.order)
    np.put_along_axis(place, second.order, np.arange(groups)[None, :] + groups, axis=1)
    mine = np.where(np.arange(groups) < own, np.arange(groups)[None, :], groups)
    at = np.empty_like(first.order)
    np.put_along_axis(at, first.order, mine, axis=1)
    order = np.argsort(np.where(at < groups, at, place), axis=1)
    before = np.where(np.arange(width) < own, first.starts, blocks)
    behind = np.where(second.starts >= border, second.starts, blocks)
    return Genomes(order, np.sort(np.concatenate([before, behind], axis=1), axis=1)[:, :width].copy())


class Mutation:
    """Mutations of allocations.

    Each of them takes valid genomes of its own, one allocation a row, changes their arrays, and returns the mutated ones, which may have
    empty stages, exceed memory or share devices until `Evaluation.valid` and `Evaluation.repaired`.

    Parameters
    ----------
    evaluation : of the problem.
    least_largest_s : seconds that no largest stage is below.
    rng : random numbers.
    """

    def __init__(self, evaluation: Evaluation, least_largest_s: float, rng: np.random.Generator) -> None:
        self.evaluation, self.least_largest_s, self.rng = evaluation, least_largest_s, rng
        self.blocks = evaluation.blocks
        free = evaluation.stages is None
        kinds: list[tuple[Callable[[Genomes], Genomes], float]] = [
            (self.shift, 0.32),
            (self.ripple, 0.14),
            (self.exchange, 0.2),
            (self.replace, 0.12),
            (self.move, 0.1),
            (self.merge, 0.05 * free),
            (self.split, 0.07 * free),
        ]
        self._kinds = [kind for kind, _ in kinds]
        chances = np.array([chance for _, chance in kinds])
        self._chances = np.cumsum(chances / chances.sum())

    def apply(self, genomes: Genomes, which: np.ndarray) -> None:
        """Apply one mutation, drawn for each, to some rows.

        Parameters
        ----------
        genomes : changed in place.
        which : rows.
        """
        kinds = np.searchsorted(self._chances, self.rng.random(len(which)), side="right")
        for at, kind in enumerate(self._kinds):
            rows = which[kinds == at]
            if len(rows):
                changed = kind(genomes.rows(rows))
                genomes.order[rows], genomes.starts[rows] = changed
        np.clip(genomes.starts, 0, self.blocks, out=genomes.starts)

    def refill(self, genomes: Genomes, which: np.ndarray, largest_s: np.ndarray) -> None:
        """Refill the stages of some rows: every stage takes blocks up to a limit drawn between the least possible and 1.01 of the present.

        Parameters
        ----------
        genomes : changed in place.
        which : rows.
        largest_s : (rows of `which`,) the present largest stage of each, seconds.
        """
        filled = self.evaluation.filled(genomes.rows(which), self.limit_s(largest_s), bool(self.rng.random() < 0.5))
        genomes.starts[which] = filled.starts

    def limit_s(self, largest_s: np.ndarray) -> np.ndarray:
        """Return (rows,) limits of the largest stage, drawn between the least possible and 1.01 of the present.

        Parameters
        ----------
        largest_s : (rows,) the present largest stage of each, seconds.
        """
        reach = 10.0 ** (-_FINE * self.rng.random(len(largest_s)))
        top = np.maximum(1.01 * largest_s, self.least_largest_s)
        return np.asarray(top - reach * (top - self.least_largest_s))

    def shift(self, genomes: Genomes) -> Genomes:
        """Shift one boundary by some blocks, as far as its stages have them."""
        starts = genomes.starts
        rows, at, counts = self._stage(genomes, 1)
        far = self.rng.geometric(_FAR, len(rows)) * self._sign(len(rows))
        stage_end = np.where(at + 1 < counts, starts[rows, np.minimum(at + 1, starts.shape[1] - 1)], self.blocks)
        shifted = np.clip(starts[rows, at] + far, starts[rows, np.maximum(at - 1, 0)] + 1, np.maximum(stage_end - 1, 1))
        starts[rows, at] = np.where(counts > 1, shifted, starts[rows, at])
        return genomes

    def ripple(self, genomes: Genomes) -> Genomes:
        """Shift a run of boundaries by one block: one stage loses a block, another far from it gets one."""
        starts = genomes.starts
        rows, first, counts = self._stage(genomes, 1)
        _, last, _ = self._stage(genomes, 1)
        places = np.arange(starts.shape[1])
        run = (places >= np.minimum(first, last)[:, None]) & (places <= np.maximum(first, last)[:, None]) & (places < counts[:, None])
        shifted = np.clip(starts + self._sign(len(rows))[:, None], 1, self.blocks - 1)
        starts[:, 1:] = np.where(run, shifted, starts)[:, 1:]
        return genomes

    def exchange(self, genomes: Genomes) -> Genomes:
        """Exchange two stages: only their groups, or the number of their blocks too."""
        rows, one, _ = self._stage(genomes)
        _, other, _ = self._stage(genomes)
        taken = np.tile(np.arange(genomes.order.shape[1]), (len(rows), 1))
        taken[rows, one], taken[rows, other] = other, one
        return self._reordered(genomes, taken)

    def move(self, genomes: Genomes) -> Genomes:
        """Bring one stage to another place: only its group, or its number of blocks too."""
        rows, one, _ = self._stage(genomes)
        _, other, _ = self._stage(genomes)
        return self._reordered(genomes, self._taken(genomes.order.shape[1], rows, one, other + np.where(other > one, 0.5, -0.5)))

    def replace(self, genomes: Genomes) -> Genomes:
        """Give one stage to a group that is not used; where all are, exchange two."""
        order = genomes.order
        rows, at, counts = self._stage(genomes)
        spare, drawn = order.shape[1] - counts, self.rng.random(len(rows))
        other = np.where(spare > 0, counts + (drawn * spare).astype(int), (drawn * counts).astype(int))
        order[rows, at], order[rows, other] = order[rows, other], order[rows, at]
        return genomes

    def merge(self, genomes: Genomes) -> Genomes:
        """Give all blocks of one stage to the one before it, or the one behind it."""
        starts = genomes.starts
        rows, at, counts = self._stage(genomes)
        behind = np.minimum(at + 1, starts.shape[1] - 1)
        stage_end = np.where(at + 1 < counts, starts[rows, behind], self.blocks)
        forward = (self.rng.random(len(rows)) < 0.5) & (at + 1 < counts) | (at == 0)
        here = rows[~forward]
        starts[here, at[~forward]] = stage_end[~forward]
        here = rows[forward & (at + 1 < counts)]
        starts[here, at[here] + 1] = starts[here, at[here]]
        return genomes

    def split(self, genomes: Genomes) -> Genomes:
        """Give a part of one stage to a group that is not used, before or behind it."""
        order, starts = genomes
        rows, at, counts = self._stage(genomes)
        stage_end = np.where(at + 1 < counts, starts[rows, np.minimum(at + 1, starts.shape[1] - 1)], self.blocks)
        held = stage_end - starts[rows, at]
        rows = np.flatnonzero((held > 1) & (counts < starts.shape[1]) & (counts < order.shape[1]))
        at, counts, held = at[rows], counts[rows], held[rows]
        boundary = starts[rows, at] + 1 + (self.rng.random(len(rows)) * (held - 1)).astype(int)
        spare = counts + (self.rng.random(len(rows)) * (order.shape[1] - counts)).astype(int)
        place = at + np.where(self.rng.random(len(rows)) < 0.5, 0.5, -0.5)
        order[rows] = np.take_along_axis(order[rows], self._taken(order.shape[1], np.arange(len(rows)), spare, place), axis=1)
        starts[rows, counts] = boundary
        starts[rows] = np.sort(starts[rows], axis=1)
        return genomes

    def _reordered(self, genomes: Genomes, taken: np.ndarray) -> Genomes:
        """Return stages in another order; half the rows take their number of blocks along."""
        order, starts = genomes
        width = starts.shape[1]
        held = np.diff(starts, axis=1, append=self.blocks)
        moved = np.cumsum(np.take_along_axis(held, taken[:, :width], axis=1), axis=1)
        along = (self.rng.random(len(order)) < 0.5)[:, None]
        starts[:, 1:] = np.where(along, moved[:, :-1], starts[:, 1:])
        return Genomes(np.take_along_axis(order, taken, axis=1), starts)

    def _taken(self, groups: int, rows: np.ndarray, one: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return the permutations that bring one element to a place between others."""
        key = np.tile(np.arange(groups, dtype=float), (len(rows), 1))
        key[rows, one] = place
        return np.argsort(key, axis=1)

    def _stage(self, genomes: Genomes, first: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return all rows, a stage of each from `first` on, often the one that takes longest, and their numbers of stages.

        With `first` 1 the stage stands for the boundary before it: that before or after the longest stage.
        """
        starts = genomes.starts
        counts = (starts < self.blocks).sum(axis=1)
        drawn = first + (self.rng.random(len(starts)) * np.maximum(counts - first, 1)).astype(int)
        often = np.flatnonzero(self.rng.random(len(starts)) < _LONGEST)
        if len(often):
            longest = self.evaluation.load_s(genomes.rows(often)).argmax(axis=1)
            aside = longest + first * (self.rng.random(len(often)) < 0.5)
            drawn[often] = np.clip(aside, first, np.maximum(counts[often] - 1, first))
        return np.arange(len(starts)), np.minimum(drawn, starts.shape[1] - 1), counts

    def _sign(self, rows: int) -> np.ndarray:
        return np.where(self.rng.random(rows) < 0.5, 1, -1)
