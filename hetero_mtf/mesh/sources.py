"""Sources: for which layer and pass each operation of a Mesh-TensorFlow graph was built, so that a trace can be added up by layer."""

from __future__ import annotations

from typing import Any


def source_name(layer: int, step_pass: str) -> str:
    """Return the name under which the operations of a layer's pass are lowered; a trace finds them by it.

    Parameters
    ----------
    layer : index of the layer.
    step_pass : "forward", "backward" or "update".

    Examples
    --------
    >>> source_name(3, "backward")
    'layer3_backward'
    """
    return f"layer{layer}_{step_pass}"


class Sources:
    """Records the source of each operation while a graph is built.

    Parameters
    ----------
    graph : mtf.Graph, to which operations are added.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._name = ""
        self._counted = len(graph.operations)
        self._name_of: dict[Any, str] = {}

    def begin(self, name: str) -> None:
        """Begin a source: operations that are added from now on are part of it.

        Parameters
        ----------
        name : as `source_name` gives it; empty for none.
        """
        self._record()
        self._name = name

    def begin_backward(self, operation: Any) -> None:
        """Begin the backward pass of the layer that an operation was built for.

        Parameters
        ----------
        operation : one whose gradient is built next.
        """
        layer = self.of(operation).partition("_")[0]
        self.begin(f"{layer}_backward" if layer else "")

    def assign(self, operation: Any, name: str) -> None:
        """Make an operation part of a source, whatever was begun.

        Parameters
        ----------
        operation : one that has been added.
        name : as `source_name` gives it.
        """
        self._record()
        self._name_of[operation] = name

    def of(self, operation: Any) -> str:
        """Return the name of an operation's source, empty where it has none."""
        self._record()
        return self._name_of.get(operation, "")

    def _record(self) -> None:
        for operation in self._graph.operations[self._counted :]:
            self._name_of[operation] = self._name
        self._counted = len(self._graph.operations)
