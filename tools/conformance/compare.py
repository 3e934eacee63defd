"""Trains a model under several plans on three unequal devices, and in Keras, and says how far they are apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

import hetero_mtf as hm
from hetero_mtf.errors import NothingToSplitError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tools.generated.profiles import Figures, Interconnect, generated_profile

BATCH = 6
SHARES = (3, 1, 2)
# Of a mixed policy 8 units in the last place of what its layers give (2^-8, 2^-11): a sum that is split is rounded once more for each
# part, and each step begins with what the one before has rounded.
TOLERANCE = {"float64": 1e-8, "float32": 1e-4, "mixed_bfloat16": 8 * 2.0**-8, "mixed_float16": 8 * 2.0**-11}
POLICIES = ("mixed_bfloat16", "mixed_float16")
# What is smaller is compared absolutely. In half precision, a gradient that is 0 in exact arithmetic, such as that of a bias in front of
# batch normalisation, is noise, which the bias then consists of.
FLOOR = {"mixed_bfloat16": 0.1, "mixed_float16": 0.1}
Optimizer = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Batches:
    """What a model is trained on.

    Parameters
    ----------
    x, y : of each step, packed as the model's inputs and outputs.
    loss : makes the loss.
    optimizer : makes the optimizer.
    """

    x: Sequence[Any]
    y: Sequence[Any]
    loss: Callable[[], Any]
    optimizer: Optimizer


class NotInKerasError(Exception):
    """Keras itself cannot build or train the case."""


def sgd() -> Any:
    """Return what most models are trained by: steps that stay small whatever a layer gives."""
    return keras.optimizers.SGD(0.02, momentum=0.5, clipnorm=1.0)


def scaled(optimizer: Any, policy: str) -> Any:
    """Return an optimizer, under mixed_float16 with a loss scale at which no sum here overflows: a total may where its parts do not.

    Parameters
    ----------
    policy : name of the policy of the model.
    """
    return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0) if policy == "mixed_float16" else optimizer


def plans(graph: LayerGraph, cluster: Any, batch: int = BATCH, layers: bool = False) -> dict[str, hm.Plan]:
    """Return the plans to train by, by name: one device, filters, samples, and, if asked for, the layout search.

    Parameters
    ----------
    graph : the network.
    cluster : three devices.
    batch : samples.
    layers : whether the layout search is asked, for devices that differ as the shares do.
    """
    candidates = {"single": hm.Plan.single(graph, 0, cluster, batch), "batch": hm.Plan.batch(graph, SHARES, cluster, batch)}
    try:
        candidates["filters"] = hm.Plan.filters(graph, SHARES, cluster, batch)
    except NothingToSplitError:
        pass
    if layers:
        figures = [Figures(1e8 * share, 1e9 * share, start_s=0.0, tile=1) for share in SHARES]
        network = Interconnect(near_latency_s=1e-7, near_bytes_per_s=1e8)
        searched = hm.plan(generated_profile(graph, figures, batch, network), strategy="layers")
        candidates["layers"] = dataclasses.replace(candidates["single"], strategy="layers", stages=searched.stages)
    return candidates


def trained(model: Any, plan: hm.Plan, cluster: Any, batches: Batches, tested: bool = True) -> list[np.ndarray]:
    """Return losses and weights after training under a plan, and the loss of a test where it is wanted.

    Parameters
    ----------
    model : keras.Model; it is not changed.
    """
    with hm.Trainer(
        model, plan, cluster, optimizer=scaled(batches.optimizer(), keras.config.dtype_policy().name), loss=batches.loss(), seed=5
    ) as trainer:
        losses = [trainer.train_on_batch(x, y) for x, y in zip(batches.x, batches.y)]
        weights = trainer.to_keras().get_weights()
        test = [np.array(trainer.test_on_batch(batches.x[0], batches.y[0]))] if tested else []
    return [np.array(losses), *weights, *test]


def of_keras(model: Any, batches: Batches, tested: bool = True) -> list[np.ndarray]:
    """Return the same after training the model itself in Keras."""
    model.compile(scaled(batches.optimizer(), keras.config.dtype_policy().name), batches.loss(), run_eagerly=True)

    def loss(value: Any) -> float:
        return float(np.ravel(value)[0])

    try:
        losses = [loss(model.train_on_batch(x, y)) for x, y in zip(batches.x, batches.y)]
    except Exception as fault:  # whatever TensorFlow and Keras raise
        raise NotInKerasError(" ".join(str(fault).split())[:80]) from fault
    weights = model.get_weights()
    test = [np.array(loss(model.test_on_batch(batches.x[0], batches.y[0])))] if tested else []
    return [np.array(losses), *weights, *test]


def apart(one: Sequence[np.ndarray], other: Sequence[np.ndarray], floor: float = 1e-3) -> float:
    """Return the largest of max|a - b| / (max|a| + floor) over arrays; infinity where one is not finite."""
    errors = [float(np.abs(a - b).max() / (np.abs(a).max() + floor)) if np.size(a) else 0.0 for a, b in zip(one, other, strict=True)]
    worst = max(errors, default=0.0)
    return worst if np.isfinite(worst) else float("inf")


def compare(model: Any, batches: Batches, drawn: bool = False, large: bool = False) -> float:
    """Return how far plans are from Keras, or, of a model that draws at random, from each other.

    Parameters
    ----------
    model : keras.Model; it is trained at the end.
    batches : what it is trained on.
    drawn : whether it draws at random.
    large : whether it is a large network: it is compared under the layout search too, and, to take less time, not on one device and not
        in a test.
    """
    graph = layer_graph(model)
    samples = len(keras.tree.flatten(batches.x[0])[0])
    with hm.Cluster.local(["cpu:0"] * len(SHARES)) as cluster:
        wanted = plans(graph, cluster, samples, large)
        if large and not drawn:
            del wanted["single"]
        runs = {name: trained(model, plan, cluster, batches, not large) for name, plan in wanted.items()}
    expected = runs.pop("single") if drawn else of_keras(model, batches, not large)
    floor = FLOOR.get(keras.config.dtype_policy().name, 1e-3)
    return max(apart(expected, run, floor) for run in runs.values())
