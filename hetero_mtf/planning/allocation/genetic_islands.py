"""The island model of the genetic allocator: populations that evolve apart, with migration between them."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation.fluid_bound import Fluid
from hetero_mtf.planning.allocation.genetic_decode import decoded, drawn_sequences
from hetero_mtf.planning.allocation.genetic_operators import Mutation, crossover
from hetero_mtf.planning.allocation.genetic_population import Evaluation, Genomes
from hetero_mtf.planning.allocation.partition import equal_partition, proportional_partition, proportional_starts
from hetero_mtf.planning.allocation.problem import ChainProblem

STATE_VERSION = 1


@dataclasses.dataclass(frozen=True)
class Evolution:
    """Options of the genetic algorithm.

    Parameters
    ----------
    generations : most generations, at least 1.
    stopping : generations without a better allocation after which the evolution stops.
    islands : number of islands.
    kept : population size of an island: allocations that survive to the next generation.
    children : children of an island in each generation.
    migration : generations between migrations, in which the best of each island replaces the last of the next one, in a ring.
    patience : generations without a better allocation after which an island, other than that of the best, is restarted.
    crossing, refilling : fractions of the children that have two parents; whose stages are refilled.
    decoding : mean number of children of a generation whose order of groups is decoded into its best partition.
    """

    generations: int = 600
    stopping: int = 250
    islands: int = 4
    kept: int = 24
    children: int = 96
    migration: int = 25
    patience: int = 40
    crossing: float = 0.3
    refilling: float = 0.3
    decoding: float = 4.0


class IslandModel:
    """The populations of all islands, and their evolution by generations.

    Parameters
    ----------
    stages : number of stages; None for any.
    seed : of all random numbers.
    """

    def __init__(self, problem: ChainProblem, stages: int | None, evolution: Evolution, seed: int, state: Any = None) -> None:
        self.problem, self.evolution = problem, evolution
        self.evaluation = Evaluation(problem, stages)
        self.rng = np.random.default_rng(seed)
        self.mutation = Mutation(self.evaluation, Fluid(problem).least_largest_s, self.rng)
        self.generation = 0
        self.history: list[float] = []
        islands = [self._fresh(evolution.kept) for _ in range(evolution.islands)]
        self.genomes = Genomes(np.concatenate([g.order for g in islands]), np.concatenate([g.starts for g in islands]))
        for at, partition in enumerate((equal_partition(problem, stages), proportional_partition(problem, stages))):
            self.genomes.order[at], self.genomes.starts[at] = self.evaluation.genome(partition)
        self.genomes = self.evaluation.repaired(self.evaluation.valid(self.genomes))
        fitness = self.evaluation.fitness(self.genomes)
        self.score, self.largest_s = fitness.score, fitness.largest_s
        self.best, self.best_score = self.genomes.rows(np.array([self.score.argmin()])), float(self.score.min())
        self.island_best = self.score.reshape(evolution.islands, -1).min(axis=1)
        self.waited = np.zeros(evolution.islands, int)

    @property
    def done(self) -> bool:
        """Whether there have been all generations, or too many without a better allocation."""
        waited = self.history[-1 - self.evolution.stopping :]
        settled = len(waited) > self.evolution.stopping and waited[0] <= waited[-1] < math.inf
        return settled or self.generation >= self.evolution.generations

    def _fresh(self, rows: int) -> Genomes:
        """Return random allocations: groups by speed and chance, boundaries in proportion to speed."""
        problem, rng, width = self.problem, self.rng, self.evaluation.width
        groups = len(problem.groups)
        speed = 1.0 / np.maximum(problem.prefix_s[:, -1], 1e-300)
        # Gumbel noise of scale s on log speed: drawn without replacement by speed^(1/s)
        order = np.argsort(-np.log(speed) - rng.gumbel(size=(rows, groups)) * rng.uniform(0.1, 1.5, (rows, 1)), axis=1)
        counts = rng.integers(1, width + 1, rows) if self.evaluation.stages is None else np.full(rows, width)
        for row, count in enumerate(counts):
            order[row, :count] = rng.permutation(order[row, :count])
        shares = np.where(np.arange(width) < counts[:, None], speed[order[:, :width]], 0.0)
        starts = np.where(np.arange(width) < counts[:, None], proportional_starts(problem, shares), problem.blocks)
        return Genomes(order, starts)

    def step(self) -> None:
        """Evolve by one generation."""
        e, rng = self.evolution, self.rng
        rows = e.islands * e.children
        base = np.repeat(np.arange(e.islands) * e.kept, e.children)
        # each parent is the better of two, of the rows of an island which are in order
        first = base + np.minimum(rng.integers(0, e.kept, rows), rng.integers(0, e.kept, rows))
        second = base + np.minimum(rng.integers(0, e.kept, rows), rng.integers(0, e.kept, rows))
        children, largest_s = self.genomes.rows(first), self.largest_s[first]
        two = np.flatnonzero(rng.random(rows) < e.crossing)
        order, starts = crossover(children.rows(two), self.genomes.rows(second[two]), self.problem.blocks, rng)
        children.order[two], children.starts[two] = order, starts
        changed = rng.random(rows)
        self.mutation.apply(children, np.flatnonzero(changed < 0.9))
        children = self.evaluation.valid(children)
        again = np.flatnonzero(changed < 0.35)
        self.mutation.apply(children, again)
        children = self.evaluation.valid(children)
        refilled = np.flatnonzero(rng.random(rows) < e.refilling)
        self.mutation.refill(children, refilled, largest_s[refilled])
        self._decode(children, largest_s)
        children = self.evaluation.repaired(self.evaluation.valid(children))
        fitness = self.evaluation.fitness(children)
        self._select(children, fitness.score, fitness.largest_s)
        self.generation += 1
        if self.generation % e.migration == 0:
            self._migrate()
        self._renew()
        self.history.append(self.best_score if self.best_score < self.evaluation.too_much else math.inf)

    def _decode(self, children: Genomes, largest_s: np.ndarray) -> None:
        """Decode the orders of some children, with stages and transfers up to a limit as `Mutation.refill` draws it."""
        wanted = int(self.evolution.decoding + self.rng.random()) if self.evolution.decoding else 0
        if not wanted:
            return
        which = self.rng.choice(len(largest_s), min(wanted, len(largest_s)), replace=False)
        rows = self.evaluation.valid(children.rows(which))
        sequences = drawn_sequences(self.evaluation, rows, self.rng)
        # an order of which nothing fits yet may have any largest stage
        limit_s = np.where(self.evaluation.broken(rows) > 0, self.evaluation.too_much, self.mutation.limit_s(largest_s[which]))
        children.order[which], children.starts[which] = decoded(self.evaluation, rows, sequences, limit_s)

    def _select(self, children: Genomes, score: np.ndarray, largest_s: np.ndarray) -> None:
        e = self.evolution

        def joined(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            shape = (e.islands, -1, *old.shape[1:])
            return np.concatenate([old.reshape(shape), new.reshape(shape)], axis=1)

        scores = joined(self.score, score)
        by = np.argsort(scores, axis=1, kind="stable")
        ranked = np.take_along_axis(scores, by, axis=1)
        twin = np.zeros(ranked.shape, bool)
        twin[:, 1:] = ranked[:, 1:] <= ranked[:, :-1] * (1 + 1e-12)
        kept = np.take_along_axis(by, np.argsort(twin, axis=1, kind="stable")[:, : e.kept], axis=1)
        self.score = np.take_along_axis(scores, kept, axis=1).ravel()
        self.largest_s = np.take_along_axis(joined(self.largest_s, largest_s), kept, axis=1).ravel()
        order, starts = joined(self.genomes.order, children.order), joined(self.genomes.starts, children.starts)
        self.genomes = Genomes(*(np.take_along_axis(a, kept[:, :, None], axis=1).reshape(-1, a.shape[2]) for a in (order, starts)))
        at = int(self.score.argmin())
        if self.score[at] < self.best_score:
            self.best_score, self.best = float(self.score[at]), self.genomes.rows(np.array([at]))

    def _migrate(self) -> None:
        e = self.evolution
        firsts = np.arange(e.islands) * e.kept
        # sorted by `_select`: the first of an island is its best, the last its worst, or one that is as good as another
        lasts = np.roll(firsts + e.kept - 1, -1)
        for array in (self.score, self.largest_s, self.genomes.order, self.genomes.starts):
            array[lasts] = array[firsts]

    def _renew(self) -> None:
        """Restart islands without a better allocation for `patience` generations, except the one with the best."""
        e = self.evolution
        best = self.score.reshape(e.islands, -1).min(axis=1)
        better = best < self.island_best * (1 - 1e-9)
        self.waited = np.where(better, 0, self.waited + 1)
        self.island_best = np.where(better, best, self.island_best)
        for island in np.flatnonzero(self.waited > e.patience):
            if island == int(best.argmin()):
                continue
            fresh = self.evaluation.repaired(self.evaluation.valid(self._fresh(e.kept)))
            fitness = self.evaluation.fitness(fresh)
            here = slice(island * e.kept, (island + 1) * e.kept)
            by = np.argsort(fitness.score, kind="stable")
            self.genomes.order[here], self.genomes.starts[here] = fresh.rows(by)
            self.score[here], self.largest_s[here] = fitness.score[by], fitness.largest_s[by]
            self.waited[island], self.island_best[island] = 0, fitness.score.min()

    def state(self) -> dict[str, Any]:
        """Return all that the next generation depends on, for JSON."""
        held = {name: getattr(self, name).tolist() for name in _HELD}
        genomes = {"order": self.genomes.order.tolist(), "starts": self.genomes.starts.tolist()}
        best = {"order": self.best.order.tolist(), "starts": self.best.starts.tolist(), "score": self.best_score}
        random = self.rng.bit_generator.state
        history = [None if math.isinf(value) else value for value in self.history]
        sizes = {"version": STATE_VERSION, "generation": self.generation, "shape": self._shape()}
        return {**sizes, **held, "genomes": genomes, "best": best, "random": random, "history": history}

    def _shape(self) -> list[int]:
        return [*self.genomes.order.shape, self.problem.blocks, self.evaluation.width]

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state.

        Parameters
        ----------
        state : result of `state` for the same problem and options.

        Raises
        ------
        PlanError
            If it is of another version, problem or evolution.
        """
        if state.get("version") != STATE_VERSION or state.get("shape") != self._shape():
            rows, groups, blocks, _ = self._shape()
            text = f"the state is not one of {rows} allocations of {groups} groups and {blocks} blocks"
            raise PlanError(f"{text}", "start again without a state")
        for name in _HELD:
            setattr(self, name, np.array(state[name]))
        self.genomes = Genomes(np.array(state["genomes"]["order"]), np.array(state["genomes"]["starts"]))
        self.best = Genomes(np.array(state["best"]["order"]), np.array(state["best"]["starts"]))
        self.best_score, self.generation = float(state["best"]["score"]), int(state["generation"])
        self.history = [math.inf if value is None else float(value) for value in state["history"]]
        self.rng.bit_generator.state = state["random"]


_HELD = ("score", "largest_s", "island_best", "waited")
