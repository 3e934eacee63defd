"""Shapes that windows leave: convolutions and pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.layers.kind import Shape
from hetero_mtf.layers.reach import Reach, same_padding


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


def window_reach(space: Shape, window: Sequence[int], strides: Sequence[int], padding: str) -> tuple[Reach, ...]:
    """Return which positions of its input a convolution or pooling reads along each spatial dimension.

    >>> window_reach((9, 7), (3, 3), (2, 1), "same")
    (Reach(window=3, stride=2, before=1, transposed=False), Reach(window=3, stride=1, before=1, transposed=False))
    """
    before = (same_padding(n, k, s) if padding == "same" else 0 for n, k, s in zip(space, window, strides))
    return tuple(Reach(*each) for each in zip(window, strides, before))


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


def convolved_reach(attributes: Mapping[str, Any], space: Shape) -> tuple[Reach, ...]:
    """Return which positions of its input a convolution reads along each spatial dimension, by its own options."""
    size = attributes["kernel_size"]
    window = dilated(size, attributes.get("dilation_rate", [1] * len(size)))
    return window_reach(space, window, attributes["strides"], attributes["padding"])
