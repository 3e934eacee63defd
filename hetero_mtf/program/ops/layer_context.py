"""The layer context: the layer that is being built, with its layout, variables and dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.graph.variable_keys import VariableKey, variable_key
from hetero_mtf.layers import kind_of
from hetero_mtf.layers.kind import FULL, ITS_OWN
from hetero_mtf.mesh.batch_parts import Fed
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.local import Local
from hetero_mtf.mesh.operations.mixing import NOT_MIXED, Mixing, average
from hetero_mtf.mesh.operations.precision import cast
from hetero_mtf.mesh.sources import Sources
from hetero_mtf.mesh.variables import Parameter, SliceVariables, Update, assign
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.solvers.apportionment import proportional
from hetero_mtf.program.ops.value import SLABS, Slabs, Value, lies_in_slabs


class LayerContext:
    """The layer that is being built, as all operations of the builder use it.

    Parameters
    ----------
    stage : the plan's layouts and mesh.
    mesh : mtf.Mesh to build on.
    variables : the slices of the weights.
    x : (inputs,) arrays (batch, ...), the batch, one per model input in the order of the input layers.
    training : whether batch statistics and dropout are in force.
    seed : seed of the dropout masks.
    step : () int32 tf.Tensor, number of the step; part of the masks' key.
    mixing : the variables that processors have copies of that differ, in butterfly mixing; none where all have the same.

    Attributes
    ----------
    sizes : dimension name -> (processors,) units, of every laid-out dimension.
    axes : dimension name -> mesh axis name, of the same dimensions.
    slabs : dimension name -> the positions of each processor, of the spatial dimensions among them.
    x : index of an input layer -> its batch.
    batch_size : samples in the batch, or in the microbatch that is built.
    microbatch : number of the microbatch, from 0; part of the masks' key.
    updates_state : whether this pass updates the variables that no optimizer updates.
    parameters : (layer index, variable name) -> Parameter.
    added_losses : scalars that layers add to the loss of this microbatch.
    states_read : (layer index, variable name, microbatch) -> what a call that writes the variable read of it.
    sources : for which layer and pass operations were built.
    read_weight : (key, parameter) -> what the pass reads of a variable; by default its snapshot.
    """

    def __init__(
        self,
        graph: LayerGraph,
        stage: Stage,
        mesh: mtf.Mesh,
        variables: SliceVariables,
        x: Sequence[Fed],
        training: bool,
        seed: int,
        step: tf.Tensor,
        mixing: Mixing = NOT_MIXED,
    ) -> None:
        self.graph, self.mesh, self.variables = graph, mesh, variables
        self.training, self.seed, self.step = training, seed, step
        self.stage = stage
        self.sizes: dict[str, tuple[int, ...]] = {}
        self.slabs: dict[str, Slabs] = {}
        self.axes: dict[str, str] = {}
        self.parameters: dict[VariableKey, Parameter] = {}
        self.squares_rows = False  # whether the optimizer squares the gradient of each occurrence of a row
        self.row_squares: dict[VariableKey, Tensor] = {}  # tensors whose gradients are the sums of these squares
        self._new_values: dict[VariableKey, Tensor] = {}
        self.batch_size = int(x[0].shape[0])
        self.microbatch, self.updates_state = 0, True
        self.added_losses: list[Tensor] = []
        self.states_read: dict[tuple[int, str, int], Tensor] = {}
        self.x = dict(zip(graph.inputs, x))
        self._averaged = NOT_MIXED if training else mixing
        self._layouts = {layout.layer: layout for layout in stage.layouts}
        self.index = 0
        self.sources = Sources(mesh.graph)
        self.read_weight: Callable[[VariableKey, Parameter], Tensor] = lambda _, parameter: parameter.value

    @property
    def layers(self) -> tuple[int, ...]:
        """Indices of the stage's layers, in order."""
        return tuple(self._layouts)

    @property
    def dtype(self) -> tf.DType:
        """What the present layer computes in; where Keras's own call chooses that, the network's dtype."""
        kind, own = kind_of(self.layer), self.layer.compute_dtype or self.graph.dtype
        if kind.precision == ITS_OWN:
            return tf.as_dtype(self.graph.dtype)
        return tf.float32 if kind.precision == FULL and tf.as_dtype(own).size < tf.float32.size else tf.as_dtype(own)

    @property
    def layer(self) -> Layer:
        """The layer that is being built."""
        return self.graph.layers[self.index]

    @property
    def layout(self) -> LayerLayout:
        """The layout of the layer that is being built."""
        return self._layouts[self.index]

    def split_dimension(self, name: str, size: int, sizes: tuple[int, ...], axis: str | None = None) -> mtf.Dimension:
        """Return a new dimension that lies on a mesh axis, by default the layer's own, in slices of `sizes`."""
        self.sizes[name] = sizes
        self.axes[name] = axis or self.layout.axis
        return mtf.Dimension(name, size)

    def axis_of(self, dimension: mtf.Dimension) -> str | None:
        """Return the mesh axis that a dimension lies on, None if it is whole."""
        return self.axes.get(dimension.name)

    def dimension_in(self, slabs: Slabs, extent: int) -> mtf.Dimension:
        """Return a spatial dimension of which processors have certain positions; equal positions have one name.

        Parameters
        ----------
        slabs : the positions.
        extent : of the whole dimension.
        """
        own = slabs.sizes if slabs.tile(extent) else [f"{begin}to{end}" for begin, end in slabs.ranges]
        name = f"{SLABS}{slabs.dimension}:{slabs.axis}:{'-'.join(map(str, own))}"
        self.slabs[name] = dataclasses.replace(slabs, fill=0.0) if slabs.tile(extent) else slabs
        return self.split_dimension(name, sum(slabs.sizes), slabs.sizes, slabs.axis)

    def slabs_of(self, x: Value) -> Slabs | None:
        """Return the positions that processors have of a value's spatial dimension in slabs, None where all are whole."""
        return next((self.slabs[d.name] for d in x.tensor.shape.dims[1:-1] if d.name in self.slabs), None)

    @property
    def output_slabs(self) -> Slabs | None:
        """The positions of the present layer's output that processors have; None where its space is whole."""
        layout = self.layout
        return Slabs.of_sizes(layout.dimension, layout.slab_axis, layout.slabs) if layout.slabs else None

    def output_space(self) -> list[int | mtf.Dimension]:
        """Return the extents of the present layer's output; the dimension of the one in slabs."""
        extents: list[int | mtf.Dimension] = list(self.layer.output_shape[:-1])
        slabs = self.output_slabs
        if slabs is not None:
            extents[slabs.dimension] = self.dimension_in(slabs, self.layer.output_shape[slabs.dimension])
        return extents

    def whole(self, dimensions: Sequence[mtf.Dimension]) -> list[mtf.Dimension]:
        """Return the dimensions that do not lie in slabs."""
        return [d for d in dimensions if not lies_in_slabs(d)]

    def parts_dimension(self, dimension: mtf.Dimension) -> mtf.Dimension:
        """Return a dimension with one unit on each processor of the mesh axis that a laid-out dimension lies on."""
        axis, count = self.axes[dimension.name], len(self.sizes[dimension.name])
        return self.split_dimension(f"parts:{axis}", count, (1,) * count, axis)

    def batch_dimension(self) -> mtf.Dimension:
        """Return the batch dimension in the present layer's layout: unsplit, or split by its samples.

        A batch of another size than the plan's is split in proportion.
        """
        samples, axis = self.layout.samples, self.layout.batch_axis
        if not samples:
            return mtf.Dimension("batch", self.batch_size)
        sizes = self.sizes_of_batch(samples)
        return self.split_dimension(f"batch:{axis}:{'-'.join(map(str, sizes))}", self.batch_size, sizes, axis)

    def sizes_of_batch(self, samples: tuple[int, ...]) -> tuple[int, ...]:
        """Return the samples of each processor in this batch, by those in a batch of the plan's size."""
        return samples if sum(samples) == self.batch_size else tuple(proportional(self.batch_size, samples).sizes)

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """The samples of each position of the mesh axis that the present layer's batch lies on; all of them where it is whole."""
        return self.sizes.get(self.batch_dimension().name, (self.batch_size,))

    def output_dimension(self, size: int) -> mtf.Dimension:
        """Return the channel dimension of this layer's output, laid out where the layer is a column."""
        if self.layout.layout == "column":
            return self.split_dimension(f"layer{self.index}:split", size, self.layout.sizes)
        return mtf.Dimension(f"layer{self.index}", size)

    @property
    def output_sizes(self) -> tuple[int, ...] | None:
        """The sizes of the layer's output channels, None where they are whole."""
        return self.layout.sizes if self.layout.layout == "column" else None

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the whole shape of the present layer's variable `name`."""
        return next(v.shape for v in self.layer.variables if v.name == name)

    def parameter(self, name: str, dimensions: Sequence[mtf.Dimension]) -> Tensor:
        """Return the snapshot of the present layer's variable `name`, laid out by its dimensions, in what the layer computes in.

        A layer that is called more than once has one snapshot; later calls reshape it to their own dimensions.
        """
        key, shape = (self.graph.owner(self.index), name), mtf.Shape(list(dimensions))
        if key not in self.parameters:
            dtype = tf.as_dtype(self.graph.layers[key[0]].variable_dtype or self.graph.dtype)
            self.parameters[key] = Parameter(self.mesh, self.variables, variable_key(*key), shape, dtype)
        value = self.read_weight(key, self.parameters[key])
        if self._averaged.of(key[0]):
            value = average(value, self._averaged.of(key[0]), self.batch_dimension())
        if kind_of(self.layer).precision != ITS_OWN:
            value = cast(value, self.dtype, pending_gradient=True)
        return value if value.shape == shape else mtf.reshape(value, shape)

    def row_squares_of(self, table: str, shape: mtf.Shape) -> list[Tensor]:
        """Return a tensor whose gradient is the sum of the squared gradients of each row's occurrences, where the optimizer asks for it.

        Parameters
        ----------
        table : name of the present layer's variable that rows are looked up in.
        shape : mtf.Shape that it has here.
        """
        key = self.graph.owner(self.index), table
        layer = self.graph.layers[key[0]]
        penalised = any(layer.attributes.get(f"{table}_{power}") for power in ("l1", "l2"))
        if not self.squares_rows or penalised or not any(v.trainable for v in layer.variables if v.name == table):
            return []
        if key not in self.row_squares:
            value = self.parameters[key].value
            zeros = Local("row_squares", lambda _, piece: [tf.zeros_like(piece)], [value], [(value.shape, value.dtype)])
            self.row_squares[key] = zeros.outputs[0]
        zeros_here = self.row_squares[key]
        return [zeros_here if zeros_here.shape == shape else mtf.reshape(zeros_here, shape)]

    def set_after_step(self, name: str, old: Tensor, new: Callable[[Tensor], Tensor]) -> None:
        """Give the present layer's variable `name` the value `new(old)` after the step; later calls and microbatches start from it.

        Parameters
        ----------
        name : name of a variable that no optimizer updates.
        old : its snapshot, from `parameter`.
        new : mtf.Tensor -> mtf.Tensor of the same shape.
        """
        if not self.updates_state:
            return
        key = self.graph.owner(self.index), name
        before = self._new_values.get(key)
        start = old if before is None else before if before.shape == old.shape else mtf.reshape(before, old.shape)
        self._new_values[key] = new(start)

    @property
    def updates(self) -> list[Update]:
        """Operations that training must run besides the optimizer's."""
        return [assign(self.parameters[key], value) for key, value in self._written(trained=False).items()]

    @property
    def rewritten(self) -> dict[VariableKey, Tensor]:
        """What calls of this step wrote to variables that the optimizer updates, laid out as they are."""
        return self._written(trained=True)

    def _written(self, trained: bool) -> dict[VariableKey, Tensor]:
        written = {}
        for key, value in self._new_values.items():
            if any(v.trainable == trained for v in self.graph.layers[key[0]].variables if v.name == key[1]):
                present = self.parameters[key].value
                written[key] = cast(value if value.shape == present.shape else mtf.reshape(value, present.shape), present.dtype)
        return written
