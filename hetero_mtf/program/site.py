"""The site: where one layer after another is built, with its layout, variables and dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.variables import Parameter, SliceVariables
from hetero_mtf.planning.records import LayerLayout, Stage


class Site:
    """What all words of the builder stand on.

    Parameters
    ----------
    graph : the network.
    stage : the plan's layouts and mesh.
    mesh : mtf.Mesh to build on.
    variables : where the slices of the weights are held.
    x : (batch, ...) tf.Tensor, the batch.
    training : whether batch statistics and dropout are in force.
    seed : seed of the dropout masks.
    step : () int32 tf.Tensor, number of the step; part of the masks' key.

    Attributes
    ----------
    sizes : dimension name -> (processors,) units, of every laid-out dimension made while building.
    axes : dimension name -> mesh axis name, likewise.
    parameters : (layer index, variable name) -> Parameter.
    updates : operations that training must run besides the optimizer's.
    """

    def __init__(
        self,
        graph: LayerGraph,
        stage: Stage,
        mesh: Any,
        variables: SliceVariables,
        x: tf.Tensor,
        training: bool,
        seed: int,
        step: tf.Tensor,
    ) -> None:
        self.graph, self.mesh, self.variables = graph, mesh, variables
        self.training, self.seed, self.step = training, seed, step
        self.dtype = tf.as_dtype(graph.dtype)
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.axes: dict[str, str] = {}
        self.parameters: dict[tuple[int, str], Parameter] = {}
        self.updates: list[Any] = []
        self.x = x
        self._layouts = {layout.layer: layout for layout in stage.layouts}
        self.index = 0

    @property
    def layer(self) -> Layer:
        """The layer that is being built."""
        return self.graph.layers[self.index]

    @property
    def layout(self) -> LayerLayout:
        """The layout of the layer that is being built."""
        return self._layouts[self.index]

    def split_dimension(self, name: str, size: int, sizes: tuple[int, ...]) -> Any:
        """Return a new dimension that lies on the layer's mesh axis in slices of `sizes`."""
        self.sizes[name] = sizes
        self.axes[name] = self.layout.axis
        return mtf.Dimension(name, size)

    def output_dimension(self, size: int) -> Any:
        """Return the channel dimension of this layer's output, laid out where the layer is a column."""
        if self.layout.layout == "column":
            return self.split_dimension(f"layer{self.index}:split", size, self.layout.sizes)
        return mtf.Dimension(f"layer{self.index}", size)

    @property
    def output_sizes(self) -> tuple[int, ...] | None:
        """The sizes of the layer's output channels, None where they are whole."""
        return self.layout.sizes if self.layout.layout == "column" else None

    def parameter(self, name: str, dimensions: Sequence[Any]) -> Any:
        """Return the snapshot of the present layer's variable `name`, laid out by its dimensions."""
        key = self.index, name
        parameter = Parameter(self.mesh, self.variables, variable_key(*key), mtf.Shape(list(dimensions)), self.dtype)
        self.parameters[key] = parameter
        return parameter.value


def variable_key(layer: int, name: str) -> str:
    """Return the name under which a layer's variable is held; free of the user's layer names.

    >>> variable_key(7, "kernel")
    '007/kernel'
    """
    return f"{layer:03d}/{name}"
