"""The run of a distributed model, whose Keras side is the user's model itself, and the plan that it keeps when that is compiled again."""

from __future__ import annotations

import dataclasses
from typing import Any

from hetero_mtf.errors import PlanError, UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.distribution.extents import Extents, Shapes
from hetero_mtf.training.distribution.own_step.step import StepExtents, refused
from hetero_mtf.training.first_use import settings_of
from hetero_mtf.training.keras_side import KerasSide, Settings
from hetero_mtf.training.run.run import Run
from hetero_mtf.training.run.run_plans import Choosing
from hetero_mtf.training.run.run_state import RunState
from hetero_mtf.training.trained_network import adds_losses, read_network


def run_of(
    model: Any, plan: Plan | None, cluster: Any, extents: Extents | StepExtents, first: Shapes, seed: int, choosing: Choosing
) -> Run:
    """Return the run of a model as it was compiled.

    Parameters
    ----------
    model : keras.Model.
    plan : the plan to train by; None for one that is chosen.
    cluster : live cluster.
    extents : reads the model, or its step of its own, with the extents of batches.
    first : shapes of the first batch's samples.
    seed : seed of dropout.
    choosing : how a plan is chosen.

    Raises
    ------
    HeteroError
        If something that it is trained by is not supported, or the plan cannot be honoured.
    """
    try:
        run = _run_of(model, cluster, extents, first, seed, choosing)
        run.begin(plan, None)
    except UnsupportedError as fault:
        if isinstance(extents, StepExtents):
            raise refused(model, str(fault)) from fault
        raise
    return run


def _run_of(model: Any, cluster: Any, extents: Extents | StepExtents, first: Shapes, seed: int, choosing: Choosing) -> Run:
    function = extents.function(first)
    graph = layer_graph(function)
    if isinstance(extents, StepExtents):
        settings = Settings(model.optimizer, None)  # the loss of the step is all that is trained by
    else:
        settings = settings_of(model, Settings(None, None, None, None, None), adds_losses(graph))
    network, _, step, loss_scale = read_network(model, function, graph, settings, cluster)
    keras_side = KerasSide(model, graph, network.form.outputs, function=function)

    def graph_of(x: Any) -> LayerGraph:
        shapes = extents.shapes_of(x if isinstance(x, tuple) else (x,))
        return graph if shapes is None or shapes == first else extents.graph(shapes) or graph

    return Run(network, keras_side, RunState(step, seed, loss_scale), choosing, graph_of)


def kept_plan(plan: Plan, graph: LayerGraph) -> Plan | None:
    """Return a plan for a network in which other variables are trained now; None where it does not fit.

    Parameters
    ----------
    plan : for the network before.
    graph : the network now.
    """
    if plan.digest == graph.digest:
        return plan
    kept = dataclasses.replace(plan, digest=graph.digest, predicted=None, alternatives=(), contributions=())
    try:
        kept.check(graph)
    except PlanError:
        return None
    return kept
