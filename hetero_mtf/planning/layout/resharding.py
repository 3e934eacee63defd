"""Reshardings: the collectives that bring a tensor from one layout to another, in the order of the builder and the lowering."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np

from hetero_mtf.planning.layout.records import LayerLayout

Interval = tuple[int, int]
"""[begin, end) of positions."""


@dataclasses.dataclass(frozen=True)
class TensorLayout:
    """The layout of a tensor on a mesh.

    Parameters
    ----------
    sizes : (positions,) units of its channels along `axis`; empty if the channels are not split.
    axis : mesh axis of the channels; "" if they are not split.
    samples : (positions,) samples along `batch_axis`; empty if the batch is not split.
    batch_axis : mesh axis of the batch; "" if it is not split.
    slabs : (places,) [begin, end) of the positions along `slab_axis`; they may overlap, as windows read some twice. Empty if whole.
    slab_axis : mesh axis of the slabs; "" if space is not split.
    dimension : number of the spatial dimension that lies in slabs.
    extent : its positions.
    """

    sizes: tuple[int, ...] = ()
    axis: str = ""
    samples: tuple[int, ...] = ()
    batch_axis: str = ""
    slabs: tuple[Interval, ...] = ()
    slab_axis: str = ""
    dimension: int = 0
    extent: int = 0

    @property
    def by_axis(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Mesh axis -> ("channels", "batch" or "space", parts) of what is split along it."""
        positions = tuple(end - begin for begin, end in self.slabs)
        parts = {self.axis: ("channels", self.sizes), self.batch_axis: ("batch", self.samples), self.slab_axis: ("space", positions)}
        return {axis: held for axis, held in parts.items() if axis}

    @property
    def whole_channels(self) -> TensorLayout:
        """The layout with the channels gathered."""
        return dataclasses.replace(self, sizes=(), axis="")

    def fractions(self, axis: str) -> np.ndarray:
        """Return the (positions,) fractions of the tensor along an axis that splits it; of slabs that overlap, more than 1 in all."""
        kind, parts = self.by_axis[axis]
        fractions: np.ndarray = np.asarray(parts) / (self.extent if kind == "space" else sum(parts))
        return fractions


@dataclasses.dataclass(frozen=True)
class Resharding:
    """One change of layout along one mesh axis.

    Parameters
    ----------
    kind : "all_gather", "slice" (nothing is sent), "all_to_all", or "halo" (positions of other slabs).
    axis : the mesh axis.
    tensor_layout : the tensor's layout before or after, whichever is split along `axis`; its other splits stay.
    before, after : (positions,) parts of the processors along the axis, empty where the tensor is not split along it; of a halo exchange
        the [begin, end) of the positions.
    """

    kind: str
    axis: str
    tensor_layout: TensorLayout
    before: tuple[int, ...] | tuple[Interval, ...]
    after: tuple[int, ...] | tuple[Interval, ...]

    @property
    def reverse(self) -> Resharding:
        """The resharding of the gradient."""
        kind = {"all_gather": "slice", "slice": "all_gather"}.get(self.kind, self.kind)
        return Resharding(kind, self.axis, self.tensor_layout, self.after, self.before)


def output_of(entry: LayerLayout) -> TensorLayout:
    """Return the layout of a layer's output; a row's partial sums are added up, so its channels are not split."""
    return _tensor_layout(entry, entry.layout in ("column", "split"))


def input_of(entry: LayerLayout) -> TensorLayout:
    """Return the layout in which a layer needs its inputs; in slabs, before windows add what they read of others."""
    return _tensor_layout(entry, entry.layout in ("row", "split"))


def reshardings(old: TensorLayout, new: TensorLayout) -> list[Resharding]:
    """Return the reshardings that bring a tensor from one layout to another, in order.

    Between two different splits of the channels they are gathered. Along a mesh axis that splits the samples before and the channels
    after, or the reverse, one all-to-all is enough, unless another axis splits one of the two.

    Examples
    --------
    >>> batch, filters = TensorLayout((), "", (3, 1), "devices"), TensorLayout((4, 2), "devices")
    >>> [step.kind for step in reshardings(batch, filters)], [step.kind for step in reshardings(filters, TensorLayout())]
    (['all_to_all'], ['all_gather'])
    """
    if old.sizes and new.sizes and (old.sizes, old.axis) != (new.sizes, new.axis):
        gathered = old.whole_channels
        return reshardings(old, gathered) + reshardings(gathered, new)
    before, after = old.by_axis, new.by_axis
    gathers: list[Resharding] = []
    exchanges: list[Resharding] = []
    slices: list[Resharding] = []
    for axis in sorted({*before, *after}):
        held, wanted = before.get(axis, ("", ())), after.get(axis, ("", ()))
        if held[0] == wanted[0] == "space" and old.dimension == new.dimension:
            exchanges += [Resharding("halo", axis, old, old.slabs, new.slabs)] if old.slabs != new.slabs else []
            continue
        if held == wanted:
            continue
        if held[1] and wanted[1] and held[0] != wanted[0] and len(before) == len(after) == 1:
            exchanges.append(Resharding("all_to_all", axis, old, held[1], wanted[1]))
            continue
        gathers += [Resharding("all_gather", axis, old, held[1], ())] if held[1] else []
        slices += [Resharding("slice", axis, new, (), wanted[1])] if wanted[1] else []
    return gathers + exchanges + slices


def weight_gathers(entry: LayerLayout) -> list[Resharding]:
    """Return the reshardings that gather the weights of a layer on every processor: none unless it is split by channels.

    Parameters
    ----------
    entry : the layer's layout.
    """
    return reshardings(TensorLayout(entry.sizes, entry.axis), TensorLayout()) if entry.sizes else []


def _tensor_layout(entry: LayerLayout, split: bool) -> TensorLayout:
    channels = (entry.sizes, entry.axis) if split else ((), "")
    batch = entry.samples, entry.batch_axis if entry.samples else ""
    return in_slabs(_same(*channels, *batch), entry) if entry.slabs else _same(*channels, *batch)


def in_slabs(plain: TensorLayout, entry: LayerLayout) -> TensorLayout:
    """Return the layout of a layer's output that lies in slabs.

    Parameters
    ----------
    plain : its layout but for space.
    entry : the layer's layout.
    """
    ends = list(itertools.accumulate(entry.slabs))
    slabs, extent = tuple(zip([0, *ends], ends)), ends[-1]
    return dataclasses.replace(plain, slabs=slabs, slab_axis=entry.slab_axis, dimension=entry.dimension, extent=extent)


@functools.lru_cache(maxsize=4096)
def _same(sizes: tuple[int, ...], axis: str, samples: tuple[int, ...], batch_axis: str) -> TensorLayout:
    """Return one record for all equal layouts: a plan needs thousands of records with some tens of values."""
    return TensorLayout(sizes, axis, samples, batch_axis)
