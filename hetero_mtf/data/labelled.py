"""LabelledData: what commands train on and test with, in memory or read when it is needed."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from hetero_mtf.data.array import Array
from hetero_mtf.data.source import BatchSource


class LabelledData(abc.ABC):
    """Samples with labels in parts: one to train on, one to test on, and perhaps others.

    Attributes
    ----------
    name : what it was asked for by, such as "digits".
    classes : number of classes, 0 where the labels are not classes.
    """

    name: str
    classes: int

    @property
    @abc.abstractmethod
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a sample, its channels last."""

    @property
    @abc.abstractmethod
    def label_shape(self) -> tuple[int, ...]:
        """Shape of a label; () for class numbers."""

    @property
    def binary_targets(self) -> bool:
        """Whether each number of each label is 0 or 1, as in masks."""
        return False

    @property
    @abc.abstractmethod
    def counts(self) -> Mapping[str, int]:
        """Samples of each part, "train" and "test" among them."""

    @abc.abstractmethod
    def training(self, batch_size: int, seed: int = 0) -> BatchSource:
        """Return batches to train on, each epoch in an order of its own.

        Parameters
        ----------
        batch_size : samples a batch.
        seed : seed of the order, and of whatever is drawn in every epoch.
        """

    @abc.abstractmethod
    def testing(self, batch_size: int, part: str = "test") -> BatchSource:
        """Return batches of a part as it is, in its order.

        Parameters
        ----------
        batch_size : samples a batch.
        part : name of the part, such as "test".
        """

    @abc.abstractmethod
    def first(self, count: int) -> tuple[Array, Array]:
        """Return the first samples to train on and their labels, `count` of them or all there are.

        Parameters
        ----------
        count : how many.
        """

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines about the data for the log."""
        return ()
