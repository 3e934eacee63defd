"""The builder: operations by which layers are built in Mesh-TensorFlow, in the layouts of a plan."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.layers import kind_of
from hetero_mtf.layers.kind import ITS_OWN
from hetero_mtf.mesh.batch_parts import Fed
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.halo import exchange_halo
from hetero_mtf.mesh.operations.precision import cast
from hetero_mtf.mesh.operations.transfer import transfer
from hetero_mtf.mesh.sources import Source
from hetero_mtf.planning.layout.synchronisation import building_order, synchronisation_groups
from hetero_mtf.program.ops.activation import ActivationOps
from hetero_mtf.program.ops.attention import AttentionOps
from hetero_mtf.program.ops.fallback import FallbackOps
from hetero_mtf.program.ops.heads import HeadOps
from hetero_mtf.program.ops.kernel import KernelOps
from hetero_mtf.program.ops.merge import MergeOps
from hetero_mtf.program.ops.norm import NormOps
from hetero_mtf.program.ops.sample_norm import SampleNormOps
from hetero_mtf.program.ops.scaling import ScalingOps
from hetero_mtf.program.ops.spatial import SpaceOps
from hetero_mtf.program.ops.value import Slabs, Value, lies_in_slabs


@dataclasses.dataclass(frozen=True)
class InputLayout:
    """The layout that a layer requires of its inputs.

    Parameters
    ----------
    sizes : (processors,) units of the channels; None for unsplit channels.
    axis : mesh axis of the channels; None for unsplit channels.
    batch : mtf.Dimension of the batch, whole or split.
    slabs : positions of a spatial dimension that each processor needs; None for whole space.
    """

    sizes: tuple[int, ...] | None
    axis: str | None
    batch: mtf.Dimension
    slabs: Slabs | None = None


InputKey = tuple[int, InputLayout]
"""A layer whose output is read, and the layout in which it is."""


class Builder(KernelOps, SpaceOps, NormOps, SampleNormOps, ScalingOps, ActivationOps, MergeOps, AttentionOps, HeadOps, FallbackOps):
    """Builds one stage of a network on one mesh; parameters and attributes are those of `LayerContext`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._resharded: dict[InputKey, Value] = {}
        self._normalized_together = {}
        groups = synchronisation_groups(self.graph, list(self._layouts.values())) if self.training else ()
        self._order = building_order(self.graph, self.layers, groups)

    def part(self, x: Sequence[Fed], microbatch: int) -> Builder:
        """Return a builder of the same stage for a microbatch: it shares parameters, dimensions and updated variables.

        Parameters
        ----------
        x : (inputs,) arrays (microbatch, ...).
        microbatch : its number, from 0.
        """
        other = copy.copy(self)
        other.x, other.batch_size, other.microbatch = dict(zip(self.graph.inputs, x)), int(x[0].shape[0]), microbatch
        other._resharded, other.added_losses = {}, []
        return other

    def for_recomputation(self) -> Builder:
        """Return a builder of the same microbatch with the inputs that were transferred, which updates no variables."""
        other = copy.copy(self)
        other.updates_state, other.added_losses = False, []
        other._resharded = {
            (source, required): value for (source, required), value in self._resharded.items() if source not in self._layouts
        }
        return other

    @property
    def arrived(self) -> dict[InputKey, Value]:
        """The outputs of layers that were resharded or transferred so far, in the layouts required."""
        return dict(self._resharded)

    def reading(self, arrived: Mapping[InputKey, Value], step: tf.Tensor) -> Builder:
        """Return a builder of the same stage that finds some inputs transferred already, and updates variables by itself.

        Parameters
        ----------
        arrived : its inputs from other stages, as in `arrived`.
        step : () int32, number of the step or batch for the masks' key.
        """
        other = copy.copy(self)
        other._resharded, other.step, other._new_values = dict(arrived), step, {}
        other.added_losses, other.states_read = [], {}
        return other

    def receive(self, values: Mapping[int, Value]) -> frozenset[int]:
        """Transfer the stage's inputs from other stages to this mesh, in the layouts required; return the layers they come from.

        Parameters
        ----------
        values : outputs of the layers of earlier stages, by index.

        Raises
        ------
        LayoutError
            If a layer's sizes do not sum to the channels of its input.
        """
        sources = set()
        for index in self._layouts:
            self.index = index
            self.sources.begin(Source(index, "forward"))
            for source in self.layer.inputs:
                if source not in self._layouts:
                    sources.add(source)
                    self._in_layout(source, values[source], self._required_layout(values[source]))
        return frozenset(sources)

    def build(self, values: dict[int, Value]) -> None:
        """Add the outputs of the stage's layers to those of the earlier ones.

        Parameters
        ----------
        values : layer index -> its output; layers that have one are not built again.

        Raises
        ------
        LayoutError, UnsupportedError
            As `receive`, and if a layer cannot be computed in its layout.
        """
        for entry in self._order:
            members = [index for index in entry if index not in values]
            inputs = {index: self._inputs_of(index, values) for index in members}
            if len(members) > 1:
                self._synchronise(inputs)
            for index in members:
                self.sources.begin(Source(index, "forward"))
                values[index] = self.build_layer(index, inputs[index])

    def _inputs_of(self, index: int, values: Mapping[int, Value]) -> list[Value]:
        """Return the inputs of a layer in the layout that it requires."""
        self.index = index
        self.sources.begin(Source(index, "forward"))
        return [self._in_layout(source, values[source], self._required_layout(values[source])) for source in self.layer.inputs]

    def _synchronise(self, inputs: Mapping[int, list[Value]]) -> None:
        """Normalise the inputs of batch norms whose synchronisations are merged."""
        read = {}
        for index, (x,) in inputs.items():
            self.index = index
            self.sources.begin(Source(index, "forward"))
            read[index] = self._as_read(x)
        self.normalize_together(read)

    def build_layer(self, index: int, inputs: Sequence[Value]) -> Value:
        """Return the output of one layer.

        Parameters
        ----------
        index : index of the layer.
        inputs : its inputs, in the layout that it requires.

        Raises
        ------
        LayoutError
            If its layout cannot be honoured.
        """
        self.index = index
        try:
            return self._as_given(kind_of(self.layer).build(self, self.layer, [self._as_read(x) for x in inputs]))
        except LayoutError as fault:
            raise LayoutError(f"layer {self.layer.name} with layout {self.layout.layout} {list(self.layout.sizes)}: {fault}") from fault

    def _as_read(self, x: Value) -> Value:
        """Return an input in what the present layer computes in; where its policy says so, rounded to the policy's dtype."""
        kind = kind_of(self.layer)
        if kind.precision == ITS_OWN or not x.tensor.dtype.is_floating:
            return x
        rounded = cast(x.tensor, tf.as_dtype(self.layer.compute_dtype or self.graph.dtype)) if kind.rounds_inputs else x.tensor
        computed = cast(rounded, self.dtype)
        return x if computed is x.tensor else dataclasses.replace(x, tensor=computed, logits=None)

    def _as_given(self, y: Value) -> Value:
        """Return the present layer's output in its output's dtype."""
        own = tf.as_dtype(self.layer.dtype(self.graph.dtype))
        if not (y.tensor.dtype.is_floating and own.is_floating) or y.tensor.dtype == own:
            return y
        return dataclasses.replace(y, tensor=cast(y.tensor, own), logits=None)

    # Resharding of inputs into the layout that a layer requires.

    def _required_layout(self, value: Value) -> InputLayout:
        """Return the layout that the present layer requires of an input."""
        layout = self.layout
        sizes = layout.sizes if layout.layout in ("row", "split") else None
        return InputLayout(sizes, layout.axis if sizes is not None else None, self.batch_dimension(), self._required_slabs(value))

    def _required_slabs(self, value: Value) -> Slabs | None:
        """Return the positions of an input that each processor needs for its slab of the present layer's output."""
        slabs, kind = self.output_slabs, kind_of(self.layer)
        if slabs is None:
            present = self.slabs_of(value) if getattr(kind, "reduces_space", False) and not self.layout.sizes else None
            free = present is not None and present.axis not in self.layout.copied_along  # else samples lie there
            return present if free and self._is_here(value) else None
        if kind.merges and value.tensor.shape.dims[1 + slabs.dimension].size < self.layer.output_shape[slabs.dimension]:
            return None  # one position that is added to all others
        reach, extent = self.reach[slabs.dimension], value.tensor.shape.dims[1 + slabs.dimension].size
        ranges = tuple(reach.reads(*each) for each in slabs.ranges)
        if kind.pads_slabs(self.layer.attributes):
            ranges = tuple((max(begin, 0), min(end, extent)) if begin < end else (0, 0) for begin, end in ranges)
        return Slabs(slabs.dimension, slabs.axis, ranges, kind.fill)

    def _in_layout(self, source: int, value: Value, required: InputLayout) -> Value:
        """Return `value` in a required layout, resharded at most once for all its readers."""
        if self._fits(value, required):
            return value
        key = source, required
        if key not in self._resharded:
            self._resharded[key] = self._reshard(source, value, required)
        return self._resharded[key]

    def _fits(self, value: Value, required: InputLayout) -> bool:
        split = value.sizes is None or self.axis_of(value.channels) == required.axis
        alike = value.sizes == required.sizes and split and value.batch == required.batch
        return alike and self._is_here(value) and self._has_slabs(value, required.slabs)

    def _has_slabs(self, value: Value, required: Slabs | None) -> bool:
        """Return whether processors have the positions required of a value."""
        present = self.slabs_of(value)
        if required is None or present is None:
            return required is None and present is None
        return dataclasses.replace(required, fill=present.fill) == present

    def _is_here(self, value: Value) -> bool:
        return value.tensor.mesh is self.mesh

    def _reshard(self, source: int, value: Value, required: InputLayout) -> Value:
        """Return `value` resharded into a required layout, in one step where channels need not be gathered in between."""
        here = self._is_here(value)
        if not here and not self.graph.layers[source].inputs:
            batch = self._batch_of(source, required.batch)  # the batch is fed to this stage too, not transferred from another
            return self._in_layout(source, batch, required)
        if required.slabs is not None:
            return self._exchange(source, value, required.batch, required.slabs)
        cut = value.sizes is not None and required.sizes is not None
        if here and cut and not self._fits(value, dataclasses.replace(required, batch=value.batch)):
            value = self._in_layout(source, value, InputLayout(None, None, value.batch))
        if value.sizes is not None and required.sizes is None:
            return self._gather(source, value, required.batch)
        if required.sizes is not None and (value.sizes is None or not here):
            return self._cut(source, value, required)
        resharded = self._laid_out(value.tensor, [required.batch, *value.tensor.shape.dims[1:]])
        return dataclasses.replace(value, tensor=resharded, logits=None)

    def _exchange(self, source: int, value: Value, batch: mtf.Dimension, slabs: Slabs) -> Value:
        """Return `value`, whatever its layout, with the positions required of each processor."""
        _, *space, channels = value.tensor.shape.dims
        outer = [self._whole_space(at, d) for at, d in enumerate(space) if at != slabs.dimension]
        whole = channels if value.sizes is None else mtf.Dimension(f"layer{source}", channels.size)
        along = space[slabs.dimension]
        read = self.dimension_in(slabs, along.size)
        tensor = exchange_halo(value.tensor, along, slabs.ranges, read, slabs.fill, [batch, *outer, whole], self.mesh)
        return Value(tensor)

    def _whole_space(self, at: int, dimension: mtf.Dimension) -> mtf.Dimension:
        """Return a spatial dimension that does not lie in slabs."""
        return mtf.Dimension(f"space{at}", dimension.size) if lies_in_slabs(dimension) else dimension

    def _laid_out(self, tensor: Tensor, dimensions: Sequence[mtf.Dimension]) -> Tensor:
        """Return a tensor of this mesh or another one on this mesh, with these dimensions of the same extents, none of them in slabs."""
        shape = mtf.Shape([self._whole_space(at - 1, d) for at, d in enumerate(dimensions)])
        apart = tensor.mesh is not self.mesh or any(map(lies_in_slabs, tensor.shape.dims))
        return transfer(tensor, self.mesh, shape) if apart else mtf.reshape(tensor, shape)

    def output(self, source: int, value: Value) -> Value:
        """Return an output with whole channels, space as it is; a sigmoid is gathered before it is applied, for the loss to get the logits.

        Parameters
        ----------
        source : index of the layer.
        value : its output.
        """
        self.index = source
        unsplit = InputLayout(None, None, value.batch, self.slabs_of(value))
        if value.sizes is None or value.logits is None or value.logits[1] != "sigmoid":
            return self._in_layout(source, value, unsplit)
        logits, name = value.logits
        return self.activate(self._gather(source, dataclasses.replace(value, tensor=logits, logits=None), value.batch), name)

    def unsplit_output(self, source: int, value: Value) -> Value:
        """Return an output that every processor has for all samples; of a softmax or sigmoid, with its logits.

        Parameters
        ----------
        source : index of the layer.
        value : its output, channels whole.
        """
        self.index = source
        batch = mtf.Dimension("batch", self.batch_size)
        if value.batch == batch and self.slabs_of(value) is None:
            return value
        logits = value.logits if value.logits and value.logits[1] in ("softmax", "sigmoid") else None
        tensor = value.tensor if logits is None else logits[0]
        unsplit = self._laid_out(tensor, [batch, *tensor.shape.dims[1:]])
        mask = None if value.mask is None else self._laid_out(value.mask, [batch, *value.mask.shape.dims[1:]])
        return Value(unsplit, logits=None if logits is None else (unsplit, logits[1]), mask=mask)

    def _gather(self, source: int, value: Value, batch: mtf.Dimension) -> Value:
        _, *outer, channels = value.tensor.shape.dims
        gathered = self._laid_out(value.tensor, [batch, *outer, mtf.Dimension(f"layer{source}", channels.size)])
        if value.features == 1:
            return Value(gathered)
        shape = tuple(gathered.shape.to_integer_list[1:])
        flat = mtf.Dimension(f"layer{source}", gathered.size // batch.size)
        return Value(mtf.reshape(gathered, mtf.Shape([batch, flat])), unflat=shape)

    def _cut(self, source: int, value: Value, required: InputLayout) -> Value:
        features, sizes = value.features, required.sizes
        assert sizes is not None
        if sum(sizes) != value.channels.size and value.unflat and sum(sizes) == value.unflat[-1]:
            value, features = self._unflatten(value), len(value.unflat)
        _, *outer, channels = value.tensor.shape.dims
        if sum(sizes) != channels.size:
            raise LayoutError(
                f"layer {self.layer.name} has the sizes {list(sizes)} for an input of {channels.size} channels", "make them sum to it"
            )
        split = self.split_dimension(f"layer{source}:cut{self.index}", channels.size, sizes)
        return Value(self._laid_out(value.tensor, [required.batch, *outer, split]), sizes, features)

    def _unflatten(self, value: Value) -> Value:
        space = [mtf.Dimension(f"space{i}", n) for i, n in enumerate(value.unflat[:-1])]
        shape = mtf.Shape([value.tensor.shape.dims[0], *space, mtf.Dimension(f"{value.channels.name}:channels", value.unflat[-1])])
        return Value(mtf.reshape(value.tensor, shape), features=len(value.unflat))
