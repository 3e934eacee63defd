"""The local search that the strategies of one stage share: over devices and layouts, with exact sizes for each choice.

A configuration c states the devices, a form (a pairing, a border, a rule for the samples) and the layers whose layout departs from
that form. Its stage S(c) has the sizes that are optimal for c. The search minimises T(S(c)) over c, where T is the predicted step:
from the best of the starting configurations a descent goes to neighbouring ones while T decreases. A strategy states its forms, S,
and which configurations are neighbours (`SplitSearch`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec

import numpy as np

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.arrangement import Arrangement, Segment, splits_batch
from hetero_mtf.planning.layout.manual import sized_stage
from hetero_mtf.planning.layout.records import Prediction, Proof, Stage
from hetero_mtf.planning.solvers.apportionment import equal_sizes, minimise_maximum

P = ParamSpec("P")
SWEEPS = 3
ALL_SETS_UP_TO = 6
TRIED_LAYERS, LEAST_TRIES = 12_000, 8


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A stage with its prediction.

    Parameters
    ----------
    stage : the layouts of all layers on one mesh.
    prediction : its predicted seconds.
    proof : bound and gap of its layouts; None where they were not computed.
    """

    stage: Stage
    prediction: Prediction
    proof: Proof | None = None


@dataclasses.dataclass(frozen=True)
class SplitConfiguration:
    """The choice for which sizes are computed.

    Parameters
    ----------
    form : a pairing, a border, or the rule for the samples.
    devices : indices of the devices.
    replicated : indices of the layers that are kept replicated.
    batched : indices of the dense layers behind the border that split the batch nevertheless.
    rows : rows of the mesh where samples and filters are split along two axes; 0 for a mesh of one axis.
    """

    form: str
    devices: tuple[int, ...]
    replicated: frozenset[int] = frozenset()
    batched: frozenset[int] = frozenset()
    rows: int = 0


@dataclasses.dataclass(frozen=True)
class SplitSearch:
    """The search of one strategy: what is its own in it.

    Parameters
    ----------
    forms : forms to start from, each on every set of `device_sets`.
    stage : configuration -> its stage with the best sizes.
    neighbours : configuration -> those that differ from it in one choice.
    allowed : whether the descent may continue to a configuration.
    local_search : improves the result of the descent, predicted in seconds alone.
    gradient_sync : as in a Plan.
    """

    forms: Sequence[str]
    stage: Callable[[SplitConfiguration], Stage]
    neighbours: Callable[[SplitConfiguration], Sequence[SplitConfiguration]]
    allowed: Callable[[SplitConfiguration], bool] = lambda _: True
    local_search: Callable[[Candidate], Candidate] = lambda candidate: candidate
    gradient_sync: str = "all_reduce"

    def best(self, costs: Costs) -> Candidate:
        """Return the cheapest candidate that the search finds, with its full prediction.

        Notes
        -----
        Heuristic, as `descend`.
        """
        starts = itertools.product(self.forms, device_sets(len(costs.profile.cluster.devices)))
        best = descend(
            (SplitConfiguration(form, devices) for form, devices in starts),
            lambda choice: timed(costs, self.stage(choice), self.gradient_sync),
            self.neighbours,
            self.allowed,
            tries(costs.graph),
        )
        return with_full_prediction(costs, self.local_search(best), self.gradient_sync)


def timed(costs: Costs, stage: Stage, gradient_sync: str = "all_reduce") -> Candidate:
    """Return the candidate of a stage, predicted in seconds alone: enough to compare it in a search.

    Parameters
    ----------
    costs : Costs of the profile.
    gradient_sync : as in a Plan.
    """
    return Candidate(stage, predict(costs, stage, gradient_sync, memory=False))


def with_full_prediction(costs: Costs, candidate: Candidate, gradient_sync: str = "all_reduce") -> Candidate:
    """Return a candidate of `timed` with its memory predicted too.

    Parameters
    ----------
    costs : Costs of the profile.
    candidate : the candidate.
    gradient_sync : as in a Plan.
    """
    return dataclasses.replace(candidate, prediction=predict(costs, candidate.stage, gradient_sync))


