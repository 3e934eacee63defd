"""Shapes that windows leave: convolutions and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.layers.kind import Shape


def window_shape(space: Shape, window: Sequence[int], strides: Sequence[int], padding: str) -> Shape:
    """Return the spatial output shape of a convolution or pooling.

    SAME gives ceil(n / s), VALID ceil((n - k + 1) / s), as TensorFlow does.

    >>> window_shape((9, 7), (3, 3), (2, 2), "same")
    (5, 4)
    >>> window_shape((9, 7), (3, 3), (2, 2), "valid")
    (4, 3)
    """
    if padding == "same":
        return tuple(-(-n // s) for n, s in zip(space, strides))
    return tuple(-(-(n - k + 1) // s) for n, k, s in zip(space, window, strides))


def dilated(window: Sequence[int], dilation: Sequence[int]) -> Shape:
    """Return the extent of a window whose taps lie `dilation` apart.

    >>> dilated((3, 2), (2, 1))
    (5, 2)
    """
    return tuple((k - 1) * d + 1 for k, d in zip(window, dilation))


def convolved_space(attributes: Mapping[str, Any], space: Shape) -> Shape:
    """Return the spatial output shape of a convolution by its own kernel size, strides, padding and, if it has one, dilation.

    >>> convolved_space({"kernel_size": [3, 3], "strides": [1, 2], "padding": "valid", "dilation_rate": [2, 1]}, (9, 7))
    (5, 3)
    """
    size = attributes["kernel_size"]
    window = dilated(size, attributes.get("dilation_rate", [1] * len(size)))
    return window_shape(space, window, attributes["strides"], attributes["padding"])
