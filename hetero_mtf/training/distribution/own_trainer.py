"""Trainers of distributed models: their Keras side is the user's model itself."""

from __future__ import annotations

import dataclasses
from typing import Any

from hetero_mtf.errors import PlanError, UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.structure import Structure
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.distribution.extents import Extents, Shapes
from hetero_mtf.training.distribution.own_step.step import StepExtents, refused
from hetero_mtf.training.keras_side import KerasSide, Settings
from hetero_mtf.training.trainer import Trainer


class OwnTrainer(Trainer):
    """A trainer whose Keras side is the user's model itself, as it was compiled; other parameters as for `Trainer`.

    Parameters
    ----------
    extents : reads the model with the extents of batches.
    first : shapes of the first batch's samples.
    """

    def __init__(self, model: Any, plan: Plan | None, cluster: Any, extents: Extents | StepExtents, first: Shapes, **options: Any) -> None:
        self._extents, self._first = extents, first
        super().__init__(model, plan, cluster, **options)

    def _read_from(self, model: Any) -> Any:
        return self._extents.function(self._first)

    def _keras_side(self, compiled: Settings, outputs: Structure) -> KerasSide:
        return KerasSide(self._model, self._graph, outputs, function=self._function)

    def _graph_for(self, x: Any) -> LayerGraph:
        shapes = self._extents.shapes_of(x if isinstance(x, tuple) else (x,))
        return self._graph if shapes in (None, self._first) else self._extents.graph(shapes) or self._graph


class StepTrainer(OwnTrainer):
    """A trainer of a step of the user's own, whose loss is all that is trained by."""

    def __init__(self, model: Any, *arguments: Any, **options: Any) -> None:
        try:
            super().__init__(model, *arguments, **options)
        except UnsupportedError as fault:
            raise refused(model, str(fault)) from fault

    def _settings(self, given: Settings, added: bool) -> Settings:
        return Settings(self._model.optimizer, None)


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
