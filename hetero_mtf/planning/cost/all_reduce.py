"""Seconds of an all-reduce by each method, from the links between all pairs, and the rules that take the cheapest for each size."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

from hetero_mtf.planning.cost.rounds import Message, Round, rounds
from hetero_mtf.planning.cost.segments import ring_segments, slowest_link_s_per_byte
from hetero_mtf.planning.layout.records import LEADERS, CollectiveRule

LARGEST_BYTES = 2**40
EXCHANGE_UP_TO = 32  # devices; among more it takes six times the messages of a butterfly, each as large
_LEAST_GAIN = 1.1  # by how much unequal segments must shorten a ring: links are not measured more exactly than that
_Line = tuple[float, float]  # seconds, seconds a byte of the tensor


@dataclasses.dataclass(frozen=True)
class PairLinks:
    """The links between all pairs of devices of a group.

    Parameters
    ----------
    latency_s : (devices, devices) a of the link from one to another; infinite where none was measured.
    seconds_per_byte : (devices, devices) b of the same links.
    hosts : (devices,) name of each one's host.
    """

    latency_s: tuple[tuple[float, ...], ...]
    seconds_per_byte: tuple[tuple[float, ...], ...]
    hosts: tuple[str, ...]

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:  # computed once: the links of p devices are p^2
        return hash((self.latency_s, self.seconds_per_byte, self.hosts))

    def lines(self, level: Round) -> list[_Line]:
        """Return (a, b * bytes sent for a byte of the tensor) of each message of a round.

        Messages of one round between hosts share the link out of their host and the link into the other: each link was measured alone.
        """
        # parts of the tensor that leave and enter each host in this round; k messages at once over one link take the seconds of all
        # their bytes, so each is charged for the bytes of the busier of its two ends
        leaving: dict[str, float] = {}
        entering: dict[str, float] = {}
        for source, destination, part in level:
            if self.hosts[source] != self.hosts[destination]:
                leaving[self.hosts[source]] = leaving.get(self.hosts[source], 0.0) + part
                entering[self.hosts[destination]] = entering.get(self.hosts[destination], 0.0) + part
        message_lines = []
        for source, destination, part in level:
            near = self.hosts[source] == self.hosts[destination]
            sent = part if near else max(leaving[self.hosts[source]], entering[self.hosts[destination]])
            message_lines.append((self.latency_s[source][destination], sent * self.seconds_per_byte[source][destination]))
        return message_lines

    def around(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return (a, b) of the links of the ring, from each device to the next, all in use at once."""
        count = len(self.hosts)
        latencies, slownesses = zip(*self.lines([Message(k, (k + 1) % count, 1.0) for k in range(count)]))
        return latencies, slownesses


@dataclasses.dataclass(frozen=True)
class AllReduceCost:
    """One method of an all-reduce and its cost.

    Parameters
    ----------
    rule : the method.
    fixed_s : seconds whatever the size.
    seconds_per_byte : seconds for each byte of the tensor.
    mixed : rounds with several lines (seconds, seconds a byte), none of which is above the others at every size; the largest counts.
    """

    rule: CollectiveRule
    fixed_s: float
    seconds_per_byte: float
    mixed: tuple[tuple[_Line, ...], ...] = ()

    def seconds(self, tensor_bytes: float) -> float:
        """Return the seconds for a tensor of so many bytes."""
        slowest = sum(max(a + b * tensor_bytes for a, b in lines) for lines in self.mixed)
        return self.fixed_s + self.seconds_per_byte * tensor_bytes + slowest


@functools.lru_cache(maxsize=4096)
def priced(rule: CollectiveRule, links: PairLinks) -> AllReduceCost:
    """Return the cost of an all-reduce by a rule among devices.

    With equal links of latency a and b seconds a byte, and p devices, p a power of two where it matters, n bytes take

        ring                2 (p-1) a + 2 n b (p-1)/p
        butterfly           log2(p) (a + n b)
        halving_doubling    2 log2(p) a + 2 n b (p-1)/p
        exchange            (p-1) (a + n b)

    With unequal links, a round takes as long as its slowest message, a ring as long as 2 (p-1) times its largest latency and all
    bytes of its busiest link; messages between the same hosts share their link. NCCL is priced as a ring.

    Parameters
    ----------
    rule : a rule; its limit is ignored.
    links : links among the devices.
    """
    count = len(links.hosts)
    if rule.method in ("ring", "nccl"):
        latencies, slownesses = links.around()
        segments = rule.segments or (1 / count,) * count
        return AllReduceCost(rule, 2 * (count - 1) * max(latencies), slowest_link_s_per_byte(segments, slownesses))
    levels = rounds(rule.method, count, hosts=links.hosts, leaders=rule.leaders or "ring")
    lines = [_slowest(links.lines(level)) for level in levels]
    # rounds follow each other: where one message is slowest at every size a and b add up; the others depend on the size
    plain = [line[0] for line in lines if len(line) == 1]
    fixed_s, slope = (math.fsum(values) for values in zip(*plain)) if plain else (0.0, 0.0)
    return AllReduceCost(rule, fixed_s, slope, tuple(line for line in lines if len(line) > 1))


