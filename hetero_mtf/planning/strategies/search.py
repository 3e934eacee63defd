"""The search around exact sizes: which devices, and how each layer lies."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec

import numpy as np

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.step_cost import Costs, predict
from hetero_mtf.planning.layout.arrangement import Arrangement, Segment, splits_batch
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
    stage : Stage.
    prediction : its predicted seconds.
    proof : how far its layouts are proven best; None where that was not looked at.
    """

    stage: Stage
    prediction: Prediction
    proof: Proof | None = None


@dataclasses.dataclass(frozen=True)
class SplitConfiguration:
    """What the exact sizes are found for.

    Parameters
    ----------
    form : a pairing, a border, or how samples are dealt out.
    devices : indices of the devices.
    whole : indices of the layers that are kept replicated.
    batched : indices of the dense layers that split the batch all the same.
    rows : rows of the mesh where samples and filters are split along two axes; 0 for a mesh of one axis.
    """

    form: str
    devices: tuple[int, ...]
    whole: frozenset[int] = frozenset()
    batched: frozenset[int] = frozenset()
    rows: int = 0


def finished(costs: Costs, candidate: Candidate, gradient_sync: str = "all_reduce") -> Candidate:
    """Return a candidate that a search compared by seconds alone, with all of its prediction.

    Parameters
    ----------
    costs : Costs of the profile.
    candidate : the candidate.
    gradient_sync : as in a Plan.
    """
    return dataclasses.replace(candidate, prediction=predict(costs, candidate.stage, gradient_sync))


def distinct_candidates(strategy: Callable[P, Candidate]) -> Callable[P, Candidate]:
    """Return a strategy that keeps what it found in the `Costs` it is given first, for others that ask for the same.

    Parameters
    ----------
    strategy : function of Costs and whatever else decides what it finds.
    """

    @functools.wraps(strategy)
    def found(*arguments: P.args, **options: P.kwargs) -> Candidate:
        costs, *others = arguments
        assert isinstance(costs, Costs)
        name = f"{strategy.__name__}{others}{sorted(options.items())}"
        if name not in costs.kept:
            costs.kept[name] = strategy(*arguments, **options)
        kept = costs.kept[name]
        assert isinstance(kept, Candidate)
        return kept

    return found


def device_sets(count: int) -> list[tuple[int, ...]]:
    """Return the sets of devices to start from, the largest first: all sets of two or more up to six devices, else everyone."""
    everyone = tuple(range(count))
    if not 2 < count <= ALL_SETS_UP_TO:
        return [everyone]
    return [chosen for size in range(count, 1, -1) for chosen in itertools.combinations(everyone, size)]


def without_each(choice: SplitConfiguration) -> list[SplitConfiguration]:
    """Return the choices with one device less."""
    return [dataclasses.replace(choice, devices=tuple(d for d in choice.devices if d != device)) for device in choice.devices]


def with_each_replicated(choice: SplitConfiguration, layouts: Sequence[str]) -> list[SplitConfiguration]:
    """Return the choices with one column, and so the segment that it starts, kept whole."""
    return [dataclasses.replace(choice, whole=frozenset({index})) for index, layout in enumerate(layouts) if layout == "column"]


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
    starts : choices to start from.
    candidate : the candidate of a choice.
    neighbours : the choices beside one.
    allowed : whether a choice may be gone to.
    tries : neighbours that a sweep looks at; of more, as many at even distances. None for all.

    Notes
    -----
    Each neighbour of the present choice is taken at once if it lowers the predicted step, and its own neighbours are tried in the
    next sweep, of which there are at most three; what a sweep found early is not undone. At least two devices are kept unless the
    start itself leaves all but one without work: one device is the business of strategy "single". Heuristic, never worse than
    where it starts.
    """
    known: dict[SplitConfiguration, Candidate] = {}

    def made(choice: SplitConfiguration) -> Candidate:
        if choice not in known:
            known[choice] = candidate(choice)
        return known[choice]

    best = min(starts, key=lambda choice: made(choice).prediction.step_s)
    for _ in range(SWEEPS):
        before = best
        for other in _some(neighbours(before), tries):
            changed = _with_change(best, before, other)
            if changed.devices and changed != best and allowed(changed) and _improves(made(changed), made(best)):
                best = changed
        if best == before:
            break
    return made(best)


def tries(graph: LayerGraph) -> int:
    """Return how many neighbours a sweep looks at: up to 12,000 layers' worth of plans, eight at least.

    What is not looked at is left to the layout program, which decides on all layers at once.

    Parameters
    ----------
    graph : LayerGraph.
    """
    return max(LEAST_TRIES, TRIED_LAYERS // len(graph.layers))


def _some(choices: Sequence[SplitConfiguration], most: int | None) -> Sequence[SplitConfiguration]:
    """Return as many choices at even distances."""
    if most is None or len(choices) <= most:
        return choices
    return [choices[at * len(choices) // most] for at in range(most)]


def _with_change(best: SplitConfiguration, before: SplitConfiguration, other: SplitConfiguration) -> SplitConfiguration:
    """Return `best` with what sets `other` apart from `before`."""
    left_out = set(before.devices) - set(other.devices)
    devices = tuple(d for d in best.devices if d not in left_out)
    return dataclasses.replace(best, devices=devices, whole=best.whole | other.whole, batched=best.batched | other.batched)


def _improves(other: Candidate, best: Candidate) -> bool:
    splits = len(other.stage.devices) >= min(2, len(best.stage.devices))
    return splits and other.prediction.step_s < best.prediction.step_s * (1 - 1e-9)


class Sizer:
    """Exact whole sizes for sets of layers and devices, each found once.

    Parameters
    ----------
    costs : Costs of a profile.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._units: dict[tuple[tuple[tuple[int, str], ...], tuple[int, ...]], tuple[int, ...]] = {}
        self._samples: dict[tuple[frozenset[int], tuple[int, ...], bool], tuple[int, ...]] = {}

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
        updates : whether nothing is waited for before the update of the whole network, so that it counts too.

        Notes
        -----
        Layers that take no time, such as an input, are split evenly.
        """
        key = (layers, devices, updates)
        if key not in self._samples:
            self._samples[key] = self._dealt(layers, devices, updates)
        return self._samples[key]

    def _dealt(self, layers: frozenset[int], devices: tuple[int, ...], updates: bool) -> tuple[int, ...]:
        batch = self.costs.profile.batch_size
        splitting = [layer for layer in sorted(layers) if splits_batch(self.costs.graph.layers[layer])]
        tables = list(self.costs.batch_rows(splitting)[list(devices)])
        if not any(table[-1] for table in tables):
            return equal_sizes(batch, len(devices)).sizes
        if updates:
            tables = [table + self.costs.update_s(device) for table, device in zip(tables, devices)]
        return minimise_maximum(self._on_shared_devices(tables, devices), batch).sizes

    def _on_shared_devices(self, tables: Sequence[np.ndarray], devices: Sequence[int]) -> list[np.ndarray]:
        """Return the tables of processors that take turns on one TensorFlow device, so each is that much slower."""
        return [count * table for count, table in zip(self.costs.processors_per_device(devices).tolist(), tables)]
