"""Seconds of the collectives of a mesh, from measured links."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from hetero_mtf.devices import Device
from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.cost.all_reduce import AllReduceCost, PairLinks, cheapest_by_size, choices, priced
from hetero_mtf.planning.layout.records import BUCKET_BYTES, BUTTERFLY_UP_TO_BYTES, CollectiveRule
from hetero_mtf.planning.layout.resharding import Resharding
from hetero_mtf.planning.plan.collective_rule import rule_for
from hetero_mtf.planning.profile.profile import Profile

Rules = tuple[CollectiveRule, ...]


@dataclasses.dataclass(frozen=True)
class Ring:
    """The devices of a collective and their links.

    Parameters
    ----------
    devices : number of devices p.
    latency_s : largest latency a of the links from each to the next.
    seconds_per_byte : largest time b of a byte on these links.
    pairs : links of all pairs; None if all are equal to these.
    rules : the plan's rules, empty for the defaults; None for the cheapest method for each size.
    """

    devices: int
    latency_s: float
    seconds_per_byte: float
    pairs: PairLinks | None = None
    rules: Rules | None = None

    def all_gather_s(self, full_bytes: float) -> float:
        """Return the seconds to gather a tensor on every device: (p-1)/p * n * b + (p-1) * a.

        Parameters
        ----------
        full_bytes : n, bytes of the full tensor.
        """
        steps = self.devices - 1
        return steps / self.devices * full_bytes * self.seconds_per_byte + steps * self.latency_s

    def reduce_scatter_s(self, full_bytes: float) -> float:
        """Return the seconds to leave each device its slice of a sum; as many as to gather the slices.

        Parameters
        ----------
        full_bytes : n, bytes of the full tensor.
        """
        return self.all_gather_s(full_bytes)

    def reshard_s(self, resharding: Resharding, full_bytes: float) -> float:
        """Return the seconds of one resharding of a tensor; a slice sends nothing.

        In an all-gather every processor sends its part to all others and receives theirs; what the busiest one sends or receives
        counts, so unequal parts take longer than the equal ones of `all_gather_s`. In an all-to-all every processor sends to every
        other the part of its own that the other needs, and receives likewise.

        Parameters
        ----------
        full_bytes : n, bytes of the tensor that the devices hold together.
        """
        if resharding.kind == "slice":
            return 0.0
        key = resharding.kind, resharding.before, resharding.after
        if key not in self._busiest:
            self._busiest[key] = self._busiest_part(resharding)
        return self.sent_s(self.devices - 1, self._busiest[key] * full_bytes)

    def _busiest_part(self, resharding: Resharding) -> float:
        """Return the part of a tensor that the busiest processor sends or receives in a resharding."""
        held = np.array(resharding.before) / sum(resharding.before)
        if resharding.kind == "all_gather":
            return float(np.maximum((self.devices - 1) * held, 1 - held).max())
        wanted = np.array(resharding.after) / sum(resharding.after)
        return float(np.maximum(held * (1 - wanted), wanted * (1 - held)).max())

    def sent_s(self, messages: int, sent_bytes: float) -> float:
        """Return the seconds in which one processor sends some messages one after another.

        Parameters
        ----------
        messages : how many.
        sent_bytes : bytes of all of them.
        """
        return messages * self.latency_s + sent_bytes * self.seconds_per_byte

    def all_reduce_s(self, full_bytes: float) -> float:
        """Return the seconds to add a tensor up over all devices, by the rules' method or the cheapest; `all_reduce.priced`.

        Parameters
        ----------
        full_bytes : n, bytes of the tensor.
        """
        if self.devices < 2:
            return 0.0
        if full_bytes not in self._summed:
            self._summed[full_bytes] = self._all_reduce_s(full_bytes)
        return self._summed[full_bytes]

    def _all_reduce_s(self, full_bytes: float) -> float:
        if self.rules is None:
            return min(choice.seconds(full_bytes) for choice in self._choices)
        rule = rule_for(self.rules, "all_reduce", full_bytes)
        several = "butterfly" if full_bytes <= BUTTERFLY_UP_TO_BYTES else "ring"
        return priced(rule or CollectiveRule("all_reduce", "exchange" if self.devices == 2 else several), self._pairs).seconds(full_bytes)

    @functools.cached_property
    def _summed(self) -> dict[float, float]:
        """Bytes -> seconds of an all-reduce, each computed once."""
        return {}

    @functools.cached_property
    def _busiest(self) -> dict[tuple[str, tuple[int, ...], tuple[int, ...]], float]:
        """(kind, parts before, parts after) of a resharding -> the busiest processor's part, each computed once."""
        return {}

    @functools.cached_property
    def _pairs(self) -> PairLinks:
        return self.pairs or _uniform(self)

    @functools.cached_property
    def _choices(self) -> tuple[AllReduceCost, ...]:
        return choices(self._pairs)


Lines = tuple[np.ndarray, np.ndarray]


