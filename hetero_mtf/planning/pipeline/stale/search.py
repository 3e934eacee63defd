"""Strategy pipeline under schedules without a flush: the partition whose slowest stage is fastest.

Minimise max_s busy_s over the number of stages S, the boundaries between blocks, and groups of devices that have none in common; busy_s as
in `stale.prediction`. For each S a dynamic program from the first stage on,

    F(s, j, D, g) = min over i, h of max(F(s - 1, i, D - g, h), busy(s, g, blocks i .. j - 1) + x(h, g, i))

is the least slowest stage where blocks 0 to j - 1 are in s + 1 stages on the set D of devices, the last of them on group g. It is exact for
seconds that are sums over blocks.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.planning.cost.link_cost import link_lines
from hetero_mtf.planning.cost.step_cost import StageCost
from hetero_mtf.planning.layout.blocks import blocks, crossing_bytes
from hetero_mtf.planning.layout.records import Prediction, Stage
from hetero_mtf.planning.memory.layer_memory import NetworkMemory
from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO, distinct
from hetero_mtf.planning.pipeline.group_stages import GroupStages, with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.stale.prediction import held_bytes, options_of, predict_stale
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.units import seconds_text

MOST_DEVICES = 8  # for a dynamic program over sets of devices
_State = tuple[int, int, int]  # end of the last stage, set of devices as bits, its group
_Run = tuple[int, int, int]  # group, first block, end


@dataclasses.dataclass(frozen=True)
class StalePipeline:
    """Stages with their execution and prediction.

    Parameters
    ----------
    stages : (stages,) layouts and devices, in the order of the network.
    prediction : of one step of this execution, seconds and bytes.
    """

    stages: tuple[Stage, ...]
    execution: Execution
    prediction: Prediction


def best_stale_pipeline(
    costs: MicrobatchCosts,
    execution: Execution,
    stages: int | None = None,
    devices: Sequence[int] | None = None,
    groups: bool = True,
    below_s: float = math.inf,
) -> StalePipeline:
    """Return the pipeline with the least predicted step, of two stages at least.

    Parameters
    ----------
    execution : schedule, microbatches and options.
    stages : number of stages; None for any.
    devices : indices of the devices that may be used; None for all.
    groups : whether a stage may have several devices.
    below_s : only pipelines with a shorter step are of interest, seconds.

    Raises
    ------
    NothingToSplitError
        If the network has one block only, or the cluster one device, or no pipeline is below `below_s`.
    PlanError
        If none fits in memory, or the batch cannot be cut into the microbatches.

    Notes
    -----
    O(2^devices * groups^2 * blocks^2 * stages): groups of several devices are considered among up to four devices, and no more than
    eight devices in all, the fastest.
    """
    search = _Search(costs, execution, devices, groups)
    counts = range(2, min(len(search.devices), len(search.chain)) + 1) if stages is None else [stages]
    best: StalePipeline | None = None
    for count in counts:
        faults = execution.faults(costs.profile.batch_size, count)
        if faults and stages is not None:
            raise PlanError(f"the pipeline: {'; '.join(map(str, faults))}", "correct them")
        predicted = None if faults else search.best(count)
        if predicted is not None and (best is None or predicted.prediction.step_s < best.prediction.step_s):
            best = predicted
    if best is None:
        raise PlanError(f"no pipeline of schedule {execution.schedule} fits into memory", "use smaller batches or more devices")
    if best.prediction.step_s >= below_s:
        raise NothingToSplitError(f"a pipeline takes {seconds_text(best.prediction.step_s)}/step", "use another strategy")
    return best


class _Search:
    """The dynamic program, and what it computes once."""

    def __init__(self, costs: MicrobatchCosts, execution: Execution, devices: Sequence[int] | None, groups: bool) -> None:
        self.costs, self.execution = costs, execution
        self.at = costs.at(max(costs.profile.batch_size // execution.microbatches, 1))
        self.chain = blocks(self.at.graph)
        usable = [device for device in distinct(costs.full_batch) if devices is None or device in devices]
        self.devices = sorted(usable, key=lambda device: costs.full_batch.alone_s[device])[:MOST_DEVICES]
        if len(self.chain) < 2 or len(self.devices) < 2:
            lack = f"the network has {len(self.chain)} blocks and the cluster {len(self.devices)} devices"
            raise NothingToSplitError(f"{lack}, and a pipeline needs two of each", "use strategy filters or batch")
        self.together = GroupStages(self.at, execution.microbatches)
        several = groups and len(self.devices) <= ALL_GROUPS_UP_TO
        sizes = range(1, len(self.devices) if several else 2)
        self.groups = [group for size in sizes for group in itertools.combinations(sorted(self.devices), size)]
        self.masks = [sum(1 << device for device in group) for group in self.groups]
        self.updates = 1.0 / (execution.microbatches * options_of(execution).accumulate)
        self.passes = np.array([[self._seconds(self._cost(block, group)) for block in self.chain] for group in self.groups])
        self.summed = np.concatenate([np.zeros((len(self.groups), 1, 2)), np.cumsum(self.passes, axis=1)], axis=1)
        self.sent = self._sent_s()
        self.room, self.memory = self._room(), NetworkMemory(self.at.profile)
        self.fitting: dict[tuple[int, int, int, int, int], bool] = {}

    def _cost(self, layers: Sequence[int], group: tuple[int, ...]) -> StageCost:
        return self.together.best(layers, group)[1]

    def _seconds(self, cost: StageCost) -> tuple[float, float]:
        """Return the seconds of a stage's passes and updates in a tick, and of its forward pass."""
        return cost.microbatch_s + cost.finish.seconds * self.updates, cost.forward.seconds

    def _sent_s(self) -> np.ndarray:
        """Return the (groups, groups, blocks) seconds from one group to another over the boundary before a block, one way."""
        latency, per_byte = link_lines(self.at.profile)
        crossing = np.array([0.0, *crossing_bytes(self.at.graph)]) * self.at.profile.batch_size
        sent = np.zeros((len(self.groups), len(self.groups), len(self.chain)))
        for (a, one), (b, other) in itertools.product(enumerate(self.groups), repeat=2):
            if not self.masks[a] & self.masks[b]:
                pairs = np.ix_(one, other)
                sent[a, b] = latency[pairs].max() + per_byte[pairs].max() * crossing
        return sent

    def _room(self) -> np.ndarray:
        """Return the (groups,) free bytes of the device with the least."""
        profile = self.at.profile
        free = {pool.name: pool.free_bytes for pool in profile.memory}
        rooms = [free.get(device.pool, math.inf) for device in profile.cluster.devices]
        return np.array([min(rooms[device] for device in group) for group in self.groups])

    def best(self, count: int) -> StalePipeline | None:
        """Return the best pipeline of so many stages, each with the layout that is best for it on its group; None if none fits."""
        runs = self._runs(count, checked=False)
        if runs is None or not all(self._fits(*run, number, count) for number, run in enumerate(runs)):
            runs = self._runs(count, checked=True)
        if runs is None:
            return None
        stages = [self.together.best(tuple(itertools.chain(*self.chain[first:end])), self.groups[group])[0] for group, first, end in runs]
        parts = tuple(with_samples(stage, self.costs.profile.batch_size) for stage in stages)
        rates = options_of(self.execution).rates
        execution = self.execution if len(rates) in (0, count) else dataclasses.replace(self.execution, stale=None)
        return StalePipeline(parts, execution, predict_stale(self.costs, parts, execution)[0])

    def _runs(self, count: int, checked: bool) -> list[_Run] | None:
        """Return the stages of the least slowest one; None if there is none.

        Parameters
        ----------
        checked : whether every stage has to fit into memory. That takes long to compute, and most plans fit without.
        """
        length = len(self.chain)
        steps: list[dict[_State, tuple[float, int, _State | None]]] = []  # per stage: state -> value, first block, state before
        for number in range(count):
            before = steps[-1] if steps else None
            stops = [length] if number == count - 1 else range(number + 1, length - (count - 1 - number) + 1)
            steps.append(self._step(number, count, stops, before, checked))
        if not steps[-1]:
            return None
        state: _State | None = min(steps[-1], key=lambda each: steps[-1][each][0])
        runs = []
        for step in reversed(steps):
            assert state is not None
            _, first, before_state = step[state]
            runs.append((state[2], first, state[0]))
            state = before_state
        return runs[::-1]

    def _step(
        self, number: int, count: int, stops: Sequence[int], before: dict[_State, tuple[float, int, _State | None]] | None, checked: bool
    ) -> dict[_State, tuple[float, int, _State | None]]:
        """Return F of one stage more."""
        best: dict[_State, tuple[float, int, _State | None]] = {}
        starts: list[tuple[_State | None, float]] = [(None, 0.0)]
        if before is not None:
            starts = [(state, entry[0]) for state, entry in before.items()]
        replays = options_of(self.execution).backward == "replay" and number < count - 1
        for (state, value), group in itertools.product(starts, range(len(self.groups))):
            first, taken, other = state or (0, 0, 0)
            if taken & self.masks[group]:
                continue
            back = float(self.sent[other, group, first]) if state is not None else 0.0
            for end in stops:
                slowest = max(value, self._busy(group, first, end, replays) + back) if end > first else math.inf
                key = end, taken | self.masks[group], group
                if slowest < best.get(key, (math.inf, 0, None))[0] and (not checked or self._fits(group, first, end, number, count)):
                    best[key] = slowest, first, state
        return best

    def _busy(self, group: int, first: int, end: int, replays: bool) -> float:
        spent = self.summed[group, end] - self.summed[group, first]
        return float(spent[0] + (spent[1] if replays else 0.0))

    def _fits(self, group: int, first: int, end: int, number: int, count: int) -> bool:
        if math.isinf(self.room[group]):
            return True
        key = group, first, end, number, count
        if key not in self.fitting:
            self.fitting[key] = self._held_bytes(group, first, end, number, count) <= self.room[group]
        return self.fitting[key]

    def _held_bytes(self, group: int, first: int, end: int, number: int, count: int) -> int:
        """Return the most bytes that a device of a stage holds."""
        stage = self.together.best(tuple(itertools.chain(*self.chain[first:end])), self.groups[group])[0]
        return max(held_bytes(self.at.profile, stage, number, count, self.execution, self.memory))
