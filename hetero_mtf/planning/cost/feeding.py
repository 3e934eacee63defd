"""Seconds in which the training program sends a batch to the devices of other hosts."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable

from hetero_mtf.planning.layout.blocks import output_bytes
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.profile.profile import Profile


def fed_bytes(profile: Profile, stages: Iterable[Stage]) -> dict[int, float]:
    """Return device -> bytes of a batch that it is sent.

    A device that has a part of the samples or positions of an input gets these, another one that holds the input gets all of them.

    Parameters
    ----------
    profile : of the network.
    stages : of a plan.
    """
    graph, sent = profile.graph, collections.defaultdict[int, float](float)
    for stage in stages:
        for entry in stage.layouts:
            if entry.layer not in graph.inputs:
                continue
            full_bytes = profile.batch_size * output_bytes(graph, entry.layer)
            for at, device in enumerate(stage.devices):
                sent[device] += full_bytes * math.prod(parts[stage.places(axis)[at]] / sum(parts) for parts, axis in entry.parts)
    return dict(sent)


def unfed_launch_s(profile: Profile) -> float:
    """Return the launch overhead of a step whose batch has arrived: seconds to call it and to hand its batch to the devices."""
    sample_bytes = sum(output_bytes(profile.graph, index) for index in profile.graph.inputs)
    return profile.corrections.launch * (profile.launch_s + profile.feed_s_per_byte * profile.batch_size * sample_bytes)


def feed_s(profile: Profile, stages: Iterable[Stage]) -> float:
    """Return the seconds in which a batch reaches its devices, 0 where nothing was measured, as in one machine.

    Every host's part goes over a link of its own, and all parts over that of the program: the slowest of these takes so long.

    Parameters
    ----------
    profile, stages : as for `fed_bytes`.
    """
    links = {link.device: link for link in profile.feed_links}
    if not links:
        return 0.0
    by_host: dict[str, float] = collections.defaultdict(float)
    together_s = 0.0
    for device, sent_bytes in fed_bytes(profile, stages).items():
        if device in links:
            by_host[profile.cluster.devices[device].host] += sent_bytes / links[device].bytes_per_s
            together_s += sent_bytes / links[device].together_bytes_per_s
    return max(together_s, *by_host.values())
