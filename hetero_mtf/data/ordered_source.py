"""Batches of a known number of samples, each epoch in an order of its own."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.source import BatchSource
from hetero_mtf.errors import DataError


class OrderedSource(BatchSource, abc.ABC):
    """Batches of samples that are counted beforehand, the last batch of an epoch as short as it comes.

    The order of an epoch depends on the seed and the epoch's number only, so it is the same however often training was
    interrupted, and whatever the batch size was before.

    Parameters
    ----------
    samples : samples in an epoch.
    batch_size : samples a batch.
    shuffle : whether each epoch has an order of its own, rather than the samples'.
    seed : seed of that order, not negative.

    Raises
    ------
    DataError
        If an option is out of range.
    """

    def __init__(self, samples: int, batch_size: int, shuffle: bool, seed: int) -> None:
        super().__init__()
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise DataError(f"batch_size is {batch_size!r}", "use a whole number from 1")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise DataError(f"seed is {seed!r}", "use a whole number from 0")
        self._samples = samples
        self._batch_size = int(batch_size)
        self._shuffle = bool(shuffle)
        self._seed = int(seed)

    @property
    def batch_size(self) -> int:
        """Samples a batch."""
        return self._batch_size

    @property
    def samples(self) -> int:
        """Samples in an epoch."""
        return self._samples

    @property
    def batches_per_epoch(self) -> int:
        """Batches in a whole epoch, the short last one counted."""
        return -(-self.samples // self._batch_size)

    def order(self, epoch: int) -> Array:
        """Return the order in which an epoch takes the samples.

        Parameters
        ----------
        epoch : number of the epoch, from 0.

        Returns
        -------
        (samples,) array of int, a permutation.
        """
        if not self._shuffle:
            return np.arange(self.samples)
        return np.random.default_rng([self._seed, epoch]).permutation(self.samples)

    def _batches(self, epoch: int, sample: int) -> list[Array]:
        """Return which samples the batches of the rest of an epoch hold."""
        order = self.order(epoch)
        return [order[start : start + self._batch_size] for start in range(sample, self.samples, self._batch_size)]

    def state(self) -> dict[str, Any]:
        """Return the position as a JSON-able dict, with what decides the order."""
        return {**super().state(), "samples": self.samples, "shuffle": self._shuffle, "seed": self._seed}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` gave, and take over its seed; the batch size may differ.

        Parameters
        ----------
        state : what `state()` returned.

        Raises
        ------
        DataError
            If it is damaged, or belongs to another kind of source or other data.
        """
        super().restore(state)
        self._seed = state["seed"]

    def _faults(self, state: Mapping[str, Any]) -> list[str]:
        faults = super()._faults(state)
        if state.get("samples") != self.samples:
            faults.append(f"it is within {state.get('samples')!r} samples and there are {self.samples}")
        elif not faults and state["sample"] > self.samples:
            faults.append(f"sample is {state['sample']}, beyond the {self.samples} there are")
        if state.get("shuffle") is not self._shuffle:
            faults.append(f"shuffle was {state.get('shuffle')!r} and is {self._shuffle}")
        seed = state.get("seed")
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            faults.append(f"seed is {seed!r}, not a whole number from 0")
        return faults
