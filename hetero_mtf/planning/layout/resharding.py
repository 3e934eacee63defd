"""Moves: what is sent when a tensor changes from one layout to another, as the builder and the lowering do it."""

from __future__ import annotations

import dataclasses
import functools

from hetero_mtf.planning.layout.records import LayerLayout


@dataclasses.dataclass(frozen=True)
class TensorLayout:
    """How a tensor lies on a mesh.

    Parameters
    ----------
    sizes : (positions,) units of its channels along `axis`; empty if the channels are whole.
    axis : mesh axis of the channels; "" if they are whole.
    samples : (positions,) samples along `batch_axis`; empty if the batch is whole.
    batch_axis : mesh axis of the batch; "" if it is whole.
    """

    sizes: tuple[int, ...] = ()
    axis: str = ""
    samples: tuple[int, ...] = ()
    batch_axis: str = ""

    @property
    def by_axis(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Mesh axis -> ("channels" or "batch", parts) of what lies along it."""
        found = {self.axis: ("channels", self.sizes), self.batch_axis: ("batch", self.samples)}
        return {axis: held for axis, held in found.items() if axis}


@dataclasses.dataclass(frozen=True)
class Resharding:
    """One change of layout along one mesh axis.

    Parameters
    ----------
    kind : "all_gather", "slice" (nothing is sent) or "all_to_all".
    axis : the mesh axis.
    tensor_layout : how the tensor lies before or after, where it is split along `axis`; what else is split stays so.
    before, after : (positions,) parts of the processors along the axis, empty where the tensor is whole along it.
    """

    kind: str
    axis: str
    tensor_layout: TensorLayout
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def reverse(self) -> Resharding:
        """The move that the gradient makes."""
        kind = {"all_gather": "slice", "slice": "all_gather", "all_to_all": "all_to_all"}[self.kind]
        return Resharding(kind, self.axis, self.tensor_layout, self.after, self.before)


def output_of(entry: LayerLayout) -> TensorLayout:
    """Return how a layer's output lies: a row's partial sums are added up, so its channels are whole."""
    return _tensor_layout(entry, entry.layout in ("column", "split"))


def input_of(entry: LayerLayout) -> TensorLayout:
    """Return how a layer wants its inputs to lie."""
    return _tensor_layout(entry, entry.layout in ("row", "split"))


def reshardings(old: TensorLayout, new: TensorLayout) -> list[Resharding]:
    """Return the moves that bring a tensor from one layout to another.

    Channels split in two different ways are gathered in between. Along a mesh axis that holds the samples before and the channels
    after, or the other way round, one all-to-all serves, unless another axis holds one of the two.

    Examples
    --------
    >>> batch, filters = TensorLayout((), "", (3, 1), "devices"), TensorLayout((4, 2), "devices")
    >>> [step.kind for step in reshardings(batch, filters)], [step.kind for step in reshardings(filters, TensorLayout())]
    (['all_to_all'], ['all_gather'])
    """
    if old.sizes and new.sizes and (old.sizes, old.axis) != (new.sizes, new.axis):
        whole = TensorLayout((), "", old.samples, old.batch_axis)
        return reshardings(old, whole) + reshardings(whole, new)
    before, after = old.by_axis, new.by_axis
    gathers: list[Resharding] = []
    exchanges: list[Resharding] = []
    slices: list[Resharding] = []
    for axis in sorted({*before, *after}):
        held, wanted = before.get(axis, ("", ())), after.get(axis, ("", ()))
        if held == wanted:
            continue
        if held[1] and wanted[1] and held[0] != wanted[0] and len(before) == len(after) == 1:
            exchanges.append(Resharding("all_to_all", axis, old, held[1], wanted[1]))
            continue
        gathers += [Resharding("all_gather", axis, old, held[1], ())] if held[1] else []
        slices += [Resharding("slice", axis, new, (), wanted[1])] if wanted[1] else []
    return gathers + exchanges + slices


def _tensor_layout(entry: LayerLayout, split: bool) -> TensorLayout:
    return _same(entry.sizes if split else (), entry.axis if split else "", entry.samples, entry.batch_axis if entry.samples else "")


@functools.lru_cache(maxsize=4096)
def _same(sizes: tuple[int, ...], axis: str, samples: tuple[int, ...], batch_axis: str) -> TensorLayout:
    """Return one and the same record for all tensors that lie alike: thousands are asked for in a plan, of some tens."""
    return TensorLayout(sizes, axis, samples, batch_axis)
