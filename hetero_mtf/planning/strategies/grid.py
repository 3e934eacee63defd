"""Splits on a mesh of two axes: samples along its rows, filters along its columns."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import NothingToSplitError
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import PAIRINGS, Arrangement, arrange, splits_batch
from hetero_mtf.planning.layout.manual import Grid, grid_stage
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_grid
from hetero_mtf.planning.layout_search.layout_program import fits_in_tables, proof_of, solve_layouts
from hetero_mtf.planning.layout_search.two_axes import GridCost, grid_space
from hetero_mtf.planning.memory.shortfall import short_bytes
from hetero_mtf.planning.profile.curve import PASSES
from hetero_mtf.planning.solvers.apportionment import minimise_maximum, proportional
from hetero_mtf.planning.strategies.split_search import (
    Candidate,
    SplitConfiguration,
    descend,
    timed,
    tries,
    with_each_replicated,
    with_full_prediction,
)

LEAST_DEVICES = 4
ROUNDS = 3
MESHES = 3  # on which the layout program is solved
STAGES = 2  # the best on a mesh, whose samples and sizes it chooses from
LARGE = 20_000  # layers * devices, above which shares in proportion to speed have to do


def best_grid(costs: Costs) -> Candidate:
    """Return the cheapest split over rows and columns of devices that the search finds.

    Device (r, c) works on b_r samples with f_c of the filters. For given samples, the sizes of each segment minimise the seconds
    of the slowest device in it; for given sizes, the samples minimise those of the slowest device in the network. On the meshes
    where that is best, the layout program then decides which layers split their filters, their batch, or both (`grid_space`).

    Raises
    ------
    NothingToSplitError
        If there are fewer than four devices.

    Notes
    -----
    Heuristic. Samples and sizes start in proportion to speed and are found in turn, each exact for the other
    (`minimise_maximum`), for at most three rounds (one where layers are kept replicated); the best round counts. Tried are all
    factorisations of the number of devices (of all but the slowest where it is prime), in the cluster's order, sorted by speed
    along rows, and along columns, both pairings; from the best of these a descent keeps layers replicated (`descend`). The layout
    program is solved on the three best of these meshes, exactly in J for the samples and sizes of the two best plans there. Of
    more than 20,000 layers times devices, only shares in proportion to speed on the two meshes nearest to a square are considered.
    """
    count = len(costs.profile.cluster.devices)
    if count < LEAST_DEVICES:
        lack = f"a grid needs at least {LEAST_DEVICES} devices and there are {count}"
        raise NothingToSplitError(f"{lack}", "use strategy batch, filters or hybrid")

    tables, large = _Tables(costs), count * len(costs.graph.layers) > LARGE
    candidates: dict[SplitConfiguration, list[Candidate]] = {}

    def candidate(choice: SplitConfiguration) -> Candidate:
        arrangement = arrange(costs.graph, choice.form, choice.replicated)
        grid = _Grid(tables, arrangement, np.reshape(choice.devices, (choice.rows, -1)).tolist())
        stages = [grid.resized()] if choice.replicated else grid.stages(0 if large else ROUNDS)
        candidates[choice] = [timed(costs, stage) for stage in stages]
        return min(candidates[choice], key=lambda c: c.prediction.step_s)

    def neighbours(choice: SplitConfiguration) -> list[SplitConfiguration]:
        return [] if large else with_each_replicated(choice, arrange(costs.graph, choice.form, choice.replicated).layouts)

    best = descend(_starts(costs, large), candidate, neighbours, tries=tries(costs.graph))
    if not large:
        best = _by_program(costs, best, list(itertools.chain.from_iterable(candidates.values())))
    return with_full_prediction(costs, best)


def _by_program(costs: Costs, best: Candidate, known: Sequence[Candidate]) -> Candidate:
    """Return the cheapest of a plan and those that the layout program finds on the best meshes, with the proof of its layouts there.

    One that is short of more memory than the plan is passed over.
    """
    short = short_bytes(costs.profile, best.stage, costs.memory)
    meshes: dict[tuple[object, ...], list[Stage]] = {}
    for other in sorted((c for c in known if len(c.stage.axes) > 1), key=lambda c: c.prediction.step_s):
        meshes.setdefault((other.stage.devices, other.stage.axes), []).append(other.stage)
    for stages in list(meshes.values())[:MESHES]:
        cost = GridCost(costs, grid_space(costs, stages[:STAGES]))
        if not fits_in_tables(cost):
            break
        solution = solve_layouts(cost)
        stage = trimmed_grid(solution.layouts, cost.space.devices, cost.space.rows)
        if stages[0] == best.stage:
            best = dataclasses.replace(best, proof=proof_of(cost.space, solution, cost.of(best.stage)))
        if stage is None or short_bytes(costs.profile, stage, costs.memory) > short:
            continue
        candidate = dataclasses.replace(timed(costs, stage), proof=proof_of(cost.space, solution, solution.value))
        best = candidate if candidate.prediction.step_s < best.prediction.step_s else best
    return best


def _starts(costs: Costs, large: bool) -> list[SplitConfiguration]:
    """Return the meshes to start from: all numbers of rows; if there are many devices, the two nearest to a square."""
    everyone = range(len(costs.profile.cluster.devices))
    alone_s = _alone_s(costs)
    by_speed = sorted(everyone, key=lambda device: (alone_s[device], device))
    rows = _factors(len(everyone))
    if not rows:
        by_speed = by_speed[:-1]
        rows = _factors(len(by_speed))
    starts: dict[SplitConfiguration, None] = {}
    if large:
        squarest = sorted(rows, key=lambda row: abs(row - len(by_speed) / row))[:2]
        return [SplitConfiguration(PAIRINGS[0], tuple(by_speed), rows=row) for row in squarest]
    for pairing, row in itertools.product(PAIRINGS, rows):
        along_columns = np.reshape(by_speed, (-1, row)).T.reshape(-1).tolist()
        for order in (sorted(by_speed), by_speed, along_columns):
            starts[SplitConfiguration(pairing, tuple(order), rows=row)] = None
    return list(starts)


def _factors(count: int) -> list[int]:
    """Return the divisors of a number but 1 and itself.

    >>> _factors(12), _factors(5)
    ([2, 3, 4, 6], [])
    """
    return [n for n in range(2, count) if count % n == 0]


def _alone_s(costs: Costs) -> np.ndarray:
    """Return the (devices,) seconds of a step's passes on each device alone."""
    alone_s: np.ndarray = costs.batch_rows(range(len(costs.graph.layers)))[:, -1]
    return alone_s


