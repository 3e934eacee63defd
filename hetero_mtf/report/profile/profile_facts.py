"""The facts of a profile: speeds of devices and links, the shares that they suggest, and what a plan would gain."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

from hetero_mtf.errors import HeteroError
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import single_stage
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import mattering_spreads
from hetero_mtf.planning.solvers.apportionment import proportional
from hetero_mtf.report.plan_facts import step_times
from hetero_mtf.report.profile.corrections import CorrectionFacts, correction_facts
from hetero_mtf.report.step_time import StepTimes

HEAVIEST = 3  # layers whose speed is shown
PLANNED_UP_TO = 16  # devices; a plan for more is not made in passing


@dataclasses.dataclass(frozen=True)
class LayerSpeed:
    """How fast a device computes a layer.

    Parameters
    ----------
    layer : the layer's name.
    flops : floating-point operations of its forward and backward pass for a whole batch.
    seconds : measured seconds of both passes.
    flops_per_s : flops / seconds; None where that is no time.
    """

    layer: str
    flops: float
    seconds: float
    flops_per_s: float | None


@dataclasses.dataclass(frozen=True)
class DeviceSpeed:
    """How fast a device trains the network.

    Parameters
    ----------
    device : the device's name.
    step_s : seconds of a training step of the whole network on this device alone, from the measured layers.
    samples_per_s : batch size / step_s; None where that is no time.
    relative_speed : samples_per_s relative to the fastest device.
    layers : the layers with the most operations, heaviest first.
    spread : median of the inter-quartile ranges, relative to the medians, of the measurements that matter.
    worst_spread : the largest of them.
    """

    device: str
    step_s: float
    samples_per_s: float | None
    relative_speed: float | None
    layers: tuple[LayerSpeed, ...]
    spread: float
    worst_spread: float


@dataclasses.dataclass(frozen=True)
class LinkSpeed:
    """How fast a link is.

    Parameters
    ----------
    source, destination : names of the devices.
    bandwidth_bytes_per_s, latency_s, spread : as in `Link`.
    """

    source: str
    destination: str
    bandwidth_bytes_per_s: float
    latency_s: float
    spread: float


@dataclasses.dataclass(frozen=True)
class SuggestedShare:
    """How the samples of a batch, or the filters of a layer, are apportioned in proportion to the speeds.

    Parameters
    ----------
    of : what is apportioned.
    sizes : (devices,) integer sizes.
    """

    of: str
    sizes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class PlanGain:
    """What a plan would gain.

    Parameters
    ----------
    strategy : strategy of the plan.
    step_s : its predicted seconds a step.
    single : name of the best single device.
    single_s, equal_s : predicted seconds a step on that device alone, and under the equal split.
    times_single, times_equal : single_s / step_s and equal_s / step_s.
    of_ideal : ideal / step_s; the ideal is 1 / (sum of 1 / alone).
    """

    strategy: str
    step_s: float
    single: str
    single_s: float
    equal_s: float
    times_single: float
    times_equal: float
    of_ideal: float


@dataclasses.dataclass(frozen=True)
class ProfileFacts:
    """What calibration measured, in figures for people.

    Parameters
    ----------
    network : digest of the network.
    layers, dtype, batch_size, optimizer, measured_at : what was measured, and when.
    curves : number of measured curves.
    launch_s : seconds of a training step besides its layers and links.
    devices : one a device.
    links : one a pair of devices and direction.
    shares : what the speeds suggest; empty where a speed is unknown.
    gain : what the plan of strategy auto would gain; None where that is not known.
    no_gain : why it is not known; "" where it is.
    corrections : what steps took beside their predictions; None where none was run.
    """

    network: str
    layers: int
    dtype: str
    batch_size: int
    optimizer: str
    measured_at: str
    curves: int
    launch_s: float
    devices: tuple[DeviceSpeed, ...]
    links: tuple[LinkSpeed, ...]
    shares: tuple[SuggestedShare, ...]
    gain: PlanGain | None
    no_gain: str
    corrections: CorrectionFacts | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document."""
        return {"kind": "profile_facts", "version": 1, **dataclasses.asdict(self)}


def profile_facts(profile: Profile) -> ProfileFacts:
    """Return the facts of a profile.

    Parameters
    ----------
    profile : Profile.

    Notes
    -----
    A plan is made for what it would gain, without TensorFlow; where that fails, the reason is returned instead.
    """
    costs = Costs(profile)
    devices, (gain, no_gain) = _devices(costs), _gain(profile)
    names, graph = [device.name for device in profile.cluster.devices], profile.graph
    links = tuple(
        LinkSpeed(names[link.source], names[link.destination], link.bandwidth_bytes_per_s, link.latency_s, link.spread)
        for link in (profile.links or profile.cluster.links)
    )
    head = graph.digest, len(graph.layers), graph.dtype, profile.batch_size, str(profile.optimizer), profile.measured_at
    measured = len(profile.curves), profile.launch_s, devices, links, _shares(costs, devices)
    return ProfileFacts(*head, *measured, gain, no_gain, correction_facts(profile))