def remembered(strategy: Callable[Concatenate[Costs, P], Candidate]) -> Callable[Concatenate[Costs, P], Candidate]:
    """Return a strategy that searches once for the same costs and options: other strategies start from what it found.

    Parameters
    ----------
    strategy : function of Costs and of everything else that its candidate depends on, which is hashable.
    """
    by_costs: weakref.WeakKeyDictionary[Costs, dict[Any, Candidate]] = weakref.WeakKeyDictionary()

    @functools.wraps(strategy)
    def remembering(costs: Costs, /, *arguments: P.args, **options: P.kwargs) -> Candidate:
        candidates, key = by_costs.setdefault(costs, {}), (arguments, *sorted(options.items()))
        if key not in candidates:
            candidates[key] = strategy(costs, *arguments, **options)
        return candidates[key]

    return remembering


def device_sets(count: int) -> list[tuple[int, ...]]:
    """Return the sets of devices to start from, the largest first: all sets of two or more up to six devices, else all devices."""
    everyone = tuple(range(count))
    if not 2 < count <= ALL_SETS_UP_TO:
        return [everyone]
    return [chosen for size in range(count, 1, -1) for chosen in itertools.combinations(everyone, size)]


def without_each(choice: SplitConfiguration) -> list[SplitConfiguration]:
    """Return the configurations with one device less."""
    return [dataclasses.replace(choice, devices=tuple(d for d in choice.devices if d != device)) for device in choice.devices]


def with_each_replicated(choice: SplitConfiguration, layouts: Sequence[str]) -> list[SplitConfiguration]:
    """Return the configurations with one column, and so the segment that it starts, replicated."""
    # the change alone: _with_change adds it to what is replicated already
    return [dataclasses.replace(choice, replicated=frozenset({index})) for index, layout in enumerate(layouts) if layout == "column"]


def descend(
    starts: Iterable[SplitConfiguration],
    candidate: Callable[[SplitConfiguration], Candidate],
    neighbours: Callable[[SplitConfiguration], Sequence[SplitConfiguration]],
    allowed: Callable[[SplitConfiguration], bool] = lambda _: True,
    tries: int | None = None,
) -> Candidate:
    """Return the cheapest candidate that a descent from the cheapest start finds.

    Parameters
    ----------
    starts : configurations to start from.
    candidate : configuration -> its candidate.
    neighbours : configuration -> those that differ from it in one choice.
    allowed : whether the descent may continue to a configuration.
    tries : neighbours that a sweep evaluates; of more, as many at even distances. None for all.

    Notes
    -----
    Each neighbour of the present configuration is taken at once if it lowers the predicted step, and its own neighbours are tried in
    the next sweep, of which there are at most three; changes that a sweep accepted early are not undone. At least two devices are kept
    unless the start itself leaves all but one without work: one device alone is strategy "single". Heuristic, never worse than its
    start.
    """
    known: dict[SplitConfiguration, Candidate] = {}

    def candidate_of(choice: SplitConfiguration) -> Candidate:
        if choice not in known:
            known[choice] = candidate(choice)
        return known[choice]

    best = min(starts, key=lambda choice: candidate_of(choice).prediction.step_s)
    for _ in range(SWEEPS):
        before = best
        for other in _some(neighbours(before), tries):
            changed = _with_change(best, before, other)
            if changed.devices and changed != best and allowed(changed) and _improves(candidate_of(changed), candidate_of(best)):
                best = changed
        if best == before:
            break
    return candidate_of(best)


