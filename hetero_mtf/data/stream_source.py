"""Batches from elsewhere: a generator, a list of batches, a Keras PyDataset, a tf.data.Dataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hetero_mtf.data.batch import Batch, add_class_weight, cast_batch, check_batch, check_class_weight
from hetero_mtf.data.form import Form
from hetero_mtf.data.source import BatchSource, checked_steps
from hetero_mtf.data.stream import stream_of
from hetero_mtf.errors import DataError


class StreamSource(BatchSource):
    """Batches drawn one after another from something that makes them.

    An epoch is one pass over the stream, or `steps_per_epoch` batches of its endless repetition. A position is restored by
    drawing forward, so an interrupted run meets the same batches if the stream is deterministic; what has a length and an index is
    asked for the right batch at once. A generator can be drawn once only, forward.

    Parameters
    ----------
    stream : gives (x, y) or (x, y, sample_weight); a generator, a function that makes one, an iterable, something with length and
        index such as keras.utils.PyDataset, or a tf.data.Dataset that is batched.
    steps_per_epoch : batches an epoch, or None for one pass.
    class_weight : weight of each class number, for batches without weights.
    dtype : what samples and weights are cast to; None leaves them.
    labels : whether batches must have labels; without, x alone or (x,) will do.
    form : how the model packs several inputs and outputs; None where there is one array of each.
    finite : whether NaN and infinity in `x` are refused, as for training.
    shuffle : whether the batches of a keras.utils.PyDataset are taken in an order of their own in each pass, as in Keras.
    seed : seed of these orders.

    Raises
    ------
    DataError
        If `stream` is nothing of the kind, is endless and `steps_per_epoch` missing, or an option is out of range.
    """

    kind = "stream"

    def __init__(
        self,
        stream: Any,
        steps_per_epoch: int | None = None,
        *,
        class_weight: Mapping[int, float] | None = None,
        dtype: str | None = None,
        labels: bool = True,
        form: Form | None = None,
        finite: bool = False,
        shuffle: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        steps = checked_steps(steps_per_epoch)
        self._stream = stream_of(stream)
        if self._stream.endless and steps is None:
            raise DataError("the stream of batches never ends; pass steps_per_epoch, or cut it, as with dataset.take(100)")
        self._steps = steps
        self._class_weight = None if class_weight is None else check_class_weight(class_weight)
        self._dtype = dtype
        self._labels = labels
        self._form = form
        self._finite = finite
        self._seed = seed if shuffle and self._stream.open_in is not None else None
        self._running: Iterator[Any] | None = None
        self._behind = 0

    @property
    def batches_per_epoch(self) -> int | None:
        """Batches in a whole epoch, or None where that is not known beforehand."""
        return self._steps or self._stream.length

    def _prepare(self, epoch: int, batch: int, sample: int) -> Iterator[Batch]:
        items = (
            self._pass(epoch, batch) if self._steps is None else self._cut((epoch - self._first) * self._steps + batch, self._steps - batch)
        )
        for number, item in enumerate(items, batch):
            yield self._batch_of(number, item)

    def _pass(self, epoch: int, batch: int) -> Iterator[Any]:
        items = self._opened(epoch, batch)
        first = next(items, _END)
        if first is _END and not batch:
            raise DataError(f"the stream of batches gave none in epoch {epoch}; pass one that has batches in every pass")
        return itertools.chain([] if first is _END else [first], items)

    def _opened(self, number: int, first: int) -> Iterator[Any]:
        """Return an iterator over a pass, from a batch on; its order, if it has one of its own, depends on the seed and the pass alone."""
        if self._seed is None or self._stream.open_in is None:
            return self._stream.open(first)
        order = np.random.default_rng((self._seed, number)).permutation(self._stream.length or 0)
        return self._stream.open_in(order.tolist(), first)

    def _cut(self, behind: int, count: int) -> Iterator[Any]:
        """Yield `count` items of the endless repetition, with `behind` items before them; it runs on from cut to cut."""
        if self._running is None or self._behind > behind:
            direct = self._stream.once or self._stream.length
            self._running, self._behind = self._repeat(behind if direct else 0), behind if direct else 0
        while self._behind < behind + count:
            item = self._draw(self._running)
            self._behind += 1
            if self._behind > behind:
                yield item

    def _draw(self, running: Iterator[Any]) -> Any:
        try:
            return next(running)
        except Exception:
            self._running = None  # a broken generator would look like an ended one
            raise

    def _repeat(self, behind: int) -> Iterator[Any]:
        passed, first = divmod(behind, self._stream.length) if self._stream.length else (0, behind)
        for number in itertools.count(passed):
            given = 0
            for item in self._opened(number, first):
                given += 1
                yield item
            if self._stream.once or not given:
                wrong = f"the stream of batches ended too early for steps_per_epoch={self._steps}"
                raise DataError(f"{wrong}; pass fewer steps or epochs, or the function that makes the generator")
            first = 0

    def _batch_of(self, number: int, item: Any) -> Batch:
        where = f" of batch {number}"
        parts = tuple(item) if isinstance(item, (tuple, list)) else (item,)
        if not (2 if self._labels else 1) <= len(parts) <= 3:
            item_text = f"{len(parts)} parts" if isinstance(item, (tuple, list)) else f"one {type(item).__name__}"
            raise DataError(f"batch {number} of the stream is {item_text}; hand over (x, y) or (x, y, sample_weight)")
        if isinstance(parts[0], Mapping) and self._form is None:
            raise DataError(f"x{where} is a dict; hand over one array, or the form of the model that takes dicts")
        x, y, weights = (*parts, None, None)[:3]
        if y is None and self._labels:
            raise DataError(f"y{where} is None; hand over (x, y) or (x, y, sample_weight)")
        batch = check_batch(x, y, weights, where, self._form, finite=self._finite)
        if self._class_weight is not None:
            batch = add_class_weight(batch, self._class_weight, where, self._form)
        return cast_batch(batch, self._dtype)


_END = object()
