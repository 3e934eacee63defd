"""The graphs of a model whose inputs have open extents: one for each form of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.following import traced_with
from hetero_mtf.keras_reading.graph_of_calls import input_shapes
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.training.batches import of_rank

GRAPHS = 16  # most that are kept, the least recently used one is dropped

Shapes = tuple[tuple[int, ...], ...]
"""(inputs,) shapes of samples."""


class Extents:
    """Reads a model with the extents of each batch.

    Parameters
    ----------
    model : keras.Model that is built.

    Notes
    -----
    Functional and sequential models leave open what they say (None); a subclassed model leaves open all that its call does.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._own = model, input_shapes(model)
        self._subclassed = not any(None in shape for shape in self._own)
        self._graphs: dict[Shapes, LayerGraph] = {}

    def shapes_of(self, x: Sequence[Any]) -> Shapes | None:
        """Return the shapes of samples as the inputs take them; None where they do not fit these.

        Parameters
        ----------
        x : (inputs,) arrays (batch, ...).
        """
        if len(x) != len(self._own):
            return None
        shapes = tuple(of_rank(tuple(np.shape(array)[1:]), own) for array, own in zip(x, self._own))
        fits = all(_fits(shape, own, self._subclassed) for shape, own in zip(shapes, self._own))
        return shapes if fits else None

    def first_shapes(self, x: Any) -> Shapes:
        """Return the shapes of the first batch's samples, those of the inputs themselves where these have no open extents.

        Parameters
        ----------
        x : samples, packed as the model's inputs.

        Raises
        ------
        DataError
            If they are packed in another way, or do not fit open extents.
        """
        own = tuple(self._own)
        flat = read_wiring(self._model).input_structure.flatten(x, "x", spare=True)
        shapes = self.shapes_of(flat)
        if shapes is None and any(None in shape for shape in own):
            given = ", ".join(str(np.shape(array)[1:]) for array in flat)
            raise DataError(f"x has samples of shape {given}, the network's input is {', '.join(map(str, own))}", "reshape x")
        return own if shapes is None else shapes  # type: ignore[return-value] # none is open

    def function(self, shapes: Shapes) -> Any:
        """Return what the network is read from with inputs of these shapes: the model, or a graph of calls (keras.Functional).

        Parameters
        ----------
        shapes : as `shapes_of` gives them.
        """
        return self._model if list(shapes) == self._own else traced_with(self._model, shapes)

    def graph(self, shapes: Shapes) -> LayerGraph | None:
        """Return the network with inputs of these shapes, None where it has none.

        Parameters
        ----------
        shapes : as `shapes_of` gives them.
        """
        graph = self._graphs.pop(shapes, None)
        if graph is None:
            try:
                graph = layer_graph(self.function(shapes))
            except HeteroError:
                raise
            except Exception:  # a call of the user's own may raise anything
                return None
        self._graphs[shapes] = graph
        while len(self._graphs) > GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        return graph


def _fits(shape: tuple[int, ...], own: tuple[int | None, ...], free: bool) -> bool:
    """Return whether a shape is one of an input; `free` where none of its extents is fixed."""
    return len(shape) == len(own) and all(free or wanted in (None, extent) for extent, wanted in zip(shape, own))