class _Tables:
    """Seconds by units and by samples, each added up once, and sizes that were found by them.

    Parameters
    ----------
    costs : Costs of a profile.

    Attributes
    ----------
    sized : what `_Grid` found: (members of a segment, samples of the rows, devices of the mesh) -> units of the columns.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._by_units: dict[tuple[tuple[tuple[int, str], ...], int, int], np.ndarray] = {}
        self._by_samples: dict[tuple[int, str, int, int], np.ndarray] = {}
        self.sized: dict[tuple[object, ...], tuple[int, ...]] = {}

    def by_units(self, members: tuple[tuple[int, str], ...], device: int, samples: int) -> np.ndarray:
        """Return the seconds of a segment's (layer, layout) for every number of units on a device with so many samples."""
        key = (members, device, samples)
        if key not in self._by_units:
            tables = self.costs.tables
            passes_s = [
                tables.rows(layer, layout, step_pass)[device] * tables.part_of_batch(layer, step_pass)[device, samples]
                for layer, layout in members
                for step_pass in PASSES
            ]
            self._by_units[key] = np.sum(passes_s, axis=0)
        return self._by_units[key]

    def by_samples(self, layer: int, layout: str, device: int, size: int) -> np.ndarray:
        """Return the seconds of a layer's passes for every number of samples on a device with so many units.

        A layer stands for those that take the same time: it is the first of them.
        """
        key = layer, layout, device, size
        if key not in self._by_samples:
            tables, passes = self.costs.tables, PASSES[: 2 if self.costs.trains_before[layer] else 1]
            passes_s = [
                tables.rows(layer, layout, step_pass)[device, size] * tables.part_of_batch(layer, step_pass)[device] for step_pass in passes
            ]
            self._by_samples[key] = np.sum(passes_s, axis=0)
        return self._by_samples[key]


