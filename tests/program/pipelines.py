"""Pipelines to train by, and what they are to give: gradients added up over the same microbatches in Keras."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

import hetero_mtf as hm
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from tests.program.oracle import Steps, clone


@dataclasses.dataclass(frozen=True)
class Pipe:
    """How a pipeline is cut and dealt out.

    Parameters
    ----------
    starts : first layer of each stage.
    devices, shares : of each stage.
    splits : "filters" or "batch" for each stage; one for all.
    """

    starts: tuple[str | int, ...]
    devices: tuple[tuple[int, ...], ...]
    shares: tuple[tuple[int, ...], ...]
    splits: tuple[str, ...] = ("filters",)
    microbatches: int = 4
    schedule: str = "1f1b"
    recompute: bool = False
    replicas: tuple[int, ...] = ()

    @property
    def processors(self) -> int:
        """Devices of a cluster for it."""
        return 1 + max(d for group in self.devices for d in group)

    def plan(self, model: Any, cluster: Any, batch_size: int = 8) -> hm.Plan:
        """Return the plan."""
        options = dataclasses.asdict(self)
        splits = options.pop("splits") * (len(self.starts) if len(self.splits) == 1 else 1)
        options["replicas"] = self.replicas or None
        plans = {split: hm.Plan.pipeline(model, cluster=cluster, batch_size=batch_size, split=split, **options) for split in set(splits)}
        stages = tuple(plans[split].stages[number] for number, split in enumerate(splits))
        return dataclasses.replace(plans[splits[0]], stages=stages)


def steps_for(model: keras.Model, batches: Sequence[int], weighted: bool = False) -> Steps:
    """Return batches of class numbers."""
    rng = np.random.default_rng(3)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in batches]
    y = [rng.integers(0, model.output_shape[-1], n) for n in batches]
    return Steps(x, y, [rng.uniform(0.1, 2, n) if weighted else None for n in batches])


def accumulated_run(model: keras.Model, optimizer: Any, steps: Steps, microbatches: int) -> tuple[list[float], list[np.ndarray]]:
    """Return the losses and final weights of Keras on one device, the gradients of each step added up over its microbatches.

    Every sample counts by its weight over the samples of the batch, whatever the size of its microbatch; penalties count once.
    The loss is the cross-entropy of class numbers from logits.
    """
    import tensorflow as tf

    copy = clone(model)
    variables, losses = copy.trainable_variables, []
    for x, y, weight in zip(steps.x, steps.y, steps.weight):
        w = np.ones(len(x)) if weight is None else weight
        total, value, at = [tf.zeros_like(v) for v in variables], 0.0, 0
        for size in microbatch_sizes(len(x), microbatches):
            with tf.GradientTape() as tape:
                logits = copy(x[at : at + size], training=True)
                each = keras.losses.sparse_categorical_crossentropy(y[at : at + size], logits, from_logits=True)
                part = tf.reduce_sum(each * w[at : at + size]) / len(x)
                penalty = tf.add_n(copy.losses) if at == 0 and copy.losses else tf.zeros_like(part)
                both = part + penalty
            total = [a + b for a, b in zip(total, tape.gradient(both, variables))]
            value, at = value + float(both), at + size
        optimizer.apply(total, variables)
        losses.append(value)
    return losses, copy.get_weights()
