"""The cases of the operations that move elements about: reshapes, pieces, shifts, and the largest elements."""

from __future__ import annotations

from typing import Any

from hetero_mtf.mesh.compat import mtf
from tests.mesh.stock.cases import ONE, A, C, D, H, K, case

BLOCK = mtf.Dimension("h", 2)


def _shapes() -> None:
    case("reshape", lambda m, v: [mtf.reshape(v.x, [A, mtf.Dimension("c1", 2), K]), mtf.reshape(v.x, [mtf.Dimension("all", 24)])])
    case("reshape: owed", lambda m, v: [mtf.reshape(mtf.reduce_sum(v.image, reduced_dim=C), [A, mtf.Dimension("c", 24 // 4), H])])
    case("transpose", lambda m, v: [mtf.transpose(v.x, [C, A]), mtf.transpose(v.image, [C, H, A, mtf.Dimension("w", 6)])])
    case("rename_dimension", lambda m, v: [mtf.rename_dimension(v.x, "c", "whole")])
    case(
        "replace_dimensions", lambda m, v: [mtf.replace_dimensions(v.x, C, [mtf.Dimension("c1", 2), K]), mtf.replace_dimensions(v.x, C, D)]
    )
    case("anonymize", lambda m, v: [mtf.anonymize(v.x)])


def _pieces() -> None:
    case("concat", lambda m, v: [mtf.concat([v.w, v.w * 2.0], "k")])
    case("split", lambda m, v: mtf.split(v.w, K, [1, 2]) + mtf.split(v.blocks, K, 3))
    case("stack", lambda m, v: [mtf.stack([v.x, v.z], "s"), mtf.stack([v.x, v.z, v.u], "s", axis=1)])
    case("unstack", lambda m, v: mtf.unstack(v.blocks, K))
    case("slice", lambda m, v: [mtf.slice(v.w, 1, 2, "k")])
    case("pad", lambda m, v: [mtf.pad(v.w, [1, 2], "k")])
    case("pool_tensor_1d", lambda m, v: [mtf.ops.pool_tensor_1d(v.image, H, mtf.reduce_max, 2)])
    case("stride_tensor_1d", lambda m, v: [mtf.ops.stride_tensor_1d(v.image, H, 2)])


def _shifts() -> None:
    offsets = (-1, 2, 5)
    case("shift", lambda m, v: [mtf.shift(v.x, n, C, wrap=True) for n in offsets])
    case("shift: zeros enter", lambda m, v: [mtf.shift(v.x, n, d, wrap=False) for n in offsets for d in (A, C)])
    case("shift: whole", lambda m, v: [mtf.shift(v.w, n, K, wrap=w) for n in (1, -2, 4) for w in (True, False)])
    case("dynamic_shift", lambda m, v: [mtf.dynamic_shift(v.x, v.i, C, wrap) for wrap in (True, False)])
    case("halo_exchange", lambda m, v: [mtf.halo_exchange(v.blocks, C, BLOCK, n, wrap) for n, wrap in ((0, True), (1, False), (3, True))])
    case("left_halo_exchange", lambda m, v: [mtf.left_halo_exchange(v.blocks, C, BLOCK, n) for n in (0, 1, 3)])


def _largest() -> None:
    k2, k5 = mtf.Dimension("top", 2), mtf.Dimension("top", 5)
    case("top_k", lambda m, v: [*mtf.top_k(v.x, C, k2), *mtf.top_k(v.x, C, k5)])
    case("top_k: equal elements", lambda m, v: [*mtf.top_k(v.e, C, k2), *mtf.top_k(v.e, C, k5), *mtf.top_k(v.e, A, ONE)], gradient=False)
    case("top_k: int", lambda m, v: [*mtf.top_k(v.n, C, k5), *mtf.top_k(v.n, A, ONE)], gradient=False)
    case("top_k: the best laid out", lambda m, v: mtf.TopKOperation(mtf.rename_dimension(v.x, "a", "b"), C, A).outputs, gradient=False)
    case("top_1", lambda m, v: [*mtf.top_1(v.x, C), *mtf.top_1(v.x, A)])
    case("argmax", lambda m, v: [mtf.argmax(v.x, C), mtf.argmax(v.e, C), mtf.argmax(v.x, A)], gradient=False)
    case("nth_largest_element", lambda m, v: [mtf.nth_largest_element(v.x, 2, C)])
    case("nth_smallest_element", lambda m, v: [mtf.nth_smallest_element(v.x, 2, C)])


def _coldest(m: Any, v: Any) -> Any:
    return [mtf.sample_with_temperature(v.x, C, temperature=0.0)]


case("sample_with_temperature", _coldest, gradient=False)
for _add in (_shapes, _pieces, _shifts, _largest):
    _add()
