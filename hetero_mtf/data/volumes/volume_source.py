"""VolumeSource: batches of scans, decoded ahead by several threads while the present batch trains."""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.checked_batch import Batch, cast_batch, check_class_weight, weights_by_class
from hetero_mtf.data.ordered_source import OrderedSource
from hetero_mtf.data.volumes.augmentation import Augmentation, augmented
from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.cohort.cohort_options import WORKERS
from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.errors import DataError

AHEAD = 2  # batches being decoded beside the one that lies ready and the one in use


class VolumeSource(OrderedSource):
    """Batches of scans, read when they are needed.

    What a batch holds depends on the seed, the epoch and the scans only: not on the batch size, the number of threads, the plan, or
    how often training was interrupted. Decoding and interpolating leave Python's lock free, so threads do it side by side with each
    other and with training.

    Parameters
    ----------
    participants : the scans, and the classes of their labels.
    cache : gives the scans' arrays.
    batch_size : samples a batch.
    shuffle : whether each epoch has an order of its own, rather than the table's.
    seed : seed of the order and of the augmentation, not negative.
    augmentation : what is changed, drawn for each epoch; None for nothing, as for testing.
    class_weight : weight of each class number; becomes sample weights.
    labels : whether batches have labels; without, scans need none.
    workers : threads that decode.
    dtype : what samples and weights are cast to; None leaves float32.

    Raises
    ------
    DataError
        If there are no scans, one has no label where labels are wanted, or an option is out of range.
    """

    kind = "volumes"

    def __init__(
        self,
        participants: Participants,
        cache: VolumeCache,
        batch_size: int = 2,
        shuffle: bool = True,
        seed: int = 0,
        *,
        augmentation: Augmentation | None = None,
        class_weight: Mapping[int, float] | None = None,
        labels: bool = True,
        workers: int = WORKERS,
        dtype: str | None = None,
    ) -> None:
        super().__init__(len(participants.scans), batch_size, shuffle, seed)
        if not participants.scans:
            raise DataError(f"there are no scans of {participants.path} to take", "check the table and its split")
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise DataError(f"workers is {workers!r}", "use a whole number from 1")
        if class_weight is not None and not labels:
            raise DataError("class_weight needs labels and none are wanted", "leave it out")
        self._scans = participants.scans
        self._y = participants.y if labels else None
        weights = None if class_weight is None else check_class_weight(class_weight)
        self._weight = None if weights is None or self._y is None else weights_by_class(self._y, weights)
        self._cache = cache
        self._augmentation = augmentation
        self._workers = workers
        self._dtype = dtype

    def _prepare(self, epoch: int, batch: int, sample: int) -> Iterator[Batch]:
        pool = concurrent.futures.ThreadPoolExecutor(self._workers, "hetero_mtf scans")
        try:
            begun = (self._begin(pool, epoch, chosen) for chosen in self._batches(epoch, sample))
            pending = collections.deque(itertools.islice(begun, AHEAD))
            while pending:
                next_batch, work = pending.popleft()
                pending.extend(itertools.islice(begun, 1))
                for future in work:
                    future.result()
                yield cast_batch(next_batch, self._dtype)
        finally:
            pool.shutdown(cancel_futures=True)

    def _begin(self, pool: concurrent.futures.Executor, epoch: int, chosen: Array) -> tuple[Batch, list[concurrent.futures.Future[None]]]:
        """Return a batch that is still to be filled, and the work that fills it."""
        x = np.empty((len(chosen), *self._cache.steps.shape, 1), np.float32)
        work = [pool.submit(self._fill, x[place, ..., 0], epoch, int(sample)) for place, sample in enumerate(chosen)]
        y, weight = (None if part is None else part[chosen] for part in (self._y, self._weight))
        return Batch(x, y, weight), work

    def _fill(self, place: Array, epoch: int, sample: int) -> None:
        values = self._cache.get(self._scans[sample])
        if self._augmentation is not None:
            axis = self._cache.steps.left_right_axis
            values = augmented(values, self._augmentation, (self._seed, epoch, sample), axis)
        place[...] = values

    def state(self) -> dict[str, Any]:
        """Return the position as a JSON-able dict, with what decides the order and what a batch holds."""
        return {**super().state(), **self._data_state()}

    def _data_state(self) -> dict[str, Any]:
        """Return what identifies the data that a position refers to, beside the number of samples."""
        names = "\0".join(f"{scan.key}\t{scan.label}" for scan in self._scans)
        changes = Augmentation() if self._augmentation is None else self._augmentation
        scans = hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()[:12]
        return {"scans": scans, "preprocessing": self._cache.steps.digest, "augmentation": changes.to_json()}

    def _faults(self, state: Mapping[str, Any]) -> list[str]:
        faults = super()._faults(state)
        own = self._data_state()
        faults += ["it is of other scans or labels"] if state.get("scans") != own["scans"] else []
        different = [name for name in ("preprocessing", "augmentation") if state.get(name) != own[name]]
        return faults + [f"{name} was {state.get(name)!r} and is {own[name]!r}" for name in different]