class _Grid:
    """Samples and sizes for devices in rows and columns."""

    def __init__(self, tables: _Tables, arrangement: Arrangement, devices: Grid) -> None:
        self.tables, self.costs, self.arrangement, self.devices = tables, tables.costs, arrangement, devices
        self._mesh = tuple(map(tuple, devices))
        alike, layouts, segments = self.costs.alike, arrangement.layouts, arrangement.segments
        self._members = [tuple(sorted((alike[layer], layouts[layer]) for layer in segment.layers)) for segment in segments]
        of_layer = {layer: at for at, segment in enumerate(segments) for layer in segment.layers}
        self._split = [(alike[layer], layouts[layer], at) for layer, at in of_layer.items()]
        layers = self.costs.graph.layers
        self._unsplit = [at for at, layer in enumerate(layers) if at not in of_layer and splits_batch(layer)]

    def stages(self, rounds: int) -> list[Stage]:
        """Return the stage of every round."""
        samples, sizes = self._by_speed()
        stages = [self._stage(samples, sizes)]
        for _ in range(rounds):
            sizes = self._sizes(samples)
            samples = self._samples(sizes)
            stages.append(self._stage(samples, sizes))
            if stages[-1] == stages[-2]:
                return stages[:-1]
        return stages

    def resized(self) -> Stage:
        """Return the stage of the first round."""
        sizes = self._sizes(self._by_speed()[0])
        return self._stage(self._samples(sizes), sizes)

    def _by_speed(self) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
        """Return the samples and the sizes of each segment in proportion to speed."""
        speeds = 1 / np.maximum(_alone_s(self.costs)[np.array(self.devices)], 1e-12)
        by_row, by_column = speeds.sum(axis=1).tolist(), speeds.sum(axis=0).tolist()
        units = [segment.units for segment in self.arrangement.segments]
        sizes_by_units = {count: proportional(count, by_column).sizes for count in dict.fromkeys(units)}
        return proportional(self.costs.profile.batch_size, by_row).sizes, [sizes_by_units[count] for count in units]

    def _stage(self, samples: Sequence[int], sizes: Sequence[Sequence[int]]) -> Stage:
        return grid_stage(self.costs.graph, samples, self.arrangement, sizes, self.devices)

    def _sizes(self, samples: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the units of each column that minimise the slowest device's seconds, for each segment."""
        sized = self.tables.sized
        keys = [(members, samples, self._mesh) for members in self._members]
        for key, segment in zip(keys, self.arrangement.segments):
            if key not in sized:
                columns = [self._column_s(key[0], column, samples) for column in zip(*self.devices)]
                sized[key] = minimise_maximum(columns, segment.units).sizes
        return [sized[key] for key in keys]

    def _column_s(self, members: tuple[tuple[int, str], ...], column: Sequence[int], samples: Sequence[int]) -> np.ndarray:
        """Return the seconds of the slowest device of a column for every number of units of a segment."""
        slowest_s: np.ndarray = np.max([self.tables.by_units(members, device, count) for device, count in zip(column, samples)], axis=0)
        return slowest_s

    def _samples(self, sizes: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """Return the samples of each row that minimise the slowest device's seconds in the network."""
        columns = list(zip(*sizes)) or [()] * len(self.devices[0])
        tables = [np.max([self._network_s(device, column) for device, column in zip(row, columns)], axis=0) for row in self.devices]
        return minimise_maximum(tables, self.costs.profile.batch_size).sizes

    def _network_s(self, device: int, sizes: Sequence[int]) -> np.ndarray:
        """Return the seconds of the network for every number of samples on a device with so many units of each segment."""
        layers_s = [self.costs.batch_rows(self._unsplit)[device]]
        layers_s += [self.tables.by_samples(layer, layout, device, sizes[segment]) for layer, layout, segment in self._split]
        total: np.ndarray = np.sum(layers_s, axis=0)
        return total
