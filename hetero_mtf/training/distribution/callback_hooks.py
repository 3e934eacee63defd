"""What stands before the user's callbacks, and which of them look at the model between batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


def first_callback(at_epoch_begin: Callable[[int, Any], None], at_epoch_end: Callable[[], None]) -> Any:
    """Return a callback that is called before the others.

    Parameters
    ----------
    at_epoch_begin : is called with the number of an epoch and Keras's params as it begins.
    at_epoch_end : is called after the last batch of an epoch and its validation.
    """
    import keras

    class First(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            at_epoch_begin(epoch, self.params)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            at_epoch_end()

    return First()


def look_between_batches(callbacks: Sequence[Any]) -> bool:
    """Return whether some callback may read or change the model's weights between batches.

    Of Keras's own those do that save every so many batches; of others, and of functions in a LambdaCallback, all with a hook there.

    Parameters
    ----------
    callbacks : keras.callbacks.Callback.
    """
    return any(_looks(callback) for callback in callbacks)


def _looks(callback: Any) -> bool:
    import keras

    if isinstance(getattr(callback, "save_freq", None), int):
        return True
    base = keras.callbacks.Callback
    hooks = [name for name in _BATCH_HOOKS if getattr(type(callback), name, None) is not getattr(base, name)]
    own = type(callback).__module__.partition(".")[0] != "keras"
    return bool(own and hooks) or any(name in vars(callback) for name in _BATCH_HOOKS)
