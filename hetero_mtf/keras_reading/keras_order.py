"""The order in which Keras runs the calls of a functional model: where a shared layer's state changes, it decides the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetero_mtf.errors import UnsupportedError

Call = tuple[str, int]


def call_order(reads: Mapping[Call, Sequence[Call]], outputs: Sequence[Call]) -> list[Call]:
    """Return the calls that the outputs need, in the order in which Keras runs them.

    Keras gives each call a depth, deepest first: one more than the deepest call that reads it, and at least that of the calls of
    the same layer met before. Calls of one depth run in the order in which
    they were first given a depth, beginning with what the outputs read.

    Parameters
    ----------
    reads : call (layer name, number of the call) -> the calls it reads, in the order of its arguments.
    outputs : the calls whose values the model returns.

    Raises
    ------
    UnsupportedError
        If the calls read each other in a circle.

    Notes
    -----
    Follows `map_graph` of Keras 3 (keras/src/ops/function.py); O(calls + reads).
    """
    depths: dict[Call, int] = {}
    of_layer: dict[str, int] = {}
    for call in reversed(_finished(reads, outputs)):
        depth = max(depths.setdefault(call, 0), of_layer.get(call[0], 0))
        depths[call] = of_layer[call[0]] = depth
        for source in reads[call]:
            depths[source] = max(depth + 1, depths.get(source, 0))
    # stable: calls of one depth stay in the order in which each was first given a depth
    return sorted(depths, key=lambda call: -depths[call])


def _finished(reads: Mapping[Call, Sequence[Call]], outputs: Sequence[Call]) -> list[Call]:
    """Return the needed calls in the order in which a depth-first search from the outputs leaves them."""
    done: dict[Call, None] = {}
    active: dict[Call, int] = {}
    for output in outputs:
        stack = [output]
        while stack:
            call = stack[-1]
            at = active.setdefault(call, 0)
            if call in done or at == len(reads[call]):
                done.setdefault(stack.pop())
                active.pop(call)
                continue
            active[call] += 1
            source = reads[call][at]
            if source in active:
                circle = ", ".join(dict.fromkeys(name for name, _ in active))
                raise UnsupportedError(f"layers {circle} read each other in a circle", "a network must be acyclic")
            if source not in done:
                stack.append(source)
    return list(done)
