"""Graphs as chains: one topological order, and what is sent over each boundary of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.errors import DataError


def depth_first_order(count: int, edges: Iterable[tuple[int, int]], name: str) -> list[int]:
    """Return a topological order of the nodes 0 .. count - 1, depth first: next is the node that became ready last.

    Parameters
    ----------
    edges : (source, destination) of each.
    name : of the file, for the message.

    Raises
    ------
    DataError
        If the edges form a cycle.

    Examples
    --------
    >>> depth_first_order(4, [(0, 1), (0, 2), (1, 3), (2, 3)], "a file")
    [0, 2, 1, 3]
    """
    later: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, destination in sorted(set(edges)):
        later[source].append(destination)
        missing[destination] += 1
    ready, order = [node for node in range(count - 1, -1, -1) if not missing[node]], list[int]()
    while ready:
        node = ready.pop()
        order.append(node)
        for destination in later[node]:
            missing[destination] -= 1
            if not missing[destination]:
                ready.append(destination)
    if len(order) < count:
        raise DataError(f"the edges of {name} form a cycle through {count - len(order)} of {count} nodes", "remove an edge of it")
    return order


def boundary_sums(places: Sequence[int], edges: Iterable[tuple[int, int]], amounts: Sequence[float], blocks: int) -> np.ndarray:
    """Return (blocks - 1,) array: the sum over all nodes of which an edge crosses a boundary, each node once, of their amounts.

    Everything that a later block reads is sent over every boundary before that block.

    Parameters
    ----------
    places : (nodes,) the block of each node.
    edges : (source, destination) of each, as nodes; the source may be in the later block.
    amounts : (nodes,) of what each node sends.
    blocks : number of blocks.

    Examples
    --------
    >>> boundary_sums([0, 1, 2], [(0, 1), (0, 2), (1, 2)], [5.0, 1.0, 9.0], 3)
    array([5., 6.])
    """
    least, most = list(places), list(places)
    for source, destination in edges:
        least[source] = min(least[source], places[destination])
        most[source] = max(most[source], places[destination])
    sums = np.zeros(max(blocks - 1, 0))
    for node, amount in enumerate(amounts):
        sums[least[node] : most[node]] += amount
    return sums
