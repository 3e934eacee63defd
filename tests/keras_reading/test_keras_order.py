"""The order of calls: Keras's own is the oracle, over random networks whose layers are called again and again."""

from __future__ import annotations

import random

import keras
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.keras_order import call_order
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring

L = keras.layers


def _random_model(seed: int) -> keras.Model:
    """A network of calls of few layers on few values, some of them twice in a row and some never read."""
    rng = random.Random(seed)
    values = [keras.Input((4,), name=f"in{i}") for i in range(rng.randint(1, 3))]
    inputs = list(values)
    shared = [L.Dense(4, name=f"shared{i}") for i in range(rng.randint(1, 3))]
    for number in range(rng.randint(3, 12)):
        if rng.random() < 0.3 and len(values) > 1:
            values.append(L.Add(name=f"add{number}")(rng.sample(values, rng.randint(2, min(3, len(values))))))
        else:
            layer = rng.choice([*shared, L.Dense(4, name=f"own{number}")])
            values.append(layer(rng.choice(values)))
    outputs = rng.sample(values, rng.randint(1, min(3, len(values))))
    return keras.Model(rng.sample(inputs, len(inputs)), outputs)


def _order_of_keras(model: keras.Model) -> list[str]:
    depths = model._nodes_by_depth
    return [node.operation.name for depth in sorted(depths, reverse=True) for node in depths[depth] if not node.is_input]


@pytest.mark.fast("0", "22", "23", "9")
@pytest.mark.parametrize("seed", range(25))
def test_calls_of_random_networks_come_in_the_order_of_keras_and_after_what_they_read(seed: int) -> None:
    model = _random_model(seed)
    nodes = read_wiring(model).nodes
    assert [node.name.split(":")[0] for node in nodes if node.kind != "InputLayer"] == _order_of_keras(model)
    assert [node.name for node in nodes if node.kind == "InputLayer"] == [tensor.name for tensor in model.inputs]
    assert all(source < index for index, node in enumerate(nodes) for source in node.inputs)
    assert [nodes[node.first].name for node in nodes] == [node.name.split(":")[0] for node in nodes]


def test_a_circle_is_refused_with_its_layers() -> None:
    reads = {("a", 0): [("c", 0)], ("b", 0): [("a", 0)], ("c", 0): [("b", 0)]}
    with pytest.raises(UnsupportedError, match="layers c, b, a read each other in a circle; a network must be acyclic"):
        call_order(reads, [("c", 0)])


def test_a_call_that_no_output_needs_is_left_out() -> None:
    assert call_order({("a", 0): [], ("b", 0): [("a", 0)], ("c", 0): [("a", 0)]}, [("b", 0)]) == [("a", 0), ("b", 0)]


def test_a_very_deep_chain_is_no_matter() -> None:
    depth = 5000
    reads = {("n", i): [("n", i - 1)] if i else [] for i in range(depth)}
    assert call_order(reads, [("n", depth - 1)]) == [("n", i) for i in range(depth)]
