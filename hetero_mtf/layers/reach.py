"""Reach: which positions of its input a layer reads along one spatial dimension, and how slabs of its input become slabs of its output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Interval = tuple[int, int]
"""[begin, end) of positions."""


class Reach(NamedTuple):
    """What the outputs of a layer read along one dimension.

    Output o reads the inputs from o * stride - before on, `window` of them. Where the layer is `transposed`, input i is read by the outputs
    from i * stride - before on, `window` of them. A dimension that is padded or cropped has a window of 1; one that is enlarged by
    repetition is transposed, with a window as large as its stride.

    Parameters
    ----------
    window : positions that a window spans, with the gaps of a dilation.
    stride : positions between windows.
    before : positions that are added in front; below 0 those that are left out.
    transposed : whether windows are of the output.
    """

    window: int = 1
    stride: int = 1
    before: int = 0
    transposed: bool = False

    def reads(self, begin: int, end: int) -> Interval:
        """Return the inputs that the outputs [begin, end) read; positions outside the input are padding.

        Examples
        --------
        >>> Reach(3, 1, 1).reads(0, 4), Reach(3, 2, 0).reads(2, 4), Reach(3, 2, 0, transposed=True).reads(2, 5)
        ((-1, 5), (4, 9), (0, 3))
        """
        if end <= begin:
            return 0, 0
        if self.transposed:
            first = -((self.window - 1 - begin - self.before) // self.stride)
            return first, max(first, (end - 1 + self.before) // self.stride + 1)
        return begin * self.stride - self.before, (end - 1) * self.stride - self.before + self.window

    def slabs(self, sizes: Sequence[int], size: int) -> tuple[int, ...]:
        """Return the slabs of the output for slabs of the input: each output belongs where the middle of what it reads lies.

        Parameters
        ----------
        sizes : (processors,) positions of the input on each; they sum to its extent.
        size : extent of the output.

        Returns
        -------
        (processors,) positions of the output on each; they sum to its extent.

        Examples
        --------
        >>> Reach(3, 2, 0).slabs((6, 4), 5), Reach(3, 1, 0).slabs((6, 4), 8), Reach(2, 2, 0, transposed=True).slabs((6, 4), 20)
        ((3, 2), (5, 3), (12, 8))
        """
        borders, end = [0], 0
        for extent in sizes[:-1]:
            end += extent
            inside = min(max(self._border(end), borders[-1]), size)
            borders.append(0 if end == 0 else size if end == sum(sizes) else inside)  # nothing where there is no input
        return tuple(after - border for border, after in zip(borders, [*borders[1:], size]))

    def _border(self, position: int) -> int:
        """Return the first output whose middle is not in front of an input."""
        if self.transposed:
            return position * self.stride - self.before + (self.window - self.stride) // 2
        return -((self.window - 1 - 2 * (position + self.before)) // (2 * self.stride))


def same_padding(size: int, window: int, stride: int) -> int:
    """Return the positions that TensorFlow's SAME adds in front of a dimension.

    Parameters
    ----------
    size : extent of the input.
    window : with the gaps of a dilation.

    Notes
    -----
    TensorFlow's Conv3D of float64 on a CPU begins (stride - window) // 2 positions after the first one where the outputs' windows end so
    far before the last; its gradients and float32 do not, and slabs do not.

    Examples
    --------
    >>> same_padding(8, 3, 1), same_padding(8, 3, 2), same_padding(7, 3, 2), same_padding(4, 1, 2)
    (1, 0, 1, 0)
    """
    return max((-(-size // stride) - 1) * stride + window - size, 0) // 2
