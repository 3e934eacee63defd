"""Given: the data that a trainer is given, as Keras's loops take them."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from hetero_mtf.data.checked_batch import check_class_weight
from hetero_mtf.data.factory import batch_source, is_stream
from hetero_mtf.data.form import Form
from hetero_mtf.data.source import BatchSource, checked_steps
from hetero_mtf.data.stream import checked_stream, is_py_dataset
from hetero_mtf.errors import DataError
from hetero_mtf.training.loops.source_adapter import source_adapter


class StreamPosition:
    """Where training stands in a stream that Keras draws from; it can go on at the beginning of an epoch only."""

    kind = "stream"

    def __init__(self) -> None:
        self.epoch = self.batch = 0

    def begin_at(self, epoch: int) -> None:
        """Go to the beginning of an epoch."""
        self.epoch, self.batch = epoch, 0

    def state(self) -> dict[str, Any]:
        """Return the position as a JSON-able dict."""
        return {"kind": self.kind, "epoch": self.epoch, "batch": self.batch}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to the beginning of the epoch of a position, and warn where it is within it.

        Parameters
        ----------
        state : what `state` returned.

        Raises
        ------
        DataError
            If it is that of a source.
        """
        if state.get("kind") != self.kind:
            wrong = f"it is of {state.get('kind')!r} and this is a stream"
            raise DataError(f"the data position does not fit: {wrong}", "restore a checkpoint made with this data, or start again")
        if state["batch"]:
            warnings.warn(
                f"epoch {state['epoch']} begins again, after {state['batch']} of its batches were trained on before: a stream cannot be "
                "gone on with within an epoch; train on arrays or a BatchSource for that",
                stacklevel=2,
            )
        self.begin_at(state["epoch"])


@dataclasses.dataclass(frozen=True)
class Given:
    """Batches to train, test or predict on: a source, which has a position and is drawn from here, or a stream, which Keras draws from.

    Parameters
    ----------
    source : the source; None for a stream.
    stream : generator, keras.utils.PyDataset, tf.data.Dataset or torch DataLoader.
    steps : batches of a stream an epoch; None for a full pass.
    class_weight : class number -> weight, for batches of a stream without weights.
    shuffle : whether the batches of a PyDataset are shuffled.
    again : whether each pass over the source begins at its beginning.
    position : of training on a stream.
    """

    source: BatchSource | None
    stream: Any = None
    steps: int | None = None
    class_weight: dict[int, float] | None = None
    shuffle: bool = False
    again: bool = False
    position: StreamPosition = dataclasses.field(default_factory=StreamPosition)

    @property
    def at(self) -> BatchSource | StreamPosition:
        """What has the position."""
        return self.position if self.source is None else self.source

    @property
    def batches_per_epoch(self) -> int | None:
        """Batches in an epoch, None where that is not known beforehand."""
        return self.steps if self.source is None else self.source.batches_per_epoch

    def taken(self, tests: bool) -> Any:
        """Return what Keras's loops take.

        Parameters
        ----------
        tests : whether for a test or prediction.
        """
        return self.stream if self.source is None else source_adapter(self.source, self.again, left=tests and not self.again)


@contextlib.contextmanager
def training_data(
    x: Any, y: Any, *, steps: int | None, shuffle: bool, form: Form, class_weight: Mapping[int, float] | None, **options: Any
) -> Iterator[Given]:
    """Yield what is trained on; a source is closed at the end, unless it was handed over as `x`.

    Parameters
    ----------
    x, y, shuffle, form, class_weight, options : as for `batch_source`, or a stream as `x`.
    steps : batches an epoch; None for a full pass.

    Raises
    ------
    DataError
        If the parts do not fit each other, or an option does not go with the form of the data.
    """
    if is_stream(x, y, options["sample_weight"], form=form):
        weights = None if class_weight is None else check_class_weight(class_weight)
        yield Given(None, checked_stream(x, steps), checked_steps(steps), weights, shuffle and is_py_dataset(x))
        return
    source = batch_source(x, y, steps_per_epoch=steps, shuffle=shuffle, form=form, class_weight=class_weight, **options)
    with contextlib.nullcontext(source) if source is x else source:
        yield Given(source)


@contextlib.contextmanager
def testing_data(
    x: Any, y: Any = None, *, batch_size: int, form: Form, sample_weight: Any = None, steps: int | None = None, labels: bool = True
) -> Iterator[Given]:
    """Yield what is tested or predicted on; each pass begins at the beginning, unless it is a source of the user's, which stays open.

    Parameters
    ----------
    x, y, batch_size, form, sample_weight, labels : as for `batch_source`, or a stream as `x`.
    steps : batches at most; None for all.

    Raises
    ------
    DataError
        If the parts do not fit each other.
    """
    if is_stream(x, y, sample_weight, labels=labels, form=form):
        yield Given(None, checked_stream(x, steps), steps)
        return
    source = batch_source(x, y, batch_size=batch_size, sample_weight=sample_weight, shuffle=False, labels=labels, form=form)
    with contextlib.nullcontext(source) if source is x else source:
        yield Given(source, again=source is not x)
