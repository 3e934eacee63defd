"""Sums of gradients that are sent while layers compute: when each has arrived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


class HiddenSums:
    """The links of every mesh axis, which add gradients up one layer after another, each as soon as it is computed.

    A group of processors begins with a layer's gradients when all of it have computed them and those before have arrived,

        e_l = max(e_{l-1}, max_d c_d) + s_l,

    with the clocks c_d of its processors and s_l the seconds of the bytes of l, all in seconds. A collective that layers wait for uses
    the same links (`delay`): if it begins before the last e_l, the next layer has e_l and the seconds of the collective for e_{l-1}.

    Parameters
    ----------
    s_per_byte : axis -> (groups,) seconds a byte of the weights; sums along an axis that is left out are not hidden.

    Attributes
    ----------
    arrivals_s : layer -> (outer groups, 1, inner groups) seconds since the step began when its gradients have arrived.
    """

    def __init__(self, s_per_byte: Mapping[str, np.ndarray] | None = None) -> None:
        self._s_per_byte = dict(s_per_byte or {})
        self._until_s: dict[str, np.ndarray] = {}
        self.arrivals_s: dict[int, np.ndarray] = {}

    def on(self, axis: str) -> bool:
        """Return whether sums along an axis are hidden."""
        return axis in self._s_per_byte

    def begin(self, axis: str, layer: int, now: np.ndarray, weight_bytes: float) -> None:
        """Add a layer's gradients to what is sent along an axis.

        Parameters
        ----------
        now : (outer groups, size, inner groups) clocks of the processors.
        weight_bytes : of the layer, all parts together.
        """
        # max_d c_d, then s_l: the slowest processor of a group decides when its collective can begin
        ready_s = np.maximum.reduce(now, axis=1, keepdims=True)
        sum_s = weight_bytes * np.reshape(self._s_per_byte[axis], ready_s.shape)
        self._until_s[axis] = np.maximum(self._until_s.get(axis, ready_s), ready_s) + sum_s
        self.arrivals_s[layer] = self._until_s[axis]

    def delay(self, axis: str, now: np.ndarray, seconds: Sequence[float]) -> None:
        """Free the links along an axis later by a collective that layers wait for, in the groups that are still sending as it begins.

        Only layers that begin afterwards arrive later: the arrivals of those begun before stay as they are.

        Parameters
        ----------
        now : (outer groups, size, inner groups) clocks of the processors when it begins, seconds.
        seconds : (groups,) of the collective; empty where the axis has none.
        """
        if axis in self._until_s and len(seconds):
            ready_s = np.maximum.reduce(now, axis=1, keepdims=True)
            busy = self._until_s[axis] > ready_s
            # not in place: arrivals_s holds the same array for the layer begun last
            self._until_s[axis] = self._until_s[axis] + np.where(busy, np.reshape(seconds, ready_s.shape), 0.0)
