"""All-reduce by exchange: every processor sends its whole tensor to every other one."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.collectives.placement import Combine, on


def exchange(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine) -> list[tf.Tensor]:
    """Return the combination of all tensors, on every processor: one round, p-1 whole tensors sent per processor.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    devices : (processors,) device strings.
    combine : associative and commutative function of two tensors; applied in the order of the processors, so results are bitwise equal.
    """
    return [on(device, functools.reduce, combine, tensors) for device in devices]
