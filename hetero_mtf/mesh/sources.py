"""Sources: for which layer and pass each operation of a Mesh-TensorFlow graph was built, so that a trace can be added up by layer."""

from __future__ import annotations

from typing import NamedTuple

from hetero_mtf.mesh.compat import mtf


class Source(NamedTuple):
    """What an operation was built for.

    Parameters
    ----------
    layer : index of the layer.
    step_pass : "forward", "backward" or "update".
    """

    layer: int
    step_pass: str


class Sources:
    """Records the source of each operation while a graph is built.

    Parameters
    ----------
    graph : mtf.Graph, to which operations are added.
    """

    def __init__(self, graph: mtf.Graph) -> None:
        self._graph = graph
        self._present: Source | None = None
        self._counted = len(graph.operations)
        self._source_of: dict[mtf.Operation, Source | None] = {}

    def begin(self, source: Source | None) -> None:
        """Begin a source: operations that are added from now on are part of it.

        Parameters
        ----------
        source : None for no layer.
        """
        self._record()
        self._present = source

    def begin_backward(self, operation: mtf.Operation) -> None:
        """Begin the backward pass of the layer that an operation was built for.

        Parameters
        ----------
        operation : one whose gradient is built next.
        """
        source = self.of(operation)
        self.begin(Source(source.layer, "backward") if source is not None else None)

    def assign(self, operation: mtf.Operation, source: Source) -> None:
        """Make an operation part of a source, whatever was begun.

        Parameters
        ----------
        operation : one that has been added.
        source : its source.
        """
        self._record()
        self._source_of[operation] = source

    def scope(self, operation: mtf.Operation) -> str:
        """Return the beginning of the name under which an operation is lowered, such as "layer3_backward/"; a trace finds it by that.

        Parameters
        ----------
        operation : one of the graph; without a source it has none.
        """
        source = self.of(operation)
        return f"layer{source.layer}_{source.step_pass}/" if source is not None else ""

    def of(self, operation: mtf.Operation) -> Source | None:
        """Return what an operation was built for; None for no layer.

        Parameters
        ----------
        operation : one of the graph.
        """
        self._record()
        return self._source_of.get(operation)

    def _record(self) -> None:
        for operation in self._graph.operations[self._counted :]:
            self._source_of[operation] = self._present
        self._counted = len(self._graph.operations)