def tries(graph: LayerGraph) -> int:
    """Return how many neighbours a sweep evaluates: as many as have 12,000 layers in all, eight at least.

    The others are left to the layout program, which decides on all layers at once.
    """
    return max(LEAST_TRIES, TRIED_LAYERS // len(graph.layers))


def _some(choices: Sequence[SplitConfiguration], most: int | None) -> Sequence[SplitConfiguration]:
    """Return at most so many of the configurations, at even distances."""
    if most is None or len(choices) <= most:
        return choices
    return [choices[at * len(choices) // most] for at in range(most)]


def _with_change(best: SplitConfiguration, before: SplitConfiguration, other: SplitConfiguration) -> SplitConfiguration:
    """Return `best` with the change from `before` to `other`."""
    left_out = set(before.devices) - set(other.devices)
    devices = tuple(d for d in best.devices if d not in left_out)
    return dataclasses.replace(best, devices=devices, replicated=best.replicated | other.replicated, batched=best.batched | other.batched)


def _improves(other: Candidate, best: Candidate) -> bool:
    splits = len(other.stage.devices) >= min(2, len(best.stage.devices))
    return splits and other.prediction.step_s < best.prediction.step_s * (1 - 1e-9)


class Sizer:
    """Exact integer sizes for sets of layers and devices, each computed once.

    Parameters
    ----------
    costs : Costs of a profile.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._units: dict[tuple[tuple[tuple[int, str], ...], tuple[int, ...]], tuple[int, ...]] = {}
        self._samples: dict[tuple[frozenset[int], tuple[int, ...], bool], tuple[int, ...]] = {}

    def stage(self, arrangement: Arrangement, devices: tuple[int, ...]) -> Stage:
        """Return the stage with the units of every segment, and the samples of the layers that split the batch if there are any.

        Parameters
        ----------
        arrangement : layouts of the layers and their segments.
        devices : indices of the devices.
        """
        sizes = [self.units(segment, arrangement, devices) for segment in arrangement.segments]
        batched = frozenset(index for index, layout in enumerate(arrangement.layouts) if layout == "batch")
        samples = self.samples(batched, devices) if batched else ()
        return sized_stage(self.costs.graph, arrangement, sizes, devices, devices[0], samples)

    def units(self, segment: Segment, arrangement: Arrangement, devices: tuple[int, ...]) -> tuple[int, ...]:
        """Return the units of each device that minimise the slowest one's forward, backward and update seconds in a segment.

        Parameters
        ----------
        segment : layers that share sizes.
        arrangement : their layouts.
        devices : indices of the devices.
        """
        members = tuple(sorted((self.costs.alike[layer], arrangement.layouts[layer]) for layer in segment.layers))
        key = (members, devices)
        if key not in self._units:
            tables = list(self.costs.summed_rows(members)[list(devices)])
            self._units[key] = minimise_maximum(self._on_shared_devices(tables, devices), segment.units).sizes
        return self._units[key]

    def samples(self, layers: frozenset[int], devices: tuple[int, ...], updates: bool = False) -> tuple[int, ...]:
        """Return the samples of each device that minimise the slowest one's forward and backward seconds in some layers.

        Parameters
        ----------
        layers : indices of layers that split the batch.
        devices : indices of the devices.
        updates : whether devices wait for nothing before the update of the network, so that its seconds count too.

        Notes
        -----
        Layers that take no time, such as an input, are split equally.
        """
        key = (layers, devices, updates)
        if key not in self._samples:
            self._samples[key] = self._minimised_samples(layers, devices, updates)
        return self._samples[key]

    def _minimised_samples(self, layers: frozenset[int], devices: tuple[int, ...], updates: bool) -> tuple[int, ...]:
        batch = self.costs.profile.batch_size
        splitting = [layer for layer in sorted(layers) if splits_batch(self.costs.graph.layers[layer])]
        tables = list(self.costs.batch_rows(splitting)[list(devices)])
        if not any(table[-1] for table in tables):
            return equal_sizes(batch, len(devices)).sizes
        if updates:
            tables = [table + self.costs.update_s(device) for table, device in zip(tables, devices)]
        return minimise_maximum(self._on_shared_devices(tables, devices), batch).sizes

    def _on_shared_devices(self, tables: Sequence[np.ndarray], devices: Sequence[int]) -> list[np.ndarray]:
        """Return the tables of processors of which several run in turn on one TensorFlow device, which multiplies their seconds."""
        return [count * table for count, table in zip(self.costs.processors_per_device(devices).tolist(), tables)]