def heaviest_layers(costs: Costs) -> list[int]:
    """Return the indices of the layers with the most operations in a step, heaviest first; of alike layers only the first.

    Parameters
    ----------
    costs : Costs of a profile.
    """
    flops = {index: step_flops(costs, index) for index in dict.fromkeys(costs.alike)}
    return sorted((index for index in flops if flops[index] > 0), key=lambda index: -flops[index])[:HEAVIEST]


def step_flops(costs: Costs, layer: int) -> float:
    """Return the floating-point operations of a layer's forward and backward pass for a whole batch.

    Backward, the gradients of the inputs take as many operations as the forward pass, and so do those of the weights; each is computed
    only where it is needed.

    Parameters
    ----------
    costs : Costs of a profile.
    layer : index of the layer.
    """
    entry = costs.graph.layers[layer]
    gradients = any(costs.trains_before[i] for i in entry.inputs) + any(variable.trainable for variable in entry.variables)
    return (1 + gradients) * entry.flops * costs.profile.batch_size


def _devices(costs: Costs) -> tuple[DeviceSpeed, ...]:
    count, heaviest = len(costs.profile.cluster.devices), heaviest_layers(costs)
    steps_s = [predict(costs, single_stage(costs.graph, device), memory=False).step_s for device in range(count)]
    rates = [costs.profile.batch_size / step_s if step_s > 0 else None for step_s in steps_s]
    fastest = max((rate for rate in rates if rate is not None), default=None)
    entries = []
    for device, (step_s, rate) in enumerate(zip(steps_s, rates)):
        spreads = mattering_spreads(costs.profile, device) or [0.0]
        entries.append(
            DeviceSpeed(
                costs.profile.cluster.devices[device].name,
                step_s,
                rate,
                rate / fastest if rate is not None and fastest is not None else None,
                tuple(_layer(costs, device, layer) for layer in heaviest),
                statistics.median(spreads),
                max(spreads),
            )
        )
    return tuple(entries)


def _layer(costs: Costs, device: int, layer: int) -> LayerSpeed:
    """Return the speed of a device in a layer, the other devices of its host idle where that was measured."""
    passes = ("forward", "backward") if costs.trains_before[layer] else ("forward",)
    tables, layout = costs.tables, "replicated"
    seconds = sum(float(tables.rows(layer, layout, each)[device, -1] * tables.alone_part(layer, each, layout)[device]) for each in passes)
    flops = step_flops(costs, layer)
    return LayerSpeed(costs.graph.layers[layer].name, flops, seconds, flops / seconds if seconds > 0 else None)


def _shares(costs: Costs, devices: tuple[DeviceSpeed, ...]) -> tuple[SuggestedShare, ...]:
    """Return the samples of a batch and the filters of the heaviest layer in proportion to the speeds."""
    speeds = [device.relative_speed for device in devices if device.relative_speed is not None]
    if len(speeds) < len(devices):
        return ()
    batch = costs.profile.batch_size
    shares = [SuggestedShare(f"{batch} samples", proportional(batch, speeds).sizes)]
    for layer in heaviest_layers(costs)[:1]:
        entry = costs.graph.layers[layer]
        shares.append(SuggestedShare(f"{entry.units} filters of {entry.name}", proportional(entry.units, speeds).sizes))
    return tuple(shares)


def _gain(profile: Profile) -> tuple[PlanGain | None, str]:
    """Return what the plan of strategy auto would gain, or why that is not known."""
    count = len(profile.cluster.devices)
    if count < 2:
        return None, "there is one device, so there is nothing to plan"
    if count > PLANNED_UP_TO:
        return None, f"with {count} devices planning takes longer; use hetero-mtf plan"
    try:
        best = plan(profile)
        times: StepTimes = step_times(best, Costs(profile))
    except HeteroError as fault:
        return None, str(fault)
    single = min(times.alone, key=lambda entry: entry.predicted_s or 0.0)
    planned_s, equal_s = times.planned.predicted_s, times.equal.predicted_s if times.equal is not None else None
    of_ideal = times.efficiency(measured=False)
    if planned_s is None or single.predicted_s is None or equal_s is None or of_ideal is None:
        return None, "nothing that was measured takes time"
    ratios = single.predicted_s / planned_s, equal_s / planned_s
    return PlanGain(best.strategy, planned_s, single.name, single.predicted_s, equal_s, *ratios, of_ideal), ""
