"""Networks drawn at random, under layouts drawn at random, give one device's numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program import drawing
from tests.program.oracle import Steps, expected_placement, keras_run, our_run, worst_error

BATCH = 4
MESHES: list[drawing.Axes] = [(("devices", 2),), (("devices", 3),), (("b", 2), ("f", 2)), (("f", 3), ("b", 2)), (("devices", 5),)]


@dataclasses.dataclass(frozen=True)
class Block:
    """One block of a network: what it does and the numbers it does it with."""

    kind: str
    filters: int
    window: int
    stride: int
    padding: str


KINDS = ("conv", "norm", "relu", "pool", "average", "add", "concatenate", "pad", "dropout", "frozen norm")


@dataclasses.dataclass(frozen=True)
class Network:
    """A small convolutional network: blocks, then an end with or without Flatten."""

    shape: tuple[int, int, int]
    filters: int
    blocks: tuple[Block, ...]
    flatten: bool
    hidden: int

    def build(self) -> keras.Model:
        keras.config.set_floatx("float64")
        layers = keras.layers
        i = keras.Input(self.shape)
        x = layers.Conv2D(self.filters, 3, padding="same")(i)
        for block in self.blocks:
            x = _built(block, x)
        x = layers.Flatten()(x) if self.flatten else layers.GlobalAveragePooling2D()(x)
        if self.hidden:
            x = layers.Dense(self.hidden, activation="tanh")(x)
        return keras.Model(i, layers.Dense(3)(x))


def _networks(kinds: tuple[str, ...]) -> Any:
    """Return the strategy that draws networks of blocks of these kinds."""
    window, stride = st.integers(1, 3), st.integers(1, 2)
    block = st.builds(Block, st.sampled_from(kinds), st.integers(1, 7), window, stride, st.sampled_from(["same", "valid"]))
    shape = st.tuples(st.integers(3, 9), st.integers(3, 9), st.integers(1, 3))
    blocks = st.lists(block, min_size=1, max_size=5).map(tuple)
    return st.builds(Network, shape, st.integers(2, 7), blocks, st.booleans(), st.integers(0, 9))


NETWORKS = _networks(KINDS)
ATTENDED = _networks((*KINDS, "attention"))  # which has eight layers to a block


def _built(block: Block, x: Any) -> Any:
    """Return `x` after a block; a window that is too large for what arrives is padded."""
    layers = keras.layers
    padding = "same" if min(x.shape[1:3]) < block.window else block.padding
    conv = lambda: layers.Conv2D(block.filters, block.window, strides=block.stride, padding=padding)(x)  # noqa: E731
    return {
        "conv": conv,
        "norm": lambda: layers.BatchNormalization(momentum=0.7)(x),
        "frozen norm": lambda: layers.BatchNormalization(trainable=False)(x),
        "relu": lambda: layers.Activation("elu")(x),
        "pool": lambda: layers.MaxPooling2D(block.window, strides=block.stride, padding=padding)(x),
        "average": lambda: layers.AveragePooling2D(block.window, strides=block.stride, padding=padding)(x),
        "add": lambda: layers.Add()([conv(), conv()]),
        "concatenate": lambda: layers.Concatenate()([conv(), layers.BatchNormalization()(conv())]),
        "pad": lambda: layers.ZeroPadding2D(((0, block.stride), (block.window, 0)))(x),
        "dropout": lambda: layers.Dropout(0.3)(x),
        "attention": lambda: _attended(block.filters, x),
    }[block.kind]()


def _attended(filters: int, x: Any) -> Any:
    """Return attention of all places of `x` to all places of it; of two at least, as Keras warns of a softmax of one."""
    layers = keras.layers
    x = layers.ZeroPadding2D(((0, 0), (0, 1)))(x) if x.shape[1] * x.shape[2] == 1 else x
    height, width = x.shape[1:3]
    query, value, key = (layers.Reshape((height * width, filters))(layers.Conv2D(filters, 1)(x)) for _ in range(3))
    return layers.Reshape((height, width, filters))(layers.Attention(use_scale=filters % 2 == 0)([query, value, key]))


def check_drawn(network: Network, seed: int, draw: Callable[[Any, Any], hm.Plan], ours: frozenset[str]) -> None:
    """Check that a network under a drawn plan gives the numbers of one device, and lies as the plan says.

    Parameters
    ----------
    network : the network.
    seed : of its weights, the data and the plan.
    draw : random generator, LayerGraph -> plan.
    ours : kinds of layers with masks or statistics that only the plan of one device, with the same microbatches, has too.
    """
    keras.utils.set_random_seed(seed)
    model = network.build()
    rng = np.random.default_rng(seed)
    graph = layer_graph(model)
    plan = draw(rng, graph)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in (plan.batch_size, 2)]
    steps = Steps(x, [rng.integers(0, 3, len(batch)) for batch in x], [None, None])
    sgd = lambda: keras.optimizers.SGD(0.01, momentum=0.9)  # noqa: E731
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Cluster.local(["cpu:0"] * len(plan.devices)) as cluster:
        losses, weights, placement = our_run(model, plan, cluster, sgd(), loss, steps)
        if any(layer.kind in ours for layer in graph.layers):
            one = dataclasses.replace(hm.Plan.single(model, 0, cluster, plan.batch_size), microbatches=plan.microbatches)
            expected_losses, expected, _ = our_run(model, one, cluster, sgd(), loss, steps)
        else:
            expected_losses, expected = keras_run(model, sgd(), loss, steps)
    assert placement == expected_placement(graph, plan)
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8, plan
    assert worst_error(expected, weights) <= 1e-8, plan


def _check(network: Network, axes: drawing.Axes, seed: int) -> None:
    check_drawn(network, seed, lambda rng, graph: drawing.plan(rng, graph, axes, BATCH), frozenset({"Dropout"}))


@hypothesis.settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(NETWORKS, st.sampled_from(MESHES), st.integers(0, 2**16))
def test_a_random_network_under_a_random_layout_gives_the_numbers_of_one_device(network: Network, axes: drawing.Axes, seed: int) -> None:
    _check(network, axes, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("axes", MESHES, ids=str)
@hypothesis.settings(max_examples=30, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(network=ATTENDED, seed=st.integers(0, 2**16))
def test_many_random_networks_under_random_layouts_give_the_numbers_of_one_device(axes: drawing.Axes, network: Network, seed: int) -> None:
    _check(network, axes, seed)
