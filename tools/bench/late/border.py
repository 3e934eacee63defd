"""How long stages rest between one step and the next, read off the traces of steps that overlap."""

from __future__ import annotations

import functools
import re
import statistics
from typing import Any

_TASK = re.compile(r"/stage(\d+)_(?:forward|backward)\d+/")


def border_idle_s(trainer: Any, x: Any, y: Any, steps: int = 5) -> list[float]:
    """Return the (stages,) median seconds from the last operation of a stage in a step to its first one in the next step.

    Parameters
    ----------
    trainer : Trainer by a plan of a schedule without a flush, with all stages at work.
    x, y : (batch, ...) one batch, which every step trains on.
    steps : steps that are traced, at least two.
    """
    import tensorflow as tf

    engine, records = trainer._engine, []
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
    spans = sorted((_spans_s(stats) for stats in records), key=lambda span: min(start for start, _ in span.values()))
    between = [{stage: later[stage][0] - earlier[stage][1] for stage in earlier} for earlier, later in zip(spans, spans[1:])]
    return [statistics.median(each[stage] for each in between) for stage in sorted(spans[0])]


def _spans_s(step_stats: Any) -> dict[int, tuple[float, float]]:
    """Return stage -> when its first operation of a step began and its last one ended, seconds."""
    spans: dict[int, tuple[float, float]] = {}
    for entry in step_stats.dev_stats:
        for node in entry.node_stats:
            task = _TASK.search(node.node_name)
            if task and node.op_end_rel_micros > node.op_start_rel_micros and not _waits(node):
                stage, start = int(task.group(1)), node.all_start_micros / 1e6
                begin, end = start + node.op_start_rel_micros / 1e6, start + node.op_end_rel_micros / 1e6
                known = spans.get(stage, (begin, end))
                spans[stage] = min(known[0], begin), max(known[1], end)
    return spans


def _waits(node: Any) -> bool:
    """Return whether an operation is there before a step's turn has come."""
    return bool(re.search(r" = (?:Const|Fill|NoOp|Placeholder|_Recv)\(", node.timeline_label))
