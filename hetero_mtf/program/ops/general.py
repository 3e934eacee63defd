"""General operations: any TensorFlow function of values and variables, for layers without an operation of their own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations import elementwise
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value, lies_in_slabs


class GeneralOps(LayerContext):
    """Functions whose gradients TensorFlow derives on each processor."""

    def elementwise(self, x: Value, function: Callable[[tf.Tensor], tf.Tensor]) -> Value:
        """Return an elementwise function of `x`; any layout.

        Parameters
        ----------
        function : tf.Tensor -> tf.Tensor of the same shape and dtype, composed of differentiable TensorFlow operations.
        """
        return dataclasses.replace(x, tensor=elementwise.elementwise(x.tensor, self._operation_name, function), logits=None)

    def compute(self, function: Callable[..., tf.Tensor], inputs: Sequence[Value], variables: Sequence[str] = ()) -> Value:
        """Return a function of `inputs` and variables, in the shape of the layer's output.

        On each processor the function gets its samples and, in a "split" layer, its channels. So it must be independent for each
        sample, and in a "split" layer for each channel too. The gradients of the variables are summed over processors.

        Parameters
        ----------
        function : (*inputs, *variables) -> tf.Tensor, all tf.Tensor with the batch first, composed of differentiable TensorFlow operations.
        inputs : values with as many channels as the output, in a "split" layer.
        variables : names of the layer's variables; their dimensions are the last ones of the first input, as in NumPy broadcasting.
        """
        first = inputs[0]
        shape = first.tensor.shape if first.features > 1 else self._output_shape(first)
        tensors = [first.tensor, *(self._channels_as(x, first) for x in inputs[1:]), *(self._variable(name, first) for name in variables)]
        split = [] if first.sizes is None else [first.channels.name]
        unsplit = {d.name: d for t in tensors for d in self.whole(t.shape.dims) if d.name not in (*split, first.batch.name)}
        y = compute(self._operation_name, function, tensors, shape, unsplit=unsplit.values())
        return Value(y, first.sizes, first.features, first.unflat if shape == first.tensor.shape else ())

    @property
    def _operation_name(self) -> str:
        return f"layer{self.index}"

    def _output_shape(self, x: Value) -> mtf.Shape:
        """Return the layer's output shape, in the layout of `x`."""
        *outer, last = self.layer.output_shape
        channels = x.channels if last == x.channels.size else mtf.Dimension(f"layer{self.index}", last)
        space = [mtf.Dimension(f"space{i}", n) for i, n in enumerate(outer)]
        if len(space) == len(x.tensor.shape.dims) - 2:
            space = [d if lies_in_slabs(d) else own for d, own in zip(x.tensor.shape.dims[1:-1], space)]
        return mtf.Shape([x.batch, *space, channels])

    def _channels_as(self, x: Value, first: Value) -> Tensor:
        """Return the tensor of `x`, its channels named as those of `first` where there are as many."""
        dimensions = x.tensor.shape.dims
        if x.channels == first.channels or x.channels.size != first.channels.size:
            return x.tensor
        return mtf.reshape(x.tensor, mtf.Shape([*dimensions[:-1], first.channels]))

    def _variable(self, name: str, x: Value) -> Tensor:
        """Return a variable whose last dimensions are those of `x` where they have the same extent."""
        shape = self.shape_of(name)
        own = [mtf.Dimension(f"layer{self.index}:{name}{i}", n) for i, n in enumerate(shape)]
        if x.features > 1:
            like = x.feature_dims if shape else []
            own = like if math.prod(d.size for d in like) == math.prod(shape) else own
            return self.parameter(name, own)
        for back in range(1, min(len(shape), len(x.tensor.shape.dims) - 1) + 1):
            dimension = x.tensor.shape.dims[-back]
            if shape[-back] == dimension.size:
                own[-back] = dimension
        return self.parameter(name, own)
