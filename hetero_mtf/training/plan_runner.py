"""Runs plans on a live cluster to time and trace them, beside the training that they are for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.devices.records import Device
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.plan_run import LayerSeconds, TracedStep
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.engine import Engine
from hetero_mtf.program.losses import WITH_CLASS_NUMBERS
from hetero_mtf.program.objective import Objective
from hetero_mtf.program.optimizers import UpdateRule, step_scalars
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training import batches
from hetero_mtf.training.keras_side import read_weights

ROUND_S = 0.3  # limited devices may work ahead of their share for about a tenth of a second
RATE = 1e-4  # of learning: weights stay near those of the model, whatever the batch


class EngineRunner:
    """Runs plans with copies of a model's weights, on one batch of random numbers.

    Parameters
    ----------
    model : Keras model; it is not changed.
    graph : its LayerGraph.
    cluster : live cluster.
    objective : the loss of each output.
    rule : update rule of the optimizer.
    generator : draws the batch.
    clock : gives seconds.
    """

    def __init__(
        self,
        model: Any,
        graph: LayerGraph,
        cluster: Any,
        objective: Objective,
        rule: UpdateRule,
        generator: np.random.Generator,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._values = read_weights(model, graph)
        self._graph, self._cluster, self._objective, self._rule = graph, cluster, objective, rule
        self._generator, self._clock = generator, clock
        self._scalars = step_scalars(rule, 0, RATE)
        self._engines: dict[int, Engine] = {}
        self._steps: dict[int, int] = {}  # of a round
        self._batches: dict[int, BatchArrays] = {}  # by batch size

    def start(self, plan: Plan) -> None:
        """Build a plan, and take two steps; the first one builds the graph.

        Parameters
        ----------
        plan : a plan for the network and cluster.

        Raises
        ------
        HeteroError
            If it cannot be built, or a worker dies.
        """
        engine = Engine(self._graph, plan, self._cluster, self._objective, self._rule, 0, self._values)
        self._engines[id(plan)] = engine
        try:
            self._step(plan)
            start_s = self._clock()
            self._step(plan)
        except BaseException:
            self.stop(plan)
            raise
        self._steps[id(plan)] = max(1, math.ceil(ROUND_S / max(1e-4, self._clock() - start_s)))

    def step_s(self, plan: Plan) -> float:
        """Return the seconds of a step, the mean over one round of 0.3 s or more.

        Parameters
        ----------
        plan : one that was started.
        """
        count = self._steps[id(plan)]
        start_s = self._clock()
        for _ in range(count):
            self._step(plan)
        return (self._clock() - start_s) / count

    def trace(self, plan: Plan) -> TracedStep:
        """Return a traced step.

        Parameters
        ----------
        plan : one that was started.
        """
        _, trace = self._engines[id(plan)].advance_traced(self._batch(plan), 0, self._scalars, False)
        return traced_step(trace, self._cluster.devices)

    def stop(self, plan: Plan) -> None:
        """Free what a plan holds on the cluster.

        Parameters
        ----------
        plan : one that was started.
        """
        engine = self._engines.pop(id(plan), None)
        if engine is not None:
            engine.close()

    def _step(self, plan: Plan) -> None:
        self._engines[id(plan)].train(self._batch(plan), 0, self._scalars, False)

    def _batch(self, plan: Plan) -> BatchArrays:
        if plan.batch_size not in self._batches:
            self._batches[plan.batch_size] = random_batch(self._graph, self._objective, plan.batch_size, self._generator)
        return self._batches[plan.batch_size]


def traced_step(trace: StepTrace, devices: Sequence[Device]) -> TracedStep:
    """Return a trace with the numbers of its devices.

    Parameters
    ----------
    devices : those of the cluster.
    """
    index_of = {device.name: index for index, device in reversed(list(enumerate(devices)))}
    layers = (LayerSeconds(index_of[entry.device], entry.layer, entry.step_pass, entry.compute_s) for entry in trace.layers)
    return TracedStep(trace.step_s, tuple(layers))


def random_batch(graph: LayerGraph, objective: Objective, size: int, generator: np.random.Generator) -> BatchArrays:
    """Return a batch of uniform random numbers that a network can train on.

    Parameters
    ----------
    objective : the loss of each output; class numbers where it takes these.
    size : samples.
    generator : draws the numbers.
    """
    x = tuple(generator.random((size, *graph.layers[index].output_shape)) for index in graph.inputs)
    y = tuple(_random_targets(part, graph.layers[index].output_shape, size, generator) for part, index in zip(objective, graph.outputs))
    return batches.feed(graph, objective, Batch(x, y, None))


def _random_targets(part: Any, output: tuple[int, ...], size: int, generator: np.random.Generator) -> np.ndarray | None:
    if part is None:
        return None
    if type(part.loss).__name__ == WITH_CLASS_NUMBERS:
        return generator.integers(0, output[-1], (size, *output[:-1]))
    return generator.random((size, *output))
