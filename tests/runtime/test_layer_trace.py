"""Time is shared by the operations that are computed at once, and traces of real steps are complete by layer and pass."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.runtime.layer_trace import shared_out_s, source_of
from hetero_mtf.runtime.step_trace import covered_s

MOMENTS = st.integers(0, 40)
INTERVALS = st.lists(st.tuples(MOMENTS, MOMENTS, st.sampled_from("abc")), max_size=12)


@pytest.mark.parametrize(
    ("operation", "source"),
    [
        ("train_32/layer3_backward/conv/Conv2D", (3, "backward")),
        ("layer12_update/kernel_update/ResourceApplyAdam", (12, "update")),
        ("train_32/stage0_forward1/layer0_forward/parallel_0/Relu", (0, "forward")),
        ("train_32/player3_forward/conv", None),
        ("train_32/layer3/conv", None),
    ],
)
def test_operations_carry_their_layer_and_pass(operation: str, source: tuple[int, str] | None) -> None:
    assert source_of(operation) == source


@given(INTERVALS)
def test_shares_sum_to_the_time_with_at_least_one_operation(drawn: list[tuple[int, int, str]]) -> None:
    intervals = [(float(min(a, b)), float(max(a, b)), key) for a, b, key in drawn]
    assert sum(shared_out_s(intervals).values()) == pytest.approx(covered_s([entry[:2] for entry in intervals]))


@given(INTERVALS)
def test_shares_are_those_of_counting_moment_by_moment(drawn: list[tuple[int, int, str]]) -> None:
    intervals = [(float(min(a, b)), float(max(a, b)), key) for a, b, key in drawn]
    expected: dict[str, float] = {}
    for moment in range(40):
        present = [key for start, end, key in intervals if start <= moment and moment + 1 <= end]
        for key in present:
            expected[key] = expected.get(key, 0.0) + 1 / len(present)
    shares = shared_out_s(intervals)
    assert {key: seconds for key, seconds in shares.items() if seconds > 1e-9} == pytest.approx(expected)


def test_a_traced_step_has_every_layer_and_pass() -> None:
    model = keras.Sequential(
        [keras.Input((12, 12, 2)), keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(4)]
    )
    x, y = np.ones((8, 12, 12, 2), "float32"), np.ones((8, 4), "float32")
    graph = layer_graph(model)
    conv, dense = (index for index, layer in enumerate(graph.layers) if layer.kind in ("Conv", "Conv2D", "Dense"))
    with (
        hm.Cluster.local(["cpu:0", "cpu:0"]) as cluster,
        hm.Trainer(model, hm.Plan.batch(model, [1, 1], cluster, 8), cluster, loss="mse") as trainer,
    ):
        trainer.train_on_batch(x, y)
        layers = trainer.trace_on_batch(x, y).layers
    present = {(entry.device, entry.layer, entry.step_pass) for entry in layers}
    assert {("cpu:0", index, each) for index in (conv, dense) for each in ("forward", "backward", "update")} <= present
    assert all(entry.compute_s >= 0 for entry in layers)
