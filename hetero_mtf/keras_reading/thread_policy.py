"""Keras's default dtype policy in threads: Keras keeps it for each thread, and a new thread has that of `floatx`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import keras

_Result = TypeVar("_Result")


def with_policy_of_caller(work: Callable[[], _Result]) -> Callable[[], _Result]:
    """Return a function that does a piece of work in another thread with the default dtype policy of the thread that calls this.

    What is built there, such as a loss or a layer that a user's layer makes when it is called, has the dtype that it has here.

    Parameters
    ----------
    work : the piece of work.
    """
    policy = keras.config.dtype_policy()

    def done() -> _Result:
        keras.config.set_dtype_policy(policy)
        return work()

    return done
