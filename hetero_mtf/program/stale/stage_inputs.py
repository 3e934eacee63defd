"""What a stage is fed in a step of a schedule without a flush."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.feeding.inputs import host_of, placeholder, stage_placeholders


class Active(NamedTuple):
    """Which parts of a stage's work count.

    Parameters
    ----------
    forward, backward : whether its passes have a batch.
    begins, update : whether the backward pass is the first one, and the last one, of those of an update.
    """

    forward: tf.Tensor
    backward: tf.Tensor
    begins: tf.Tensor
    update: tf.Tensor


@dataclasses.dataclass(frozen=True)
class StageInputs:
    """Placeholders of one stage, on the host of its first device.

    Parameters
    ----------
    x : (inputs,) all model inputs, of the forward pass's batch.
    numbers : numbers of the batches of the forward and the backward pass, which are part of the masks' key.
    is_odd : whether the number of the session call is odd.
    scalars : the optimizer's scalars of the update.
    active : what counts; None where all does, in every step.
    share : factor on the sum of an update's gradients; None for 1.
    previous : whether the forward pass reads the version of the weights before the present one; None where there is one version.
    distance : updates to predict weights for; None without prediction.
    forward_scalars : the optimizer's scalars of the update that follows the present weights, for the prediction.
    """

    x: Sequence[tf.Tensor]
    numbers: tuple[tf.Tensor, tf.Tensor]
    is_odd: tf.Tensor
    scalars: Mapping[str, tf.Tensor]
    active: Active | None
    share: tf.Tensor | None
    previous: tf.Tensor | None
    distance: tf.Tensor | None
    forward_scalars: Mapping[str, tf.Tensor]

    @property
    def update(self) -> tf.Tensor | None:
        """Whether this step updates the weights; None for always."""
        return self.active.update if self.active else None


def stage_inputs(context: ProgramContext, stage: int, batch: int, partly: bool) -> StageInputs:
    """Return the placeholders of a stage.

    Parameters
    ----------
    batch : samples in a batch, or microbatch.
    partly : whether some parts of the work may not count.
    """
    dtype, stale = tf.as_dtype(context.graph.dtype), context.stale
    names = context.rule.scalars(0, 0.0)
    with tf.device(host_of(context.stages[stage].devices[0])):
        return StageInputs(
            stage_placeholders(context, stage, batch),
            (placeholder(tf.int32, ()), placeholder(tf.int32, ())),
            placeholder(tf.bool, ()),
            {name: placeholder(dtype, ()) for name in names},
            Active(*(placeholder(tf.bool, ()) for _ in Active._fields)) if partly else None,
            placeholder(dtype, ()) if stale.accumulate > 1 else None,
            placeholder(tf.bool, ()) if context.has_versions else None,
            placeholder(dtype, ()) if stale.predict else None,
            {name: placeholder(dtype, ()) for name in names} if stale.predict else {},
        )
