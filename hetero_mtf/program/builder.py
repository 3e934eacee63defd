"""The builder: the words in which layers say their Mesh-TensorFlow form, honouring a plan's layouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hetero_mtf.errors import LayoutError
from hetero_mtf.layers import kind_of
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.planning.records import LayerLayout
from hetero_mtf.program.site import variable_key
from hetero_mtf.program.value import Value
from hetero_mtf.program.words.activation import ActivationWords
from hetero_mtf.program.words.merge import MergeWords
from hetero_mtf.program.words.mixing import MixingWords
from hetero_mtf.program.words.norm import NormWords
from hetero_mtf.program.words.space import SpaceWords

__all__ = ["Builder", "variable_key"]


class Builder(MixingWords, SpaceWords, NormWords, ActivationWords, MergeWords):
    """Builds one network once, on one mesh, for one batch size; parameters and attributes are those of `Site`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._borders: dict[tuple[int, tuple[int, ...] | None], Value] = {}

    def build(self) -> Value:
        """Return the network's output, whole."""
        values: list[Value] = []
        for index, layer in enumerate(self.graph.layers):
            wanted = self._wanted_sizes(self._layouts[index])
            self.index = index
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
        self.index = index
        try:
            return kind_of(self.layer).build(self, self.layer, inputs)
        except LayoutError as fault:
            raise LayoutError(f"layer {self.layer.name} with layout {self.layout.layout} {list(self.layout.sizes)}: {fault}") from fault

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
        split = self.split_dimension(f"layer{source}:cut{self.index}", channels.size, sizes)
        return Value(mtf.reshape(value.tensor, mtf.Shape([*outer, split])), sizes, features)

    def _unflatten(self, value: Value) -> Value:
        space = [mtf.Dimension(f"space{i}", n) for i, n in enumerate(value.unflat[:-1])]
        shape = mtf.Shape([value.tensor.shape.dims[0], *space, mtf.Dimension(f"{value.channels.name}:channels", value.unflat[-1])])
        return Value(mtf.reshape(value.tensor, shape), features=len(value.unflat))
