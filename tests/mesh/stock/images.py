"""The cases of convolutions, transposed ones, and pooling, with their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from tests.mesh.stock.cases import C, case

OUT = mtf.Dimension("k_out", 3)


def _filter(mesh: Any, *dimensions: Any) -> Any:
    extents = [d.size for d in dimensions]
    values = np.random.default_rng(len(extents)).normal(size=extents)
    return mtf.import_tf_tensor(mesh, tf.constant(values), mtf.Shape(list(dimensions)))


def _window(*extents: int) -> list[Any]:
    return [mtf.Dimension(name, n) for name, n in zip(("fh", "fw", "fd"), extents)]


def _convolve(kind: Any, mesh: Any, x: Any, window: Sequence[int], strides: Sequence[int], padding: str, out: Any) -> list[Any]:
    """Return a convolution of x, and its gradients by x and the filter, at a cotangent."""
    transposed = "Transpose" in kind.__name__
    channels = [out, x.shape.dims[-1]] if transposed else [x.shape.dims[-1], out]
    weights = _filter(mesh, *_window(*window), *channels)
    y = kind(x, weights, [1, *strides, 1], padding).outputs[0]
    return [y, *mtf.gradients([mtf.reduce_sum(mtf.sin(y))], [x, weights])]


def _picture(v: Any) -> Any:
    """Return one image without a batch dimension, its channels in slices."""
    return mtf.einsum([v.image, v.x], output_shape=[*v.image.shape.dims[1:3], C])


_FLAT, _DEEP = ((3, 3), (1, 1), "SAME"), ((1, 3, 2), (1, 1, 1), "SAME")
_FLAT_STRIDE, _DEEP_STRIDE = ((2, 3), (2, 3), "SAME"), ((2, 2, 1), (1, 2, 1), "VALID")
_FLAT_VALID = ((2, 3), (1, 1), "VALID")
KINDS = {
    "conv2d": (mtf.Conv2dOperation, "image", (_FLAT, _FLAT_STRIDE, _FLAT_VALID)),
    "conv3d": (mtf.Conv3dOperation, "volume", (_DEEP, ((1, 2, 2), (1, 2, 2), "SAME"))),
    "conv2d_transpose": (mtf.Conv2dTransposeOperation, "image", (_FLAT, ((2, 2), (2, 2), "SAME"))),
    "conv3d_transpose": (mtf.Conv3dTransposeOperation, "volume", (((1, 2, 2), (1, 2, 2), "SAME"),)),
}

for _name, (_kind, _image, _settings) in KINDS.items():
    for _number, _setting in enumerate(_settings):
        case(
            f"{_name}: rows {_number}",  # input channels in slices
            lambda m, v, k=_kind, image=_image, s=_setting: _convolve(k, m, getattr(v, image), *s, OUT),
            gradient=False,
        )
        case(
            f"{_name}: columns {_number}",  # output channels in slices
            lambda m, v, k=_kind, image=_image, s=_setting: _convolve(k, m, mtf.rename_dimension(getattr(v, image), "c", "d"), *s, C),
            gradient=False,
        )
case("conv2d: two batch dimensions", lambda m, v: _convolve(mtf.Conv2dOperation, m, v.many, *_FLAT, C), gradient=False)


def _pool(name: str, image: str, window: tuple[int, ...], dtype: tf.DType) -> None:
    pool = getattr(mtf.layers, name)
    case(name, lambda m, v: [pool(mtf.cast(getattr(v, image), dtype), window)])


for _kind in ("max", "avg"):
    _pool(f"{_kind}_pool2d", "image", (2, 3), tf.float64)
    _pool(f"{_kind}_pool3d", "volume", (2, 2, 1), tf.float32)  # there is no float64 kernel on CPUs
case("conv2d: no batch dimension", lambda m, v: _convolve(mtf.Conv2dOperation, m, _picture(v), *_FLAT, OUT), False)
case("max_pool2d: two batch dimensions", lambda m, v: [mtf.layers.max_pool2d(v.many)])
case(
    "pool_backprop: ties", lambda m, v: mtf.gradients([mtf.layers.max_pool2d(mtf.sign(v.image) + v.image * 0.0)], [v.image]), gradient=False
)
