"""Batches cut out of arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hetero_mtf.data.batch import Batch, add_class_weight, cast_batch, check_batch, check_class_weight
from hetero_mtf.data.form import Form
from hetero_mtf.data.ordered_source import OrderedSource


class ArraySource(OrderedSource):
    """Batches of arrays.

    Parameters
    ----------
    x : (samples, ...) array.
    y : (samples, ...) array of labels, or None for predicting.
    sample_weight : (samples,) or (samples, ...) array of float, not negative, or None.
    batch_size : samples a batch.
    shuffle : whether each epoch has an order of its own, rather than the arrays'.
    seed : seed of that order, not negative.
    class_weight : weight of each class number, instead of `sample_weight`.
    dtype : what samples and weights are cast to, batch by batch; None leaves them as they are.
    form : how the model packs several inputs and outputs; None where there is one array of each.
    finite : whether NaN and infinity in `x` are refused, as for training.

    Raises
    ------
    DataError
        If the arrays do not fit each other or hold values that cannot be meant, or an option is out of range.
    """

    kind = "arrays"

    def __init__(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int = 0,
        *,
        class_weight: Mapping[int, float] | None = None,
        dtype: str | None = None,
        form: Form | None = None,
        finite: bool = False,
    ) -> None:
        data = check_batch(x, y, sample_weight, form=form, finite=finite)
        super().__init__(data.size, batch_size, shuffle, seed)
        self._data = data if class_weight is None else add_class_weight(data, check_class_weight(class_weight), form=form)
        self._dtype = dtype

    def _prepare(self, epoch: int, batch: int, sample: int) -> Iterator[Batch]:
        for chosen in self._batches(epoch, sample):
            yield cast_batch(self._data.taken(chosen), self._dtype)
