"""What stands before and behind the user's callbacks, and which of them look at the model between batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import keras

from hetero_mtf.errors import DataError

_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


def first_callback(at_epoch_begin: Callable[[int, Any], None], at_epoch_end: Callable[[], None]) -> Any:
    """Return a callback that is called before the others.

    Parameters
    ----------
    at_epoch_begin : is called with the number of an epoch and Keras's params as it begins.
    at_epoch_end : is called after the last batch of an epoch and its validation.
    """
    class First(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            at_epoch_begin(epoch, self.params)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            at_epoch_end()

    return First()


class After(Protocol):
    """What is called after the callbacks."""

    def after_begin(self) -> None:
        """Note that training begins."""

    def after_batch(self) -> None:
        """Note that a batch of training is over."""

    def after_epoch(self) -> None:
        """Note that an epoch and its validation are over."""

    def after_test_batch(self) -> None:
        """Note that a batch of a test or prediction is over."""

    def after_test(self) -> None:
        """Note that a test or prediction is over."""


def last_callback(after: After) -> Any:
    """Return a callback that is called after the others.

    Parameters
    ----------
    after : what it calls.
    """
    class Last(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            after.after_begin()

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            after.after_batch()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            after.after_epoch()

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            after.after_test_batch()

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            after.after_test_batch()

        def on_test_end(self, logs: Any = None) -> None:
            after.after_test()

        def on_predict_end(self, logs: Any = None) -> None:
            after.after_test()

    return Last()


def listed(callbacks: Any) -> tuple[Any, ...]:
    """Return callbacks in the forms that Keras takes as a tuple.

    Parameters
    ----------
    callbacks : a keras.callbacks.Callback, a list of them, a keras.callbacks.CallbackList, or None.

    Raises
    ------
    DataError
        If one is no callback.
    """
    inner = callbacks.callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else callbacks
    each = () if inner is None else tuple(keras.tree.flatten(inner))
    wrong = [callback for callback in each if not hasattr(callback, "set_model")]
    if wrong:
        raise DataError(f"callbacks has {wrong[0]!r}, which is no callback", "give objects of keras.callbacks.Callback")
    return each


def saves_between_batches(callback: Any) -> bool:
    """Return whether a callback of Keras saves what its model has every so many batches."""
    return isinstance(getattr(callback, "save_freq", None), int)


def look_between_batches(callbacks: Sequence[Any]) -> bool:
    """Return whether some callback may read or change the model's weights between batches.

    Of Keras's own those do that save every so many batches; of others, and of functions in a LambdaCallback, all with a hook there.

    Parameters
    ----------
    callbacks : keras.callbacks.Callback.
    """
    return any(_looks(callback) for callback in callbacks)


def _looks(callback: Any) -> bool:
    if saves_between_batches(callback):
        return True
    base = keras.callbacks.Callback
    hooks = [name for name in _BATCH_HOOKS if getattr(type(callback), name, None) is not getattr(base, name)]
    own = type(callback).__module__.partition(".")[0] != "keras"
    return bool(own and hooks) or any(name in vars(callback) for name in _BATCH_HOOKS)
