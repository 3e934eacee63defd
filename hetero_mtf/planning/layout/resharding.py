"""Moves: what is sent when a tensor changes from one layout to another, as the builder and the lowering do it."""

from __future__ import annotations

import dataclasses
import functools

from hetero_mtf.planning.layout.records import LayerLayout


@dataclasses.dataclass(frozen=True)
class Lying:
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
class Move:
    """One change of layout along one mesh axis.

    Parameters
    ----------
    kind : "all_gather", "slice" (nothing is sent) or "all_to_all".
    axis : the mesh axis.
    lying : how the tensor lies before or after, where it is split along `axis`; what else is split stays so.
    before, after : (positions,) parts of the processors along the axis, empty where the tensor is whole along it.
    """

    kind: str
    axis: str
    lying: Lying
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def reverse(self) -> Move:
        """The move that the gradient makes."""
        kind = {"all_gather": "slice", "slice": "all_gather", "all_to_all": "all_to_all"}[self.kind]
        return Move(kind, self.axis, self.lying, self.after, self.before)


def output_of(entry: LayerLayout) -> Lying:
    """Return how a layer's output lies: a row's partial sums are added up, so its channels are whole."""
    return _lying(entry, entry.layout in ("column", "split"))


def input_of(entry: LayerLayout) -> Lying:
    """Return how a layer wants its inputs to lie."""
    return _lying(entry, entry.layout in ("row", "split"))


def moves(old: Lying, new: Lying) -> list[Move]:
    """Return the moves that bring a tensor from one layout to another.

    Channels split in two different ways are gathered in between. Along a mesh axis that holds the samples before and the channels
    after, or the other way round, one all-to-all serves, unless another axis holds one of the two.

    Examples
    --------
    >>> batch, filters = Lying((), "", (3, 1), "devices"), Lying((4, 2), "devices")
    >>> [move.kind for move in moves(batch, filters)], [move.kind for move in moves(filters, Lying())]
    (['all_to_all'], ['all_gather'])
    """
    if old.sizes and new.sizes and (old.sizes, old.axis) != (new.sizes, new.axis):
        whole = Lying((), "", old.samples, old.batch_axis)
        return moves(old, whole) + moves(whole, new)
    before, after = old.by_axis, new.by_axis
    gathers: list[Move] = []
    exchanges: list[Move] = []
    slices: list[Move] = []
    for axis in sorted({*before, *after}):
        held, wanted = before.get(axis, ("", ())), after.get(axis, ("", ()))
        if held == wanted:
            continue
        if held[1] and wanted[1] and held[0] != wanted[0] and len(before) == len(after) == 1:
            exchanges.append(Move("all_to_all", axis, old, held[1], wanted[1]))
            continue
        gathers += [Move("all_gather", axis, old, held[1], ())] if held[1] else []
        slices += [Move("slice", axis, new, (), wanted[1])] if wanted[1] else []
    return gathers + exchanges + slices


def _lying(entry: LayerLayout, split: bool) -> Lying:
    return _same(entry.sizes if split else (), entry.axis if split else "", entry.samples, entry.batch_axis if entry.samples else "")


@functools.lru_cache(maxsize=4096)
def _same(sizes: tuple[int, ...], axis: str, samples: tuple[int, ...], batch_axis: str) -> Lying:
    """Return one and the same record for all tensors that lie alike: thousands are asked for in a plan, of some tens."""
    return Lying(sizes, axis, samples, batch_axis)