def _slowest(lines: Sequence[_Line]) -> tuple[_Line, ...]:
    """Return the lines of which no other is above at every size."""
    # by falling latency: the next line begins below all those kept, and is above them at some size only if it is steeper
    kept: list[_Line] = []
    for line in sorted(set(lines), reverse=True):
        if not kept or line[1] > kept[-1][1]:
            kept.append(line)
    return tuple(kept)


@functools.lru_cache(maxsize=256)
def choices(links: PairLinks, segmented: bool = False) -> tuple[AllReduceCost, ...]:
    """Return every method that the measured links price, simpler ones first; no exchange among more than 32 devices.

    Parameters
    ----------
    links : links among the devices.
    segmented : whether a ring may have unequal segments; it gets them where they shorten it by a tenth.
    """
    names = ("exchange", "butterfly", "halving_doubling")[0 if len(links.hosts) <= EXCHANGE_UP_TO else 1 :]
    methods = [CollectiveRule("all_reduce", method) for method in names]
    methods.append(CollectiveRule("all_reduce", "ring", segments=_segments(links) if segmented else ()))
    if 1 < len(set(links.hosts)) < len(links.hosts):
        methods += [CollectiveRule("all_reduce", "two_level", leaders=leaders) for leaders in LEADERS]
    options = [priced(rule, links) for rule in methods]
    return tuple(option for option in options if math.isfinite(option.seconds(1.0)))


def _segments(links: PairLinks) -> tuple[float, ...]:
    slownesses = links.around()[1]
    if not all(map(math.isfinite, slownesses)):
        return ()
    equal_s_per_byte = slowest_link_s_per_byte((1 / len(slownesses),) * len(slownesses), slownesses)
    segments = ring_segments(slownesses)
    return segments if slowest_link_s_per_byte(segments, slownesses) * _LEAST_GAIN < equal_s_per_byte else ()


def cheapest_by_size(axes: Sequence[Sequence[PairLinks]], segmented: bool) -> tuple[CollectiveRule, ...]:
    """Return the rules that take the cheapest method for each size.

    Parameters
    ----------
    axes : (mesh axes, groups) links of each group of devices along an axis; groups run at the same time, so the slowest counts;
        the axes' seconds are added.
    segmented : as for `choices`; for a single group.

    Notes
    -----
    Exact to a byte where the cheapest method changes no more often than sizes double. O(log2(largest tensor)^2) prices.
    """
    table: dict[CollectiveRule, Callable[[float], float]] = {}
    every = (choice.rule for groups in axes for links in groups for choice in choices(links, segmented))
    for rule in dict.fromkeys(every):
        prices = [[priced(rule, links) for links in groups] for groups in axes]
        table[rule] = functools.partial(_together, prices)
    rules: list[CollectiveRule] = []
    size = 1
    while size <= LARGEST_BYTES:
        best = _best(table, size)
        beyond = next((n for n in _doubled(size) if _best(table, n) != best), None)
        if beyond is None:
            return (*rules, best)
        # the choice still holds there: beyond is the first doubling of the size at which it does not
        last = _last(lambda n, best=best: _best(table, n) == best, max(size, beyond // 2), beyond)  # type: ignore[misc]
        rules.append(dataclasses.replace(best, up_to_bytes=last))
        size = last + 1
    return tuple(rules)


def _together(prices: Sequence[Sequence[AllReduceCost]], tensor_bytes: float) -> float:
    return sum(max(choice.seconds(tensor_bytes) for choice in groups) for groups in prices)


def _best(table: dict[CollectiveRule, Callable[[float], float]], tensor_bytes: float) -> CollectiveRule:
    return min(table, key=lambda rule: table[rule](tensor_bytes))


def _doubled(size: int) -> list[int]:
    return list(itertools.takewhile(lambda n: n <= LARGEST_BYTES, (size << bit for bit in range(1, 64))))


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the last number from `low`, where it holds, to `high`, where it does not, at which it still holds."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
