"""The builder: the words in which layers say their Mesh-TensorFlow form, honouring a plan's layouts."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import conv, elementwise, norm, pool
from hetero_mtf.mesh.variables import Parameter, SliceVariables, assign
from hetero_mtf.planning.records import LayerLayout, Stage
from hetero_mtf.program.value import Value


class Builder:
    """Builds one network once, on one mesh, for one batch size.

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
        self._x = x
        self._layouts = {layout.layer: layout for layout in stage.layouts}
        self._index = 0
        self._borders: dict[tuple[int, tuple[int, ...] | None], Value] = {}

    def build(self) -> Value:
        """Return the network's output, whole."""
        values: list[Value] = []
        for index, layer in enumerate(self.graph.layers):
            wanted = self._wanted_sizes(self._layouts[index])
            self._index = index
            values.append(self.build_layer(index, [self._at_border(source, values[source], wanted) for source in layer.inputs]))
        return self._output(len(values) - 1, values[-1])

    def build_layer(self, index: int, inputs: Sequence[Value]) -> Value:
        """Return the output of one layer.

        Parameters
        ----------
        index : index of the layer.
        inputs : its inputs, as its layout wants them.

        Raises
        ------
        LayoutError
            If its layout cannot be honoured.
        """
        self._index = index
        try:
            return kind_of(self.layer).build(self, self.layer, inputs)
        except LayoutError as fault:
            raise LayoutError(f"layer {self.layer.name} with layout {self.layout.layout} {list(self.layout.sizes)}: {fault}") from fault

    @property
    def layer(self) -> Layer:
        """The layer that is being built."""
        return self.graph.layers[self._index]

    @property
    def layout(self) -> LayerLayout:
        """The layout of the layer that is being built."""
        return self._layouts[self._index]

    # Borders: bringing inputs into the layout that a layer wants.

    @staticmethod
    def _wanted_sizes(layout: LayerLayout) -> tuple[int, ...] | None:
        return layout.sizes if layout.layout in ("row", "split") else None

    def _at_border(self, source: int, value: Value, sizes: tuple[int, ...] | None) -> Value:
        """Return `value` whole (sizes None) or split by `sizes`, moved at most once for all its readers."""
        if value.sizes == sizes:
            return value
        key = source, sizes
        if key not in self._borders:
            whole = value if value.sizes is None else self._gather(source, value)
            self._borders[key] = whole if sizes is None else self._cut(source, whole, sizes)
        return self._borders[key]

    def _output(self, source: int, value: Value) -> Value:
        """Return the network's output whole; a sigmoid is gathered before it is applied, so that the loss sees what went in."""
        if value.sizes is None or value.logits is None or value.logits[1] != "sigmoid":
            return self._at_border(source, value, None)
        logits, name = value.logits
        return self.activate(self._gather(source, dataclasses.replace(value, tensor=logits, logits=None)), name)

    def _gather(self, source: int, value: Value) -> Value:
        *outer, channels = value.tensor.shape.dims
        whole = mtf.reshape(value.tensor, mtf.Shape([*outer, mtf.Dimension(f"layer{source}", channels.size)]))
        if value.features == 1:
            return Value(whole)
        batch = whole.shape.dims[0]
        shape = tuple(whole.shape.to_integer_list[1:])
        flat = mtf.Dimension(f"layer{source}", whole.size // batch.size)
        return Value(mtf.reshape(whole, mtf.Shape([batch, flat])), unflat=shape)

    def _cut(self, source: int, value: Value, sizes: tuple[int, ...]) -> Value:
        features = 1
        if sum(sizes) != value.channels.size and value.unflat and sum(sizes) == value.unflat[-1]:
            value, features = self._unflatten(value), len(value.unflat)
        *outer, channels = value.tensor.shape.dims
        if sum(sizes) != channels.size:
            raise LayoutError(
                f"layer {self.layer.name} has the sizes {list(sizes)} for an input of {channels.size} channels; make them sum to it"
            )
        split = self._split_dimension(f"layer{source}:cut{self._index}", channels.size, sizes)
        return Value(mtf.reshape(value.tensor, mtf.Shape([*outer, split])), sizes, features)

    def _unflatten(self, value: Value) -> Value:
        space = [mtf.Dimension(f"space{i}", n) for i, n in enumerate(value.unflat[:-1])]
        shape = mtf.Shape([value.tensor.shape.dims[0], *space, mtf.Dimension(f"{value.channels.name}:channels", value.unflat[-1])])
        return Value(mtf.reshape(value.tensor, shape), features=len(value.unflat))

    def _split_dimension(self, name: str, size: int, sizes: tuple[int, ...]) -> Any:
        self.sizes[name] = sizes
        self.axes[name] = self.layout.axis
        return mtf.Dimension(name, size)

    def _output_dimension(self, size: int) -> Any:
        """Return the channel dimension of this layer's output, laid out where the layer is a column."""
        if self.layout.layout == "column":
            return self._split_dimension(f"layer{self._index}:split", size, self.layout.sizes)
        return mtf.Dimension(f"layer{self._index}", size)

    @property
    def _output_sizes(self) -> tuple[int, ...] | None:
        return self.layout.sizes if self.layout.layout == "column" else None

    # Variables.

    def parameter(self, name: str, dimensions: Sequence[Any]) -> Any:
        """Return the snapshot of the present layer's variable `name`, laid out by its dimensions."""
        key = self._index, name
        parameter = Parameter(self.mesh, self.variables, variable_key(*key), mtf.Shape(list(dimensions)), self.dtype)
        self.parameters[key] = parameter
        return parameter.value

    # The words that layers are built with.

    def batch(self) -> Value:
        """Return the batch, whole on every processor."""
        *space, channels = self.layer.output_shape
        dimensions = [mtf.Dimension("batch", int(self._x.shape[0])), *(mtf.Dimension(f"space{i}", n) for i, n in enumerate(space))]
        return Value(mtf.import_tf_tensor(self.mesh, self._x, mtf.Shape([*dimensions, mtf.Dimension(f"layer{self._index}", channels)])))

    def convolve(self, x: Value, kernel: str, strides: Sequence[int], padding: str) -> Value:
        """Return the convolution of `x` with the layer's variable `kernel`."""
        *taps, _, filters = next(v.shape for v in self.layer.variables if v.name == kernel)
        dimensions = [*(mtf.Dimension(f"tap{i}", n) for i, n in enumerate(taps)), x.channels, self._output_dimension(filters)]
        y = conv.convolve_2d(x.tensor, self.parameter(kernel, dimensions), strides, padding.upper())
        return Value(y, self._output_sizes)

    def multiply_matrix(self, x: Value, kernel: str) -> Value:
        """Return `x` times the layer's variable `kernel` over the channels."""
        units = self._output_dimension(self.layer.units)
        return Value(conv.multiply_matrix(x.tensor, self.parameter(kernel, [*x.feature_dims, units])), self._output_sizes)

    def add_bias(self, x: Value, bias: str) -> Value:
        """Return `x` plus the layer's variable `bias` [channels]."""
        return dataclasses.replace(x, tensor=conv.add_bias(x.tensor, self.parameter(bias, [x.channels])))

    def activate(self, x: Value, name: str) -> Value:
        """Return the activation `name` of `x`; softmax needs the channels whole."""
        if name == "linear":
            return x
        y = elementwise.softmax(x.tensor) if name == "softmax" else elementwise.activate(x.tensor, name)
        return dataclasses.replace(x, tensor=y, logits=(x.tensor, name))

    def rectify(self, x: Value, max_value: float | None, negative_slope: float, threshold: float) -> Value:
        """Return max(x, 0) with Keras's optional ceiling, slope below the threshold, and threshold."""
        if max_value is None and not negative_slope and not threshold:
            return dataclasses.replace(x, tensor=elementwise.activate(x.tensor, "relu"), logits=None)

        def function(value: tf.Tensor) -> tf.Tensor:
            import keras

            return keras.activations.relu(value, negative_slope, max_value, threshold)  # Keras's own, also where the slope jumps

        return dataclasses.replace(x, tensor=elementwise.elementwise(x.tensor, "rectify", function), logits=None)

    def pool(self, x: Value, mode: str, pool_size: Sequence[int], strides: Sequence[int], padding: str) -> Value:
        """Return the maxima ("max") or means ("average") of windows of `x`."""
        return dataclasses.replace(x, tensor=pool.pool_2d(x.tensor, mode, pool_size, strides, padding.upper()), logits=None)

    def mean_over_space(self, x: Value) -> Value:
        """Return the means over all positions."""
        return dataclasses.replace(x, tensor=pool.mean_over_space(x.tensor), logits=None)

    def flatten(self, x: Value) -> Value:
        """Return `x` with all dimensions but the batch made one; a split value keeps them apart."""
        dimensions = x.tensor.shape.dims
        if len(dimensions) <= 2 or x.features > 1:
            return dataclasses.replace(x, logits=None)
        if x.sizes is not None:
            return dataclasses.replace(x, features=len(dimensions) - 1, logits=None)
        flat = mtf.Dimension(f"layer{self._index}", x.tensor.size // dimensions[0].size)
        return Value(mtf.reshape(x.tensor, mtf.Shape([dimensions[0], flat])), unflat=tuple(d.size for d in dimensions[1:]))

    def normalize_batch(self, x: Value, gamma: str | None, beta: str | None, momentum: float, epsilon: float) -> Value:
        """Return `x` normalised over all but its channels: by its own statistics in training, else by the moving ones."""
        channels = x.feature_dims
        shape = mtf.Shape(channels)
        scale = self.parameter(gamma, channels) if gamma else mtf.Constant(self.mesh, 1.0, shape, self.dtype).outputs[0]
        offset = self.parameter(beta, channels) if beta else mtf.Constant(self.mesh, 0.0, shape, self.dtype).outputs[0]
        moving = [self.parameter(name, channels) for name in ("moving_mean", "moving_variance")]
        if not (self.training and self.layer.attributes["trainable"]):
            y = norm.normalize_by(x.tensor, scale, offset, moving[0], moving[1], epsilon)
            return dataclasses.replace(x, tensor=y, logits=None)
        y, *statistics = norm.normalize_batch(x.tensor, scale, offset, epsilon)
        for name, old, new in zip(("moving_mean", "moving_variance"), moving, statistics):
            self.updates.append(assign(self.parameters[self._index, name], norm.moving_average(old, new, momentum)))
        return dataclasses.replace(x, tensor=y, logits=None)

    def drop(self, x: Value, rate: float, seed: int | None) -> Value:
        """Return `x` with dropout in training; the mask's key is (seed, layer, step)."""
        if not self.training or not rate:
            return x
        key = zlib.crc32(repr((self.seed, self._index, seed)).encode()) & 0x7FFFFFFF
        mask_seed = tf.stack([tf.constant(key, tf.int32), self.step])
        return dataclasses.replace(x, tensor=elementwise.drop(x.tensor, rate, mask_seed), logits=None)

    def add(self, inputs: Sequence[Value]) -> Value:
        """Return the sum of values of one shape and layout."""
        first, *others = inputs
        total = first.tensor
        for other in others:
            same = other.tensor if other.tensor.shape == total.shape else mtf.reshape(other.tensor, total.shape)
            total = mtf.add(total, same)
        return dataclasses.replace(first, tensor=total, logits=None)

    def concatenate(self, inputs: Sequence[Value]) -> Value:
        """Return whole values joined along the channels."""
        first = inputs[0].tensor.shape.dims
        aligned = [
            x.tensor if x.tensor.shape.dims[:-1] == first[:-1] else mtf.reshape(x.tensor, mtf.Shape([*first[:-1], x.channels]))
            for x in inputs
        ]
        return Value(pool.concatenate(aligned, mtf.Dimension(f"layer{self._index}", self.layer.units)))

    def pad_space(self, x: Value, padding: Sequence[Sequence[int]]) -> Value:
        """Return `x` with zeros around its spatial dimensions."""
        return dataclasses.replace(x, tensor=pool.pad_space(x.tensor, padding), logits=None)

    def rescale(self, x: Value, scale: float, offset: float) -> Value:
        """Return `x * scale + offset`, both as Keras casts them to the dtype (through float32)."""
        function = lambda value: value * tf.cast(scale, value.dtype) + tf.cast(offset, value.dtype)  # noqa: E731
        tensor = elementwise.elementwise(x.tensor, "rescale", function)
        return dataclasses.replace(x, tensor=tensor, logits=None)


def variable_key(layer: int, name: str) -> str:
    """Return the name under which a layer's variable is held; free of the user's layer names.

    >>> variable_key(7, "kernel")
    '007/kernel'
    """
    return f"{layer:03d}/{name}"
