"""The filter split: sizes of every segment at the exact optimum, over the segments and devices worth splitting over."""

from __future__ import annotations

import dataclasses
import itertools

from hetero_mtf.planning.cost import Costs, predict
from hetero_mtf.planning.layout import PAIRINGS, Arrangement, Segment, arrange
from hetero_mtf.planning.records import Prediction, Stage
from hetero_mtf.planning.sizes import minimise_maximum
from hetero_mtf.planning.typed import sized_stage


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A stage with its prediction.

    Parameters
    ----------
    stage : Stage.
    prediction : its predicted seconds.
    """

    stage: Stage
    prediction: Prediction


SWEEPS = 3
ALL_SETS_UP_TO = 6

_Change = tuple[frozenset[int], frozenset[int]]  # devices to leave out, layers to keep whole


@dataclasses.dataclass(frozen=True)
class _Choice:
    pairing: str
    devices: tuple[int, ...]
    whole: frozenset[int] = frozenset()


def best_filters(costs: Costs) -> Candidate:
    """Return the cheapest split of the filters that the search finds.

    For one choice of devices, pairing and replicated layers, the sizes of each segment minimise
    max_d sum over its layers of forward + backward + update seconds at u_d units, subject to sum_d u_d = units, zero allowed.

    Parameters
    ----------
    costs : Costs of a profile.

    Notes
    -----
    The sizes of a segment are exact (`minimise_maximum`). The choice around them is heuristic: the best pairing and set of
    devices (all sets up to six devices, else everyone), and from there a descent that keeps a layer whole that would start a
    segment, or leaves out a device, while that lowers the predicted step; never worse than where it starts. At least two
    devices are kept unless the exact sizes of the start leave all but one at zero: one device is the business of strategy
    "single". At most three sweeps over the layers: O(layers^2 * devices) once the curves are tabulated.
    """
    search = _Search(costs)
    starts = itertools.product(PAIRINGS, _device_sets(len(costs.profile.cluster.devices)))
    best = min((_Choice(pairing, devices) for pairing, devices in starts), key=search.step_s)
    for _ in range(SWEEPS):
        before = best
        for other in search.neighbours(best):
            best = search.improved(best, other)
        if best == before:
            break
    return search.candidate(best)


def _device_sets(count: int) -> list[tuple[int, ...]]:
    """Return the sets of devices to start from, the largest first."""
    everyone = tuple(range(count))
    if not 2 < count <= ALL_SETS_UP_TO:
        return [everyone]
    return [chosen for size in range(count, 1, -1) for chosen in itertools.combinations(everyone, size)]


class _Search:
    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._candidates: dict[_Choice, Candidate] = {}
        self._sizes: dict[tuple[tuple[tuple[int, str], ...], tuple[int, ...]], tuple[int, ...]] = {}

    def candidate(self, choice: _Choice) -> Candidate:
        if choice not in self._candidates:
            arrangement = arrange(self.costs.graph, choice.pairing, choice.whole)
            sizes = [self._segment_sizes(segment, arrangement, choice.devices) for segment in arrangement.segments]
            stage = sized_stage(self.costs.graph, arrangement, sizes, choice.devices, choice.devices[0])
            self._candidates[choice] = Candidate(stage, predict(self.costs, stage))
        return self._candidates[choice]

    def step_s(self, choice: _Choice) -> float:
        return self.candidate(choice).prediction.step_s

    def improved(self, best: _Choice, other: _Change) -> _Choice:
        """Return `best` with the change made if that is still possible and lowers the step."""
        without, whole = other
        devices = tuple(d for d in best.devices if d not in without)
        choice = dataclasses.replace(best, devices=devices, whole=best.whole | whole)
        if choice == best or not devices:
            return best
        splits = len(self.candidate(choice).stage.devices) >= min(2, len(self.candidate(best).stage.devices))
        return choice if splits and self.step_s(choice) < self.step_s(best) * (1 - 1e-9) else best

    def neighbours(self, choice: _Choice) -> list[_Change]:
        """Return the changes to try: a layer kept whole, or a device left out."""
        layouts = arrange(self.costs.graph, choice.pairing, choice.whole).layouts
        columns = [index for index, layout in enumerate(layouts) if layout == "column"]
        kept: list[_Change] = [(frozenset(), frozenset({index})) for index in columns]
        return kept + [(frozenset({device}), frozenset()) for device in choice.devices]

    def _segment_sizes(self, segment: Segment, arrangement: Arrangement, devices: tuple[int, ...]) -> tuple[int, ...]:
        members = tuple((layer, arrangement.layouts[layer]) for layer in segment.layers)
        key = (members, devices)
        if key not in self._sizes:
            records = self.costs.profile.cluster.devices
            names = [records[d].tf_device for d in devices]
            turns = [names.count(name) for name in names]  # processors on one device take turns, so each is that much slower
            tables = [[n * s for s in self.costs.summed_table(members, d)] for n, d in zip(turns, devices)]
            self._sizes[key] = minimise_maximum(tables, segment.units).sizes
        return self._sizes[key]
