"""The rounds of an all-reduce: which processor sends what part of the tensor to which, whatever the method.

`mesh.collectives` builds these rounds and `planning.cost.all_reduce` computes their seconds; a test compares the two.
Every method is defined for any number of processors p. Where a method needs a power of two q, the p - q odd
processors send their tensor to a neighbour first (fold in) and receive the result from it last (fold out).

| method | rounds | parts of the tensor sent by all processors together |
|---|---|---|
| exchange | 1 (p-1 messages a processor) | p (p-1) |
| ring | 2 (p-1) | 2 (p-1) |
| butterfly | log2 q, and 2 if p > q | q log2 q + 2 (p-q) |
| halving_doubling | 2 log2 q, and 2 if p > q | 2 (q-1) + 2 (p-q) |
| two_level | 2 ceil(log2 largest host) and the leaders' | 2 (p - hosts) and the leaders' |

References: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
2005 (their recursive doubling is this butterfly); methods of this project for unequal segments and hosts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple


class Message(NamedTuple):
    """One message of a round.

    Parameters
    ----------
    source, destination : processors.
    part : fraction of the tensor it carries.
    """

    source: int
    destination: int
    part: float


Round = list[Message]


def rounds(method: str, count: int, segments: Sequence[float] = (), hosts: Sequence[str] = (), leaders: str = "ring") -> list[Round]:
    """Return who sends what to whom, round after round; the messages of one round are independent.

    Parameters
    ----------
    method : "ring", "butterfly", "halving_doubling", "two_level" or "exchange".
    count : number of processors.
    segments : (processors,) fractions of a ring's segments; empty for equal ones.
    hosts : (processors,) name of each processor's host, for two_level.
    leaders : method among the leaders of the hosts, for two_level.

    Examples
    --------
    >>> [[(message.source, message.destination) for message in level] for level in rounds("butterfly", 3)]
    [[(1, 0)], [(0, 2), (2, 0)], [(0, 1)]]
    """
    if count == 1:
        return []
    if method == "ring":
        return _ring(segments or [1 / count] * count)
    if method == "two_level":
        return _two_level(hosts, leaders)
    return {"butterfly": _butterfly, "halving_doubling": _halving_doubling, "exchange": _exchange}[method](count)


def folded(count: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the q processors that take part, q the largest power of two, and the (odd, neighbour) pairs that fold.

    >>> folded(6)
    ([0, 2, 4, 5], [(1, 0), (3, 2)])
    """
    odd = count - (1 << (count.bit_length() - 1))
    return [*range(0, 2 * odd, 2), *range(2 * odd, count)], [(2 * i + 1, 2 * i) for i in range(odd)]


def hosted(hosts: Sequence[str]) -> list[list[int]]:
    """Return the processors of each host, hosts in order of their first; the first processor of a host is its leader.

    >>> hosted(["a", "b", "a"])
    [[0, 2], [1]]
    """
    groups: dict[str, list[int]] = {}
    for processor, host in enumerate(hosts):
        groups.setdefault(host, []).append(processor)
    return list(groups.values())


def tree(members: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Return the (source, destination) pairs of each round that brings everything to the first member, doubling the distance.

    >>> tree([4, 5, 6])
    [[(5, 4)], [(6, 4)]]
    """
    levels, step = [], 1
    while step < len(members):
        levels.append([(members[at + step], members[at]) for at in range(0, len(members) - step, 2 * step)])
        step *= 2
    return levels


def _exchange(count: int) -> list[Round]:
    return [[Message(p, (p + step) % count, 1.0) for p in range(count)] for step in range(1, count)]


def _ring(segments: Sequence[float]) -> list[Round]:
    """Chunk k is combined from processor k+1 round to k, then copied from k round to k-1."""
    count = len(segments)
    combined = [[_hop(k + 1 + step, count, segments[k]) for k in range(count)] for step in range(count - 1)]
    copied = [[_hop(k + step, count, segments[k]) for k in range(count)] for step in range(count - 1)]
    return combined + copied


def _hop(source: int, count: int, part: float) -> Message:
    return Message(source % count, (source + 1) % count, part)


def _butterfly(count: int) -> list[Round]:
    members, pairs = folded(count)
    return _fold(pairs, [_swap(members, 1 << bit, 1.0) for bit in range(_log2(members))])


def _halving_doubling(count: int) -> list[Round]:
    members, pairs = folded(count)
    halving = [_swap(members, 1 << bit, 0.5 ** (bit + 1)) for bit in range(_log2(members))]
    return _fold(pairs, halving + halving[::-1])


def _log2(members: Sequence[int]) -> int:
    return len(members).bit_length() - 1


def _swap(members: Sequence[int], distance: int, part: float) -> Round:
    return [Message(p, members[place ^ distance], part) for place, p in enumerate(members)]


def _fold(pairs: Sequence[tuple[int, int]], inner: list[Round]) -> list[Round]:
    if not pairs:
        return inner
    return [[Message(odd, neighbour, 1.0) for odd, neighbour in pairs], *inner, [Message(b, a, 1.0) for a, b in pairs]]


def _two_level(hosts: Sequence[str], leaders: str) -> list[Round]:
    groups = hosted(hosts)
    inside: list[Round] = []
    for pairs in itertools.zip_longest(*(tree(group) for group in groups), fillvalue=[]):
        inside.append([Message(source, leader, 1.0) for host in pairs for source, leader in host])
    firsts = [group[0] for group in groups]
    between = [[Message(firsts[a], firsts[b], part) for a, b, part in level] for level in rounds(leaders, len(firsts))]
    return inside + between + [[Message(b, a, part) for a, b, part in level] for level in reversed(inside)]
