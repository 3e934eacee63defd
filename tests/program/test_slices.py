"""Whole values go into slices and come back, whatever the layout, in messages of bounded size."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.variables import SliceVariables
from hetero_mtf.program import slices
from tests.mesh.running import implementation, shape

LAYOUTS = {
    "whole": ([("p", 3)], {}, {}),
    "uneven": ([("p", 3)], {"c": "p"}, {"c": (4, 0, 2)}),
    "first dimension": ([("p", 2)], {"a": "p"}, {"a": (1, 3)}),
    "two axes": ([("p", 2), ("q", 2)], {"a": "p", "c": "q"}, {"a": (3, 1), "c": (0, 6)}),
}


@pytest.mark.fast("first dimension-1000000000")
@pytest.mark.parametrize("limit", [1, 100, 10**9])
@pytest.mark.parametrize("axes, layout, sizes", LAYOUTS.values(), ids=LAYOUTS)
def test_what_is_written_is_read(axes: list, layout: dict, sizes: dict, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "TRANSFER_BYTES", limit)
    values = {f"v{n}": np.random.default_rng(n).normal(size=(4, 6)) for n in range(5)}
    values["scalar"] = np.array(3.5)
    with tf.Graph().as_default():
        variables = SliceVariables(f"slices{limit}{len(layout)}")
        impl = implementation(axes, layout, sizes)
        for name, value in values.items():
            variables.handles(name, shape(a=4, c=6) if value.ndim else shape(), tf.float64, impl)
        access = slices.SliceAccess(variables)
        with tf.compat.v1.Session() as session:
            for turn in (1.0, -2.0):
                access.write(session, {name: value * turn for name, value in values.items()})
                found = access.read(session, list(values))
                for name, value in values.items():
                    np.testing.assert_array_equal(found[name], value * turn)


@pytest.mark.parametrize("work", ["write", "read"])
def test_the_graph_grows_before_the_first_message_and_not_with_each(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "TRANSFER_BYTES", 1)
    values = {f"v{n}": np.zeros((4, 6)) for n in range(3)}
    seen: list[int] = []
    with tf.Graph().as_default() as graph:
        variables = SliceVariables("growth")
        for name in values:
            variables.handles(name, shape(a=4, c=6), tf.float64, implementation([("p", 3)], {"c": "p"}, {"c": (4, 0, 2)}))
        access = slices.SliceAccess(variables)
        with tf.compat.v1.Session() as session:
            access.write(session, values)
            before = len(graph.get_operations())
            run = session.run
            session.run = lambda *given: (seen.append(len(graph.get_operations())), run(*given))[1]
            fresh = slices.SliceAccess(variables)
            fresh.write(session, values) if work == "write" else fresh.read(session, list(values))
    assert len(seen) == 3 and before < seen[0] == seen[-1]
