"""Batches cut out of arrays in memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from hetero_mtf.data.array import Array
from hetero_mtf.data.checked_batch import Batch, add_class_weight, cast_batch, check_batch, check_class_weight
from hetero_mtf.data.form import Form
from hetero_mtf.data.ordered_source import OrderedSource
from hetero_mtf.data.source import checked_steps


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
    steps_per_epoch : batches an epoch, which goes on where the one before ended; None for a pass over the arrays. As in Keras, epochs end
        with a pass over the arrays, with a warning where it is too short then.

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
        steps_per_epoch: int | None = None,
    ) -> None:
        data = check_batch(x, y, sample_weight, form=form, finite=finite)
        super().__init__(data.size, batch_size, shuffle, seed)
        self._data = data if class_weight is None else add_class_weight(data, check_class_weight(class_weight), form=form)
        self._dtype, self._steps = dtype, checked_steps(steps_per_epoch)

    @property
    def batches_per_epoch(self) -> int:
        """Batches in a whole epoch, the short last one counted."""
        return self._steps or super().batches_per_epoch

    def _prepare(self, epoch: int, batch: int, sample: int) -> Iterator[Batch]:
        for chosen in self._batches(epoch, sample) if self._steps is None else self._cut(self._steps, epoch, batch):
            yield cast_batch(self._data.taken(chosen), self._dtype)

    def _cut(self, steps: int, epoch: int, batch: int) -> Iterator[Array]:
        """Yield which samples the batches of the rest of an epoch of some steps hold."""
        batches = super().batches_per_epoch
        passed, part = divmod(epoch - self._first, math.ceil(batches / steps))
        count = min(steps, batches - part * steps)
        yield from self._batches(self._first + passed, (part * steps + batch) * self._batch_size)[: max(0, count - batch)]
        if count < steps:
            warnings.warn(
                f"the arrays have {batches} batches, of which {count} were left for the {steps} steps of epoch {epoch}; "
                "give steps_per_epoch that divides their number",
                stacklevel=2,
            )

    def state(self) -> dict[str, Any]:
        """Return the position as a JSON-able dict, with what decides the batches."""
        return {**super().state(), **({} if self._steps is None else {"steps": [self._steps, self._batch_size]})}

    def _faults(self, state: Mapping[str, Any]) -> list[str]:
        own, saved = None if self._steps is None else [self._steps, self._batch_size], state.get("steps")
        wrong = f"steps_per_epoch and batch_size were {saved!r} and are {own!r}"
        return super()._faults(state) + ([] if own == saved else [wrong])
