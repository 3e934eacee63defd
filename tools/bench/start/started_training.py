"""One training from the start of its process to its end, in one of the arrangements that `time_to_train` compares.

It is started by that bench, which gives its order as JSON, and prints its seconds as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

ONE, BEST, KERAS = "one device", "best plan given", "Keras"
MEASURES = {"plans tried as steps": "steps", "measured first": "first"}
EPOCH_STEPS = 100  # at most: the data are drawn for one epoch
LAST_STEPS = 20  # whose median is the step at the end
PROGRESS = 10  # steps between those whose ends are noted


def trained(order: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of a training.

    Parameters
    ----------
    order : network, arrangement, shares of emulated devices, steps, and the time at which this process was started; "plan": file of the
        plan that is given; "keeps" and "trace": files to write the last plan to, and what a training that tries plans did, if wanted.
    """
    if order["arrangement"] == KERAS:  # as an emulated device with a whole core
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import keras
    import numpy as np
    import tensorflow as tf

    if order["arrangement"] == KERAS:
        tf.config.threading.set_intra_op_parallelism_threads(1)
    import hetero_mtf as hm
    from tools.bench.start.start_tasks import task_of

    ends: list[float] = []
    recorder = _recorder() if order.get("trace") else None
    clock = _clock(ends, recorder)
    keras.utils.set_random_seed(0)
    task = task_of(order["network"])
    task.model.compile(**task.settings)
    epochs = -(-order["steps"] // EPOCH_STEPS)
    epoch_steps = round(order["steps"] / epochs)
    x, y = task.drawn(task.batch * epoch_steps)
    options = {"batch_size": task.batch, "epochs": epochs, "verbose": 0, "shuffle": False}
    moves: list[Any] = []
    if order["arrangement"] == KERAS:
        task.model.fit(x, y, **options, callbacks=[clock])
    else:
        with hm.Cluster.emulate(order["shares"]) as cluster:
            fastest = int(np.argmax(order["shares"]))
            given = {"plan": hm.Plan.single(task.model, fastest, cluster, task.batch)} if order["arrangement"] == ONE else {}
            given |= {"plan": hm.Plan.load(order["plan"])} if order["arrangement"] == BEST else {}
            measure = MEASURES.get(order["arrangement"], "first")
            model = hm.distribute(task.model, cluster, measure=measure, **given)
            model.fit(x, y, **options, callbacks=[clock])
            distribution = hm.distribution(model)
            assert distribution is not None
            moves = [[move.step, move.after.strategy] for move in distribution.moves]
            if order.get("keeps") and distribution.plan is not None:
                distribution.plan.save(order["keeps"])
    end_s, begin_s = time.time(), order["begin_s"]
    lengths = np.diff(ends[-LAST_STEPS:])
    if recorder is not None:
        first_last_s = ends[0] - begin_s, ends[-1] - begin_s
        recorder.trace(order["network"], order["shares"], distribution.moves, *first_last_s).save(order["trace"])
    progress = [round(at - begin_s, 3) for at in (*ends[PROGRESS - 1 :: PROGRESS], ends[-1])]
    figures = {"first_step_s": ends[0] - begin_s, "end_s": end_s - begin_s, "progress": progress, "steps": len(ends), "moves": moves}
    return {**figures, "step_s": float(np.median(lengths)) if len(lengths) else None}


def _clock(ends: list[float], recorder: Any) -> Any:
    """Return a callback that adds the time at which each step ends, and tells a recorder, if there is one, what is known then."""
    import keras

    class Clock(keras.callbacks.Callback):  # type: ignore[misc]
        """Notes when steps end, without a hook for batches: before one of these the weights are written back."""

        def on_train_begin(self, logs: Any = None) -> None:
            step = self.model.train_function

            def timed(iterator: Any) -> Any:
                start_s = time.time()
                result = step(iterator)
                ends.append(time.time())
                if recorder is not None:
                    controller = controller_of(self.model)
                    recorder.note(controller.known, controller.profile, ends[-1] - start_s)
                return result

            self.model.train_function = timed

    return Clock()


def _recorder() -> Any:
    from tools.bench.start.trace_recorder import TraceRecorder  # here, as it imports NumPy, whose threads take the cores of the process

    return TraceRecorder()


def controller_of(model: Any) -> Any:
    """Return what tries plans for a distributed model.

    Parameters
    ----------
    model : one that was distributed with `measure="steps"`, and has taken a step.
    """
    import hetero_mtf as hm

    distribution: Any = hm.distribution(model)
    return distribution.controller


if __name__ == "__main__":
    print(json.dumps(trained(json.loads(sys.argv[1]))))
