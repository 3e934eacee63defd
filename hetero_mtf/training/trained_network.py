"""TrainedNetwork: a network, and what it is trained by, as they were read from a Keras model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hetero_mtf.data.form import Form
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.layers.fallback.keras_call_kind import layers_that_add_losses
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.engine import Engine
from hetero_mtf.program.loss_scale import LossScale, scaled_optimizer
from hetero_mtf.program.objective import Objective, read_objective, with_masks
from hetero_mtf.program.optimizer_reading import read_optimizer
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.program.stale.engine import engine_of
from hetero_mtf.training import batches
from hetero_mtf.training.keras_side import Settings, first_loss_scale, read_weights, trained_state, with_initial_slots
from hetero_mtf.training.plan_choice import Task


@dataclasses.dataclass(frozen=True)
class TrainedNetwork:
    """A network on a cluster, with what it is trained by.

    Parameters
    ----------
    model : the user's keras.Model.
    function : what `graph` was read from: the model, or a keras.Functional of its layers.
    graph : the network.
    cluster : live cluster.
    form : how samples, targets and weights are packed.
    objective : the loss of each output.
    rule : update rule of the optimizer.
    optimizer_name : name of its class.
    settings : what it is trained by.
    first_slots : slot key -> what the optimizer has of training before; empty where it has taken no step.
    """

    model: Any
    function: Any
    graph: LayerGraph
    cluster: Any
    form: Form
    objective: Objective
    rule: UpdateRule
    optimizer_name: str
    settings: Settings
    first_slots: Mapping[str, np.ndarray]

    def first_values(self) -> dict[str, np.ndarray]:
        """Return the weights and slots that training begins with, whole, by their keys."""
        return with_initial_slots(self.graph, self.rule, {**read_weights(self.function, self.graph), **self.first_slots})

    def engine(self, plan: Plan, values: Mapping[str, np.ndarray], seed: int) -> Engine:
        """Return an engine that trains it.

        Parameters
        ----------
        plan : a plan for it, on its cluster.
        values : variable or slot key -> whole array, to start from.
        seed : seed of dropout.

        Raises
        ------
        HeteroError
            As `Engine`.
        """
        return engine_of(self.graph, plan, self.cluster, self.objective, self.rule, seed, values)

    def task(self, batch_size: int) -> Task:
        """Return what a plan is chosen for.

        Parameters
        ----------
        batch_size : samples a batch.
        """
        return Task(self.function, self.graph, self.cluster, batch_size, self.trained_by)

    @property
    def trained_by(self) -> dict[str, Any]:
        """The optimizer, loss and loss weights, by the names that `refine` gives them."""
        return {"loss": self.settings.loss, "loss_weights": self.settings.loss_weights, "optimizer": self.settings.optimizer}


class Beginning(NamedTuple):
    """What training begins with.

    Parameters
    ----------
    network : the network.
    compiled : what its copy on the Keras side is compiled with; its optimizer is one of its own.
    step : steps that the optimizer has taken.
    loss_scale : of the next step; None where losses are not scaled.
    """

    network: TrainedNetwork
    compiled: Settings
    step: int
    loss_scale: LossScale | None


def adds_losses(graph: LayerGraph) -> bool:
    """Return whether layers of a network add to the loss, so that there need be no other."""
    return bool(layers_that_add_losses(graph))


def read_network(model: Any, function: Any, graph: LayerGraph, settings: Settings, cluster: Any) -> Beginning:
    """Return what training a Keras model begins with.

    Parameters
    ----------
    model, function, graph, cluster : as for `TrainedNetwork`.
    settings : what it is trained by; nothing that is needed is missing.

    Raises
    ------
    UnsupportedError
        If an optimizer, a loss or one of their options is not supported.
    """
    optimizer = scaled_optimizer(settings.optimizer, model)
    settings = settings._replace(optimizer=optimizer)
    wiring = read_wiring(function)
    objective = with_masks(read_objective(settings.loss, settings.loss_weights, wiring.output_structure, adds_losses(graph)), graph)
    form = batches.form_of(wiring, graph, objective)
    rule, rates = read_optimizer(optimizer, graph.dtype, graph.has_one_variable_dtype)
    name = type(getattr(rates, "inner_optimizer", rates)).__name__
    slots, step = trained_state(model, graph, optimizer, function)
    network = TrainedNetwork(model, function, graph, cluster, form, objective, rule, name, settings, slots)
    return Beginning(network, settings._replace(optimizer=rates), step, first_loss_scale(rule, optimizer))
