"""A run of layers on a group of devices: the split of filters or of samples that makes a microbatch cheapest.

For a run of layers R and a group G, minimise over the forms F = {filters in pairs, filters gathered, samples} the seconds
t(R, G, F, n) of a microbatch, where n are the integer sizes of the parts of G's devices, optimal for each form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import StageCost, stage_cost
from hetero_mtf.planning.layout.arrangement import Arrangement, arrange
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.layout.stage_from_layouts import full_stage, replicated, split_by_samples, unsplit_stage
from hetero_mtf.planning.memory.stage_memory import StageBytes, stage_bytes
from hetero_mtf.planning.solvers.apportionment import proportional
from hetero_mtf.planning.strategies.split_search import Sizer

FORMS = ("pairs", "gather", "batch")


class GroupStages:
    """Stages of one network at one microbatch; sizes, layouts and seconds are computed once for each run of layers.

    Parameters
    ----------
    costs : costs of a profile at the batch size of a microbatch.
    microbatches : M, how many of them make a step.
    recompute : whether backward passes recompute activations.

    Notes
    -----
    Under recomputation every stage has each forward pass twice. The exception is a single microbatch, whose backward pass follows
    its forward pass at once on every device. The last stage has no second forward pass for other microbatches either
    (`clock_table.kept`), so J is an upper bound of the scheduled seconds.
    """

    def __init__(self, costs: Costs, microbatches: int, recompute: bool = False) -> None:
        self.costs, self.microbatches, self.recompute = costs, microbatches, recompute
        self._recomputes = recompute and microbatches > 1
        self._sizer = Sizer(costs)
        self._arrangements: dict[tuple[tuple[int, ...], str], Arrangement] = {}
        self._alone: dict[tuple[int, ...], np.ndarray] = {}
        self._held: dict[tuple[tuple[int, ...], int], StageBytes] = {}

    def best(self, layers: Sequence[int], devices: Sequence[int], replicas: Sequence[int] = ()) -> tuple[Stage, StageCost]:
        """Return the stage whose microbatches take least on a group, and what it costs.

        Parameters
        ----------
        layers : indices of its layers, in order.
        devices : indices of the group's devices.
        replicas : (devices,) samples of a batch that each device takes, which fixes the layout; empty for any layout.

        Notes
        -----
        The candidates are the split of filters with columns and rows in pairs, that with every layer gathered, and the split of
        samples, each with the optimal sizes of its segments. Devices without work stay in the group. O(forms * layers * devices).
        """
        run, group = tuple(layers), tuple(devices)
        if replicas:
            stage = full_stage(split_by_samples(self.costs.graph, run, proportional(self.costs.profile.batch_size, replicas).sizes), group)
            return stage, self.cost(stage)
        if len(group) == 1:
            stage = unsplit_stage(self.costs.graph, run, group[0])
            return stage, self.cost(stage)
        stages = [stage for form in FORMS for stage in self._split(run, group, form)]
        if not stages:  # nothing in it can be split: every device computes all of it
            stages = [full_stage(replicated(self.costs.graph, run), group)]
        candidates = [(stage, self.cost(stage)) for stage in stages]
        return min(candidates, key=lambda pair: self.seconds(pair[1]))

    def seconds(self, cost: StageCost) -> float:
        """Return the seconds of one microbatch in a stage, its part of the end of the step included."""
        recompute_s = cost.forward.seconds if self._recomputes else 0.0
        return cost.microbatch_s + recompute_s + cost.finish.seconds / self.microbatches

    def alone(self, layers: Sequence[int]) -> np.ndarray:
        """Return the (devices,) `seconds` of a run of layers on each device of the cluster alone.

        Parameters
        ----------
        layers : indices of its layers.
        """
        run = tuple(layers)
        if run not in self._alone:
            self._alone[run] = self._alone_s(run)
        return self._alone[run]

    def held(self, layers: Sequence[int], device: int) -> StageBytes:
        """Return the bytes that a run of layers holds on one device alone.

        Parameters
        ----------
        layers : indices of its layers.
        device : index of the device.
        """
        key = tuple(layers), device
        if key not in self._held:
            stage = unsplit_stage(self.costs.graph, layers, device)
            self._held[key] = stage_bytes(self.costs.profile, stage, self.recompute, self.costs.memory)
        return self._held[key]

    def cost(self, stage: Stage) -> StageCost:
        """Return the cost of a stage.

        Parameters
        ----------
        stage : a stage; the samples of its layouts sum to a microbatch.
        """
        return stage_cost(self.costs, stage)

    def _alone_s(self, layers: Sequence[int]) -> np.ndarray:
        costs, seconds = self.costs, np.zeros(len(self.costs.profile.cluster.devices))
        for index in layers:
            seconds = seconds + (1 + self._recomputes) * costs.tables.rows(index, "replicated", "forward")[:, -1]
            if costs.trains_before[index]:
                seconds = seconds + costs.tables.rows(index, "replicated", "backward")[:, -1]
            if costs.graph.owner(index) == index:
                seconds = seconds + costs.tables.rows(index, "replicated", "update")[:, -1] / self.microbatches
        return seconds

    def _split(self, layers: tuple[int, ...], devices: tuple[int, ...], form: str) -> list[Stage]:
        """Return the stage of a form, none where nothing would be split."""
        graph = self.costs.graph
        if form == "batch":
            samples = self._sizer.samples(frozenset(layers), devices)
            return [full_stage(split_by_samples(graph, layers, samples), devices)] if min(samples) else []
        arrangement = self._arrangement(layers, form)
        if not arrangement.segments:
            return []
        rows = {segment.layers[0]: self._sizer.units(segment, arrangement, devices) for segment in arrangement.segments}
        sizes = {index: rows[segment.layers[0]] for segment in arrangement.segments for index in segment.layers}
        layouts = [LayerLayout(i, graph.layers[i].name, arrangement.layouts[i], sizes.get(i, ())) for i in layers]
        return [full_stage(layouts, devices)]

    def _arrangement(self, layers: tuple[int, ...], pairing: str) -> Arrangement:
        """Return the layouts of a run of layers, whose inputs from outside are not split."""
        if (layers, pairing) not in self._arrangements:
            graph = self.costs.graph
            elsewhere = frozenset(range(len(graph.layers))) - frozenset(layers)
            self._arrangements[layers, pairing] = arrange(graph, pairing, elsewhere)
        return self._arrangements[layers, pairing]


def with_samples(stage: Stage, samples: int) -> Stage:
    """Return a stage with its batch split in the same proportion, for another number of samples.

    Parameters
    ----------
    samples : samples of a batch or of a microbatch.
    """
    layouts = [
        dataclasses.replace(entry, samples=proportional(samples, entry.samples).sizes) if entry.samples else entry
        for entry in stage.layouts
    ]
    return dataclasses.replace(stage, layouts=tuple(layouts))


def with_device_samples(stage: Stage, samples: tuple[int, ...]) -> Stage:
    """Return a stage with other samples wherever its batch is split.

    Parameters
    ----------
    samples : (devices,) samples of each device.
    """
    layouts = [dataclasses.replace(entry, samples=samples) if entry.samples else entry for entry in stage.layouts]
    return dataclasses.replace(stage, layouts=tuple(layouts))
