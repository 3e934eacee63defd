"""The filter split: sizes of every segment at the exact optimum, over the segments and devices worth splitting over."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

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
    The sizes of a segment are exact (`minimise_maximum`). The choice around them is a descent: start with every device and the
    cheaper pairing; leave out a device, or keep a layer whole that would start a segment, while that lowers the predicted
    step. It is heuristic in those choices, never worse than where it starts. At least two devices are kept unless the exact
    sizes themselves leave all but one at zero: one device is the business of strategy "single".
    O(layers^2 * devices) once the curves are tabulated.
    """
    search = _Search(costs)
    everyone = tuple(range(len(costs.profile.cluster.devices)))
    best = min((_Choice(pairing, everyone) for pairing in PAIRINGS), key=search.step_s)
    improved = True
    while improved:
        improved = False
        for other in search.neighbours(best):
            if search.step_s(other) < search.step_s(best) * (1 - 1e-9):
                best, improved = other, True
                break
    return search.candidate(best)


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

    def neighbours(self, choice: _Choice) -> Iterator[_Choice]:
        for device in choice.devices if len(choice.devices) > 2 else ():
            yield dataclasses.replace(choice, devices=tuple(d for d in choice.devices if d != device))
        arrangement = arrange(self.costs.graph, choice.pairing, choice.whole)
        columns = [index for index, layout in enumerate(arrangement.layouts) if layout == "column"]
        for index in columns if len(columns) > 1 else ():
            yield dataclasses.replace(choice, whole=choice.whole | {index})

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
