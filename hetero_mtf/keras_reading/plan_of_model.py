"""`hm.Plan`: the plan, whose constructors take a Keras model where those of planning take its LayerGraph."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.plan import plan as planned

OF_A_NETWORK = ("single", "equal", "filters", "batch", "space", "hybrid", "grid", "pipeline")
"""The constructors whose first argument is a network."""

_OF_GRAPH = "the network; `hm.Plan` takes a Keras model in its place."


class _Face(type):
    """Makes and recognises the plans of planning: there is one class of plans, and this is its face."""

    def __call__(cls, *arguments: Any, **fields: Any) -> Any:
        return planned.Plan(*arguments, **fields)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, planned.Plan)


class Plan(planned.Plan, metaclass=_Face):  # noqa: D101
    __doc__ = planned.Plan.__doc__


def _read(model: Any) -> LayerGraph:
    from hetero_mtf.keras_reading.layer_graph import layer_graph  # loads Keras, which a plan that is read or made of a graph does without

    return layer_graph(model)


def _of_model(name: str) -> Any:
    """Return a constructor of plans that takes a Keras model as its first argument."""
    of_graph = getattr(planned.Plan, name)

    @functools.wraps(of_graph)
    def of_model(model: Any, *arguments: Any, **options: Any) -> Any:
        return of_graph(model if isinstance(model, LayerGraph) else _read(model), *arguments, **options)

    first, *others = inspect.signature(of_graph).parameters.values()
    of_model.__signature__ = inspect.Signature([first.replace(name="model", annotation=Any), *others])  # type: ignore[attr-defined]
    documented = of_graph.__doc__.replace(f"graph : {_OF_GRAPH}", "model : keras.Model, or LayerGraph.")
    of_model.__doc__ = documented.replace("graph, ", "model, ")
    return staticmethod(of_model)


for _name in OF_A_NETWORK:
    setattr(Plan, _name, _of_model(_name))
