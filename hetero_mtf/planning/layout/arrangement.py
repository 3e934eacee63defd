"""The layout of each layer when the filters are split: columns, then rows, along every chain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.layers.reach import Reach
from hetero_mtf.planning.layout.records import LayerLayout

PAIRINGS = ("pairs", "gather")
BORDERS = ("all_gather", "all_to_all")


@dataclasses.dataclass(frozen=True)
class Segment:
    """Layers that share one size vector.

    Parameters
    ----------
    units : the units the sizes sum to.
    layers : indices of its layers in order: one or more columns, the split layers behind them, and the rows that end them.
    """

    units: int
    layers: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """The layout of each layer, before sizes are chosen.

    Parameters
    ----------
    layouts : (layers,) layout of each layer.
    segments : the groups of layers that share one size vector; a replicated layer is in none.
    """

    layouts: tuple[str, ...]
    segments: tuple[Segment, ...]


def channels(graph: LayerGraph) -> tuple[int, ...]:
    """Return, for each layer, how many units its output is split into where it is split.

    These are the channels of its output, except from a Flatten to the next layer that mixes channels: there they are the
    channels of the Flatten's input, whose sizes its output keeps.
    """
    counts: list[int] = []
    for layer in graph.layers:
        own = not layer.inputs or kind_of(layer).mixes or "split" not in kind_of(layer).layouts(layer)
        counts.append(layer.units if own else counts[layer.inputs[0]])
    return tuple(counts)


def trains_before(graph: LayerGraph) -> tuple[bool, ...]:
    """Return, for each layer, whether it or one before it has weights that train, so that its output needs a gradient."""
    trains: list[bool] = []
    for layer in graph.layers:
        trains.append(any(v.trainable for v in layer.variables) or any(trains[i] for i in layer.inputs))
    return tuple(trains)


def split_units(graph: LayerGraph, index: int, layout: str, counts: Sequence[int]) -> int:
    """Return what the sizes of layer `index` sum to in `layout`, from `counts = channels(graph)`."""
    layer = graph.layers[index]
    if layout == "row":
        return counts[layer.inputs[0]]
    return layer.units if layout == "column" else counts[index]


def trunk(graph: LayerGraph) -> frozenset[int]:
    """Return the layers in front of the dense layers behind the convolutions; all of them where there is no such dense layer.

    The dense part is every Dense that no convolution follows, and every layer that reads one of its layers. A Flatten or Dropout
    in front of its first Dense belongs to the trunk.
    """
    leads: set[int] = set()  # layers that a convolution follows, directly or not
    for index in reversed(range(len(graph.layers))):
        layer = graph.layers[index]
        if index in leads or "Conv" in layer.kind or (kind_of(layer).mixes and layer.kind != "Dense"):
            leads.update(layer.inputs)
    dense: set[int] = set()
    for index, layer in enumerate(graph.layers):
        if (layer.kind == "Dense" and index not in leads) or not dense.isdisjoint(layer.inputs):
            dense.add(index)
    return frozenset(range(len(graph.layers))) - dense


def splits_batch(layer: Layer) -> bool:
    """Return whether a layer may have its batch split: not if its kind says that it mixes samples."""
    return not getattr(kind_of(layer), "mixes_samples", False)


def mirrors(graph: LayerGraph, index: int) -> bool:
    """Return whether the backward pass of a layer in slabs, if its input has the same ones, reads halos of its output's gradient alone.

    A convolution with far fewer channels than filters reads its input's once more instead, which is the smaller tensor.

    Parameters
    ----------
    index : of the layer.
    """
    layer = graph.layers[index]
    if not kind_of(layer).pads_slabs(layer.attributes):
        return False
    return 2 * graph.layers[layer.inputs[0]].output_shape[-1] >= layer.output_shape[-1]


def reach_of(graph: LayerGraph, index: int) -> tuple[Reach, ...]:
    """Return which positions of its inputs a layer reads along each spatial dimension; nothing where space cannot be split.

    Parameters
    ----------
    index : of the layer.
    """
    layer = graph.layers[index]
    reach = getattr(kind_of(layer), "reach", None)
    return reach(layer.attributes, [graph.layers[i].output_shape for i in layer.inputs]) if reach is not None else ()


def draws_at_random(layer: Layer) -> bool:
    """Return whether a layer may draw at random as it trains: then each microbatch has draws of its own."""
    return bool(getattr(kind_of(layer), "draws", False))


def takes_statistics(layer: Layer) -> bool:
    """Return whether a layer takes statistics of a batch as it trains: batch norm, unless it is frozen."""
    return layer.kind == "BatchNormalization" and bool(layer.attributes.get("trainable", True))


def joins_positions(layer: Layer) -> bool:
    """Return whether a layer takes statistics of a sample over positions, which processors with slabs of it join."""
    axis = layer.attributes.get("axis")
    return layer.kind == "GroupNormalization" or (layer.kind == "LayerNormalization" and isinstance(axis, list) and len(axis) > 1)


def shared(graph: LayerGraph) -> frozenset[int]:
    """Return the calls of layers that are called more than once and have variables."""
    owners = {layer.shared_with for layer in graph.layers if layer.shared_with is not None}
    return frozenset(i for i, layer in enumerate(graph.layers) if layer.variables and graph.owner(i) in owners)


def arrange(
    graph: LayerGraph,
    pairing: str = "pairs",
    unsplit: frozenset[int] = frozenset(),
    border: str | None = None,
    batched: frozenset[int] = frozenset(),
) -> Arrangement:
    """Return the layout of every layer and the segments that share sizes.

    The layers are walked in order. A layer that mixes channels (Conv2D, Dense) and reads a split input becomes the row that
    ends the segment, so that one all-reduce is enough for the pair. If its input is not split, it becomes a column and starts a
    segment.
    A layer that does not mix channels is split as its inputs where all of them are split alike, and is replicated otherwise:
    the builder gathers split inputs. Columns that meet in one Add become one segment, so they get the same sizes.

    Parameters
    ----------
    pairing : "pairs" as above; "gather" makes every mixing layer a column, gathered before the next mixing layer.
    unsplit : indices of mixing layers to keep replicated.
    border : None splits filters everywhere; "all_gather" and "all_to_all" split the batch in the `trunk` and channels behind it.
        At an "all_gather" the first dense layer is a column that reads the full batch; at an "all_to_all" it is a row, each
        processor taking its input channels of all samples. A softmax cannot be a column, so it is a row at either.
    batched : indices of mixing layers behind the border whose batch is split too.

    Raises
    ------
    PlanError
        If the pairing or the border is unknown, or a border is asked for in a network without dense layers behind it that can be
        split.

    Notes
    -----
    A column that is gathered at once (the last layer, a projection beside a residual chain) stays a column: its all-gather
    and all-reduce send as much as a row over a sliced input would, up to which of its two sides is larger. Where communication costs
    more than the split saves, the planner puts it into `unsplit`. A slice of a flattened tensor is not contiguous, so a Flatten keeps
    the split only where all its readers end in rows; else its input is gathered before the Flatten, at the same cost.
    A layer with variables that is called more than once is replicated, as all its calls must hold the variables in the same layout.
    O(layers * segments).
    """
    if pairing not in PAIRINGS:
        raise PlanError(f"pairing {pairing!r} is unknown", f"use one of {', '.join(PAIRINGS)}")
    walk = _Walk(graph, channels(graph), pairing, unsplit | shared(graph), _checked_trunk(graph, border) | batched, border)
    for index in range(len(graph.layers)):
        walk.visit(index)
    segments = tuple(Segment(units, tuple(members)) for units, members in walk.segments if members)
    if border is not None and not (segments or unsplit or batched):
        raise NothingToSplitError("no dense layer behind the convolutions can be split by channels", "use Plan.batch or strategy batch")
    return Arrangement(tuple(walk.layouts), segments)


def _checked_trunk(graph: LayerGraph, border: str | None) -> frozenset[int]:
    if border is None:
        return frozenset()
    if border not in BORDERS:
        raise PlanError(f"border {border!r} is unknown", f"use one of {', '.join(BORDERS)}")
    members = trunk(graph)
    if len(members) == len(graph.layers):
        lack = "the network has no dense layer behind its convolutions, so a hybrid has nothing to split there"
        raise NothingToSplitError(f"{lack}", "use Plan.batch or strategy batch")
    return members


def lay_out(
    graph: LayerGraph, arrangement: Arrangement, sizes: Sequence[Sequence[int]], samples: Sequence[int] = ()
) -> tuple[LayerLayout, ...]:
    """Return one LayerLayout a layer.

    Parameters
    ----------
    arrangement : from `arrange`.
    sizes : (segments, devices) integer units of each device, one row a segment of the arrangement.
    samples : (devices,) samples of each device, for the layers whose layout is "batch".
    """
    of_layer = {layer: tuple(row) for segment, row in zip(arrangement.segments, sizes) for layer in segment.layers}
    return tuple(
        LayerLayout(index, layer.name, layout, of_layer.get(index, ()), samples=tuple(samples) if layout == "batch" else ())
        for index, (layer, layout) in enumerate(zip(graph.layers, arrangement.layouts))
    )


@dataclasses.dataclass
class _Walk:
    """The state of one pass over the layers; `arriving` is the segment that a layer's output is split by, or None."""

    graph: LayerGraph
    counts: tuple[int, ...]
    pairing: str
    unsplit: frozenset[int]
    trunk: frozenset[int]
    border: str | None
    border_segments: dict[int, int] = dataclasses.field(default_factory=dict)
    layouts: list[str] = dataclasses.field(default_factory=list)
    arriving: list[int | None] = dataclasses.field(default_factory=list)
    segments: list[tuple[int, list[int]]] = dataclasses.field(default_factory=list)

    def visit(self, index: int) -> None:
        layer = self.graph.layers[index]
        kind = kind_of(layer)
        if index in self.trunk or (not kind.mixes and self._reads_batch(layer)):
            self._place(index, "batch" if splits_batch(layer) else "replicated", None)
        elif not layer.inputs or index in self.unsplit:
            self._place(index, "replicated", None)
        elif kind.mixes:
            self._mix(index, layer, kind.layouts(layer))
        else:
            self._follow(index, layer, kind.layouts(layer))

    def _place(self, index: int, layout: str, segment: int | None) -> None:
        self.layouts.append(layout)
        self.arriving.append(None if layout == "row" else segment)
        if segment is not None:
            self.segments[segment][1].append(index)

    def _mix(self, index: int, layer: Layer, legal: frozenset[str]) -> None:
        source = self.arriving[layer.inputs[0]]
        if self.pairing == "pairs" and source is not None and "row" in legal:
            self._place(index, "row", source)
        elif self._splits_at_border(layer, legal):
            self._place(index, "row", self._border_segment(layer.inputs[0]))
        elif "column" in legal:
            self.segments.append((layer.units, []))
            self._place(index, "column", len(self.segments) - 1)
        else:
            self._place(index, "replicated", None)

    def _reads_batch(self, layer: Layer) -> bool:
        return bool(layer.inputs) and all(self.layouts[i] == "batch" for i in layer.inputs)

    def _splits_at_border(self, layer: Layer, legal: frozenset[str]) -> bool:
        """Return whether a layer splits the input channels that it reads from the trunk."""
        return self._reads_batch(layer) and "row" in legal and (self.border == "all_to_all" or "column" not in legal)

    def _border_segment(self, source: int) -> int:
        """Return the segment by which layers behind the border split the output of `source`."""
        if source not in self.border_segments:
            self.segments.append((self.counts[source], []))
            self.border_segments[source] = len(self.segments) - 1
        return self.border_segments[source]

    def _follow(self, index: int, layer: Layer, legal: frozenset[str]) -> None:
        sources = [self.arriving[i] for i in layer.inputs]
        alike = len({self.counts[i] for i in layer.inputs}) == 1
        flattened = self.counts[index] != layer.units
        if None in sources or "split" not in legal or not alike or (flattened and not self._read_by_rows_only(index)):
            self._place(index, "replicated", None)
            return
        segment = sources[0]
        assert segment is not None
        for other in sources[1:]:
            self._join(segment, other)
        self._place(index, "split", segment)

    def _read_by_rows_only(self, index: int) -> bool:
        """Return whether all readers of a flattened layer are rows, directly or behind layers that keep the split."""
        layer, readers = self.graph.layers[index], self.graph.readers[index]
        plain = not layer.variables and len(layer.inputs) == 1 and index not in self.graph.outputs and not kind_of(layer).needs_flat
        return plain and bool(readers) and all(self._takes_flattened(i) for i in readers)

    def _takes_flattened(self, index: int) -> bool:
        layer = self.graph.layers[index]
        kind = kind_of(layer)
        if kind.mixes:
            return self.pairing == "pairs" and index not in self.unsplit and "row" in kind.layouts(layer)
        return "split" in kind.layouts(layer) and self._read_by_rows_only(index)

    def _join(self, segment: int, other: int | None) -> None:
        """Give the layers of segment `other` the sizes of `segment`."""
        if other is None or other == segment:
            return
        units, moved = self.segments[other]
        self.segments[segment][1].extend(moved)
        self.segments[segment][1].sort()
        self.segments[other] = (units, [])
        self.arriving[:] = [segment if source == other else source for source in self.arriving]
