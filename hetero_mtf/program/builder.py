"""The builder: the words in which layers say their Mesh-TensorFlow form, honouring a plan's layouts."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.layers import kind_of
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.transfer import transfer
from hetero_mtf.program.layer_context import variable_key
from hetero_mtf.program.value import Value
from hetero_mtf.program.words.activation import ActivationOps
from hetero_mtf.program.words.attention import AttentionOps
from hetero_mtf.program.words.merge import MergeOps
from hetero_mtf.program.words.mixing import MixingOps
from hetero_mtf.program.words.norm import NormOps
from hetero_mtf.program.words.sample_norm import SampleNormOps
from hetero_mtf.program.words.scaling import ScalingOps
from hetero_mtf.program.words.space import SpaceOps

__all__ = ["Builder", "variable_key"]


@dataclasses.dataclass(frozen=True)
class Border:
    """How a layer wants an input to lie.

    Parameters
    ----------
    sizes : (processors,) units of the channels; None for whole.
    axis : mesh axis of the channels; None for whole.
    batch : mtf.Dimension of the batch, whole or split.
    """

    sizes: tuple[int, ...] | None
    axis: str | None
    batch: Any


class Builder(MixingOps, SpaceOps, NormOps, SampleNormOps, ScalingOps, ActivationOps, MergeOps, AttentionOps):
    """Builds one stage of a network on one mesh; parameters and attributes are those of `LayerContext`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._borders: dict[tuple[int, Border], Value] = {}

    def part(self, x: Sequence[tf.Tensor], microbatch: int) -> Builder:
        """Return a builder of the same stage for a microbatch: parameters, dimensions and what is renewed are one.

        Parameters
        ----------
        x : (inputs,) tf.Tensor (microbatch, ...).
        microbatch : its number, from 0.
        """
        other = copy.copy(self)
        other.x, other.batch_size, other.microbatch = dict(zip(self.graph.inputs, x)), int(x[0].shape[0]), microbatch
        other._borders = {}
        return other

    def again(self) -> Builder:
        """Return a builder of the same microbatch that has what arrived, and renews nothing."""
        other = copy.copy(self)
        other.renews = False
        other._borders = {(source, border): value for (source, border), value in self._borders.items() if source not in self._layouts}
        return other

    def receive(self, values: Mapping[int, Value]) -> frozenset[int]:
        """Bring to this mesh what the stage's layers read of other stages, as they want it; return the layers it comes from.

        Parameters
        ----------
        values : outputs of the layers of earlier stages, by index.
        """
        sources = set()
        for index in self._layouts:
            self.index = index
            border = self._border()
            for source in self.layer.inputs:
                if source not in self._layouts:
                    sources.add(source)
                    self._at_border(source, values[source], border)
        return frozenset(sources)

    def build(self, values: dict[int, Value]) -> None:
        """Add the outputs of the stage's layers to those of the earlier ones.

        Parameters
        ----------
        values : layer index -> its output; what is there already is not built again.
        """
        for index in self._layouts:
            if index not in values:
                self.index = index
                border = self._border()
                values[index] = self.build_layer(index, [self._at_border(source, values[source], border) for source in self.layer.inputs])

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
        self.index = index
        try:
            return kind_of(self.layer).build(self, self.layer, inputs)
        except LayoutError as fault:
            raise LayoutError(f"layer {self.layer.name} with layout {self.layout.layout} {list(self.layout.sizes)}: {fault}") from fault

    # Borders: bringing inputs into the layout that a layer wants.

    def _border(self) -> Border:
        """Return how the present layer wants its inputs."""
        layout = self.layout
        sizes = layout.sizes if layout.layout in ("row", "split") else None
        return Border(sizes, layout.axis if sizes is not None else None, self.batch_dimension())

    def _at_border(self, source: int, value: Value, border: Border) -> Value:
        """Return `value` as a border wants it, moved at most once for all its readers."""
        if self._fits(value, border):
            return value
        key = source, border
        if key not in self._borders:
            self._borders[key] = self._moved(source, value, border)
        return self._borders[key]

    def _fits(self, value: Value, border: Border) -> bool:
        split = value.sizes is None or self.axis_of(value.channels) == border.axis
        return value.sizes == border.sizes and split and value.batch == border.batch and self._is_here(value)

    def _is_here(self, value: Value) -> bool:
        return value.tensor.mesh is self.mesh

    def _moved(self, source: int, value: Value, border: Border) -> Value:
        """Return `value` in the layout of a border, by one change of layout where no whole channels are wanted in between."""
        here = self._is_here(value)
        if not here and not self.graph.layers[source].inputs:
            return self._at_border(source, self._batch_of(source, border.batch), border)  # handed over here too, not by another stage
        cut = value.sizes is not None and border.sizes is not None
        if here and cut and not self._fits(value, dataclasses.replace(border, batch=value.batch)):
            value = self._at_border(source, value, Border(None, None, value.batch))
        if value.sizes is not None and border.sizes is None:
            return self._gather(source, value, border.batch)
        if border.sizes is not None and (value.sizes is None or not here):
            return self._cut(source, value, border)
        moved = self._laid_out(value.tensor, [border.batch, *value.tensor.shape.dims[1:]])
        return dataclasses.replace(value, tensor=moved, logits=None)

    def _laid_out(self, tensor: Any, dimensions: Sequence[Any]) -> Any:
        """Return a tensor of this mesh or another one on this mesh, with these dimensions of the same extents."""
        shape = mtf.Shape(list(dimensions))
        return mtf.reshape(tensor, shape) if tensor.mesh is self.mesh else transfer(tensor, self.mesh, shape)

    def output(self, source: int, value: Value) -> Value:
        """Return an output with whole channels; a sigmoid is gathered before it is applied, so that the loss sees what went in.

        Parameters
        ----------
        source : index of the layer.
        value : its output.
        """
        self.index = source
        whole = Border(None, None, value.batch)
        if value.sizes is None or value.logits is None or value.logits[1] != "sigmoid":
            return self._at_border(source, value, whole)
        logits, name = value.logits
        return self.activate(self._gather(source, dataclasses.replace(value, tensor=logits, logits=None), value.batch), name)

    def _gather(self, source: int, value: Value, batch: Any) -> Value:
        _, *outer, channels = value.tensor.shape.dims
        whole = self._laid_out(value.tensor, [batch, *outer, mtf.Dimension(f"layer{source}", channels.size)])
        if value.features == 1:
            return Value(whole)
        shape = tuple(whole.shape.to_integer_list[1:])
        flat = mtf.Dimension(f"layer{source}", whole.size // batch.size)
        return Value(mtf.reshape(whole, mtf.Shape([batch, flat])), unflat=shape)

    def _cut(self, source: int, value: Value, border: Border) -> Value:
        features, sizes = value.features, border.sizes
        assert sizes is not None
        if sum(sizes) != value.channels.size and value.unflat and sum(sizes) == value.unflat[-1]:
            value, features = self._unflatten(value), len(value.unflat)
        _, *outer, channels = value.tensor.shape.dims
        if sum(sizes) != channels.size:
            raise LayoutError(
                f"layer {self.layer.name} has the sizes {list(sizes)} for an input of {channels.size} channels; make them sum to it"
            )
        split = self.split_dimension(f"layer{source}:cut{self.index}", channels.size, sizes)
        return Value(self._laid_out(value.tensor, [border.batch, *outer, split]), sizes, features)

    def _unflatten(self, value: Value) -> Value:
        space = [mtf.Dimension(f"space{i}", n) for i, n in enumerate(value.unflat[:-1])]
        shape = mtf.Shape([value.tensor.shape.dims[0], *space, mtf.Dimension(f"{value.channels.name}:channels", value.unflat[-1])])
        return Value(mtf.reshape(value.tensor, shape), features=len(value.unflat))
