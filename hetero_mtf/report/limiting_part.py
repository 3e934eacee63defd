"""The bottleneck of a step: the device that all others wait for, the links, or memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.planning.cost.feeding import unfed_launch_s
from hetero_mtf.planning.cost.link_cost import ring as link_between
from hetero_mtf.planning.layout.records import DevicePart, Prediction
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.units import bandwidth_text, bytes_text, seconds_text

MEMORY_FULL_FROM = 0.95  # of what is free
BALANCED_UP_TO = 0.02  # of the step, the idle time of any device
FED_LATE = 0.05  # of the step, that it waits for its batch


@dataclasses.dataclass(frozen=True)
class Bottleneck:
    """What limits a step.

    Parameters
    ----------
    kind : "device", "link" or "memory".
    text : which, and the figures that show it.
    name : which, in few words.
    """

    kind: str
    text: str
    name: str = ""


def critical(parts: Sequence[DevicePart]) -> DevicePart:
    """Return the part of the device that is idle least: its compute and communication take the step.

    Parameters
    ----------
    parts : one a device, at least one.
    """
    return min(parts, key=lambda part: part.idle_s)


def bottlenecks(predicted: Prediction, devices: Sequence[int], profile: Profile | None = None, ring: bool = True) -> tuple[Bottleneck, ...]:
    """Return the bottlenecks of a step: first that of its time, then the memory pools that are almost full.

    The bottleneck is the device with the least idle time, or the links if its communication takes longer than its compute. Where no
    device is idle for more than 2 % of the step, the devices are balanced. A memory pool is a bottleneck if the plan needs more than
    95 % of its free bytes.

    Parameters
    ----------
    predicted : the prediction of a step.
    devices : (parts,) indices in the cluster of the devices it is of.
    profile : names the slowest link and says how much memory is free; None if it is not at hand.
    ring : whether each device sends to the next, so that the slowest link between neighbours matters.
    """
    part = critical(predicted.parts)
    compute, communication, step = map(seconds_text, (part.compute_s, part.communication_s, predicted.step_s))
    spent = f"compute {compute}, communication {communication} of {step}"
    waited_s = max(0.0, part.idle_s - predicted.launch_s)  # every device is idle until the step is launched
    idle = "never idle" if waited_s <= 0.005 * predicted.step_s else f"least idle ({seconds_text(waited_s)})"
    longest_s = max(p.idle_s for p in predicted.parts) - predicted.launch_s
    balanced = len(predicted.parts) > 1 and longest_s <= BALANCED_UP_TO * predicted.step_s
    if part.communication_s > part.compute_s:
        slowest = f"; {_slowest_link(profile, devices)}" if profile is not None and ring and len(devices) > 1 else ""
        limits = [Bottleneck("link", f"the links are the bottleneck: {part.device} is {idle}, {spent}{slowest}", "the links")]
    else:
        many = "both" if len(predicted.parts) == 2 else f"all {len(predicted.parts)}"
        who = f"{many} devices are balanced: {part.device}" if balanced else f"device {part.device} is the bottleneck: it"
        name = "none (the devices are balanced)" if balanced else part.device
        limits = [Bottleneck("device", f"{who} is {idle}, {spent}", name)]
    limits = _program_link(predicted, devices, profile) + limits if profile is not None else limits
    return tuple(limits + (_full_pools(predicted, devices, profile) if profile is not None else []))


def _program_link(predicted: Prediction, devices: Sequence[int], profile: Profile) -> list[Bottleneck]:
    """Return the link of the program, where a step waits for its batch."""
    waited_s = predicted.launch_s - unfed_launch_s(profile)
    links = [link for link in profile.feed_links if link.device in devices]
    if not links or waited_s <= FED_LATE * predicted.step_s:
        return []
    records = profile.cluster.devices
    speed = bandwidth_text(links[0].bytes_per_s if len(links) == 1 else links[0].together_bytes_per_s)
    fastest = max(zip(devices, predicted.parts), key=lambda pair: pair[1].compute_s)[0]
    text = (
        f"the program's own link is the bottleneck: a step waits {seconds_text(waited_s)} for its batch, "
        f"which is sent at {speed}; run the program on {records[fastest].host}, which then gets its part without the link"
    )
    return [Bottleneck("link", text, "the program's link")]


def _slowest_link(profile: Profile, devices: Sequence[int]) -> str:
    """Return the slowest of the links from each device to the next."""
    names = [d.name for d in profile.cluster.devices]
    pairs = [(devices[at - 1], devices[at]) for at in range(len(devices))]
    links = {end: link_between(profile, end) for end in pairs}
    (first, second), link = max(links.items(), key=lambda item: (item[1].seconds_per_byte, item[1].latency_s))
    if link.seconds_per_byte <= 0:
        return f"between {names[first]} and {names[second]} nothing is sent"
    speed, latency = bandwidth_text(1 / link.seconds_per_byte), seconds_text(link.latency_s)
    return f"the slowest is that of {names[first]} and {names[second]}, {speed} after {latency}"


def _full_pools(predicted: Prediction, devices: Sequence[int], profile: Profile) -> list[Bottleneck]:
    needed: dict[str, int] = {}
    for device, part in zip(devices, predicted.parts):
        pool = profile.cluster.devices[device].pool
        needed[pool] = needed.get(pool, 0) + part.memory_bytes
    return [
        Bottleneck(
            "memory",
            f"memory {pool.name} is a bottleneck: {bytes_text(needed[pool.name])} are needed, {bytes_text(pool.free_bytes)} are free",
            f"memory {pool.name}",
        )
        for pool in profile.memory
        if needed.get(pool.name, 0) > MEMORY_FULL_FROM * pool.free_bytes
    ]
