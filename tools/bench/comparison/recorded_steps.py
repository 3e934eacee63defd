"""What TensorFlow records of the operations of a trainer's steps."""

from __future__ import annotations

import functools
from typing import Any


def recorded_steps(trainer: Any, x: Any, y: Any, steps: int = 5) -> list[Any]:
    """Return the StepStats of each session call of some steps.

    Parameters
    ----------
    trainer : Trainer that has trained before.
    x, y : (batch, ...) one batch, which every step trains on.
    steps : steps that are traced.
    """
    import tensorflow as tf

    engine, records = trainer._run.engine, []
    plain = engine._run

    def traced(fetches: Any, feeds: Any) -> Any:
        options, metadata = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE), tf.compat.v1.RunMetadata()
        answer = engine._guarded(functools.partial(engine._opened().run, fetches, feeds, options=options, run_metadata=metadata))
        records.append(metadata.step_stats)
        return answer

    engine._run = traced
    try:
        for _ in range(steps):
            trainer.train_on_batch(x, y)
        trainer.wait()
    finally:
        engine._run = plain
    return records