def link_lines(profile: Profile) -> Lines:
    """Return (devices, devices) latencies and seconds a byte from each device to each; infinite where nothing was measured.

    Processors on one and the same TensorFlow device exchange tensors in place: their link costs nothing. A link measured in one
    direction stands for both. The factor of the profile's corrections is multiplied in.

    Parameters
    ----------
    profile : Profile with measured links.
    """
    records = profile.cluster.devices
    lines = np.full((2, len(records), len(records)), np.inf)
    for link in [*profile.cluster.links[::-1], *profile.links[::-1]]:
        lines[:, link.source, link.destination] = link.latency_s, 1 / link.bandwidth_bytes_per_s
    back = np.swapaxes(lines, 1, 2)
    lines = np.where(np.isinf(lines), back, lines)
    _, same = np.unique([record.tf_device for record in records], return_inverse=True)
    lines[:, same[:, None] == same[None, :]] = 0.0
    lines *= profile.corrections.links
    return lines[0], lines[1]


def ring(profile: Profile, devices: Sequence[int], rules: Rules | None = None, lines: Lines | None = None) -> Ring:
    """Return the links among devices of a cluster, in the order given.

    Parameters
    ----------
    profile : Profile with measured links.
    devices : indices of the devices.
    rules : the plan's rules, empty for the defaults; None for the cheapest method for each size, a ring in equal segments.
    lines : `link_lines` of the profile, where known.

    Raises
    ------
    ProfileError
        If the link between two neighbours was not measured.

    """
    records = profile.cluster.devices
    if len(devices) < 2:
        return Ring(len(devices), 0.0, 0.0, None, rules)
    pairs = _pairs(profile, devices, lines or link_lines(profile))
    latencies, slownesses = pairs.around()
    for at, latency_s in enumerate(latencies):
        if math.isinf(latency_s):
            first, second = records[devices[at]].name, records[devices[(at + 1) % len(devices)]].name
            raise ProfileError(f"the profile has no link between {first} and {second}; calibrate again")
    return Ring(len(devices), max(latencies), max(slownesses), pairs, rules)


def collective_rules(profile: Profile, devices: Sequence[int], axes: Sequence[tuple[str, int]] = ()) -> Rules:
    """Return the rules by which a stage's all-reduces take the cheapest method for each size.

    Parameters
    ----------
    profile : Profile with measured links.
    devices : indices of the stage's devices.
    axes : (name, size) of its mesh axes, last fastest; empty for one axis. On several axes each group along an axis has its own collective.

    Returns
    -------
    Rules with crossover sizes as limits; none where there is nothing to choose: a single device, processors on one TensorFlow
    device, GPUs of one process (there the default is NCCL).

    Raises
    ------
    ProfileError
        If the link between two neighbours was not measured.
    """
    split = [size for _, size in axes if size > 1]
    groups = _groups(devices, split) if len(split) > 1 else [[tuple(devices)]]
    lines = link_lines(profile)
    rings = [[ring(profile, group, lines=lines).pairs for group in along] for along in groups]
    priced_groups = [[pairs for pairs in along if pairs is not None] for along in rings]
    records = [profile.cluster.devices[d] for d in devices]
    free = all(b == 0 for along in priced_groups for pairs in along for b in pairs.around()[1])
    if not any(priced_groups) or free or _nccl_may_serve(records):
        return ()
    return cheapest_by_size(priced_groups, segmented=len(split) < 2)


def bucket_bytes(profile: Profile, devices: Sequence[int]) -> int:
    """Return the most bytes of a bucket of gradients: what the links send in the seconds of their latency, a r.

    Up to this size, n_1/2, latency is the larger part of a message's seconds a + n / r: what a message less saves exceeds what it costs
    that the gradients of a bucket wait for the last one and are copied twice. 0 where links cost nothing, the default for one device.

    Parameters
    ----------
    profile : Profile with measured links.
    devices : indices of the stage's devices.

    Raises
    ------
    ProfileError
        If the link between two neighbours was not measured.

    References
    ----------
    Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994, for n_1/2.
    """
    return bucket_bytes_of(ring(profile, devices)) if len(devices) > 1 else BUCKET_BYTES


def bucket_bytes_of(links: Ring) -> int:
    """Return `bucket_bytes` of links among several devices."""
    return int(links.latency_s / links.seconds_per_byte) if links.seconds_per_byte > 0 else 0


def _nccl_may_serve(records: Sequence[Device]) -> bool:
    processes = {record.tf_device.lower().rpartition("/device:")[0] for record in records}
    return len(processes) == 1 and all(record.kind == "GPU" for record in records)


def _groups(devices: Sequence[int], sizes: Sequence[int]) -> list[list[tuple[int, ...]]]:
    """Return, for each mesh axis, the groups of devices that differ in their place on this axis only."""
    by_axis, inner = [], 1
    for size in reversed(sizes):
        starts = [at for at in range(len(devices)) if at // inner % size == 0]
        by_axis.append([tuple(devices[start + step * inner] for step in range(size)) for start in starts])
        inner *= size
    return by_axis[::-1]


def _pairs(profile: Profile, devices: Sequence[int], lines: Lines) -> PairLinks:
    chosen = np.ix_(devices, devices)
    latencies, slownesses = (tuple(map(tuple, line[chosen].tolist())) for line in lines)
    return PairLinks(latencies, slownesses, tuple(profile.cluster.devices[d].host for d in devices))


def _uniform(around: Ring) -> PairLinks:
    row = (around.latency_s,) * around.devices, (around.seconds_per_byte,) * around.devices
    return PairLinks((row[0],) * around.devices, (row[1],) * around.devices, ("",) * around.devices)
