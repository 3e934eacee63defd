"""RoughErrors: how far rough profiles were from traced layers in recordings, to draw the truth of a simulated training from."""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.profile.corrections import Corrections, LayerFactor
from hetero_mtf.planning.profile.curve import ALONE
from hetero_mtf.planning.profile.profile import Profile, alike
from tools.bench.start.start_trace import StartTrace

Class = tuple[bool, str]  # whether a layer mixes channels, and its pass
PLAN_ERROR = 0.06  # of ln(step) of corrected profiles: 4 % in the median of docs/results/prediction.json, where recordings tell too little
LINK_ERROR = 0.25  # of ln(seconds) of a measured link, as far as that of a step by a rough profile
FEWEST = 8  # errors of plans from which their spread is taken
WIDEST = 20.0  # times: traced layers that are further off take next to nothing


@dataclasses.dataclass(frozen=True)
class RoughErrors:
    """What recordings tell.

    Parameters
    ----------
    layers : ratios of traced to rough seconds of layers on one device, by class.
    splits : ratios of these where a layer is split or others work beside it to those on one device, by split and class, the median
        of each plan: those of single layers scatter as much by the few traces that they are from.
    devices : ratios of one device's layers to the first one's, the median of each plan.
    plan : standard deviation of ln(measured / predicted) of plans whose prediction had seen a plan on several devices.
    """

    layers: Mapping[Class, tuple[float, ...]]
    splits: Mapping[tuple[str, Class], tuple[float, ...]]
    devices: tuple[float, ...]
    plan: float

    @classmethod
    def of(cls, traces: Sequence[StartTrace], graphs: Mapping[str, LayerGraph]) -> RoughErrors:
        """Return what some traces tell.

        Parameters
        ----------
        traces : at least one with traced layers.
        graphs : network -> its layers.
        """
        layers: dict[Class, list[float]] = collections.defaultdict(list)
        splits: dict[tuple[str, Class], list[float]] = collections.defaultdict(list)
        devices: list[float] = []
        for trace in traces:
            graph = graphs[trace.network]
            ratios = {tuple(entry[:5]): entry[5] for entry in trace.layers if 1 / WIDEST < entry[5] < WIDEST}
            alone = {(layer, step_pass): ratio for (_, _, layer, step_pass, split), ratio in ratios.items() if split == ALONE}
            for (layer, step_pass), ratio in alone.items():
                layers[class_of(graph.layers[layer], step_pass)].append(ratio)
            of_plans: dict[tuple[object, str, Class], list[float]] = collections.defaultdict(list)
            for (plan, _, layer, step_pass, split), ratio in ratios.items():
                if split != ALONE and (layer, step_pass) in alone:
                    of_plans[plan, split, class_of(graph.layers[layer], step_pass)].append(ratio / alone[layer, step_pass])
            for (_, split, key), values in of_plans.items():
                splits[split, key].append(statistics.median(values))
            devices += _of_devices(ratios)
        errors = [each for trace in traces for each in _of_plans(trace)]
        plan = 1.4826 * statistics.median(map(abs, errors)) if len(errors) >= FEWEST else PLAN_ERROR
        return cls({key: tuple(v) for key, v in layers.items()}, {key: tuple(v) for key, v in splits.items()}, tuple(devices), plan)

    def drawn(self, profile: Profile, generator: np.random.Generator) -> Corrections:
        """Return corrections that make a rough profile one of steps as they are.

        Parameters
        ----------
        profile : the rough profile.
        generator : draws.
        """
        graph, factors = profile.graph, list[LayerFactor]()
        of_split = {key: self._pick(generator, values) for key, values in self.splits.items()}
        of_device = [1.0, *(self._pick(generator, self.devices) for _ in profile.cluster.devices[1:])]
        for layer, first in enumerate(alike(graph)):
            if layer != first or not graph.layers[layer].inputs:
                continue
            for step_pass in ("forward", "backward", "update"):
                key = class_of(graph.layers[layer], step_pass)
                base = self._pick(generator, self.layers.get(key, ()))
                by_split = {ALONE: 1.0, **{split: of_split.get((split, key), 1.0) for split in ("whole", "units", "samples")}}
                for device, share in enumerate(of_device):
                    factors += [LayerFactor(layer, device, split, step_pass, base * share * each) for split, each in by_split.items()]
        links, launch = (math.exp(LINK_ERROR * generator.standard_normal()) for _ in range(2))
        return Corrections(tuple(factors), links, launch)

    def _pick(self, generator: np.random.Generator, ratios: Sequence[float]) -> float:
        return float(ratios[int(generator.integers(len(ratios)))]) if ratios else 1.0


def class_of(layer: Layer, step_pass: str) -> Class:
    """Return the class of a pass of a layer.

    Parameters
    ----------
    layer : the layer.
    step_pass : "forward", "backward" or "update".
    """
    return bool(kind_of(layer).mixes), step_pass


def _of_devices(ratios: Mapping[tuple[object, ...], float]) -> list[float]:
    """Return how far other devices' layers are from the first device's, the median of each plan and device."""
    logs: dict[tuple[object, object], list[float]] = collections.defaultdict(list)
    for (plan, device, layer, step_pass, split), ratio in ratios.items():
        first = ratios.get((plan, 0, layer, step_pass, split))
        if device != 0 and first is not None:
            logs[plan, device].append(math.log(ratio / first))
    return [math.exp(statistics.median(each)) for each in logs.values()]


def _of_plans(trace: StartTrace) -> list[float]:
    """Return ln(measured / predicted) of plans that were tried after one on several devices."""
    tried = [(each, trace.median_s(at)) for at, each in enumerate(trace.plans) if each.predicted_s is not None]
    later = tried[2:]
    return [math.log(measured_s / plan.predicted_s) for plan, measured_s in later if math.isfinite(measured_s) and plan.predicted_s]
