"""A program of its own: seconds of a step of Keras's `fit` on one device, for the doctor. Its argument and its last line are JSON.

    python -m hetero_mtf.doctor.keras_steps '{"device": "/CPU:0", "core": 0, "jit": false, "batch": 64, "steps": 20, "limit_s": 20.0}'
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from hetero_mtf.devices.environment import child_variables

_START_S = 60.0  # loading TensorFlow, and compiling


def keras_step_s(device: str, core: int | None, jit: bool, batch: int, steps: int, limit_s: float) -> float | None:
    """Return the seconds of a step of Keras's `fit` in a process of its own; None where it fails or takes too long.

    Parameters
    ----------
    device : TensorFlow's name of a device of one process.
    core : number of the only core that it may use; None for all.
    jit : whether the model is compiled by XLA.
    batch : samples of a step.
    steps : of an epoch.
    limit_s : seconds that its steps may take.
    """
    order = {"device": device, "core": core, "jit": jit, "batch": batch, "steps": steps, "limit_s": limit_s}
    command = [sys.executable, "-m", "hetero_mtf.doctor.keras_steps", json.dumps(order)]
    try:
        variables = child_variables({"TF_CPP_MIN_LOG_LEVEL": "3"})
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_START_S + limit_s, check=True, env=variables)
        return float(json.loads(ended.stdout.splitlines()[-1])["step_s"])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, KeyError):
        return None


def main(text: str) -> None:
    """Train, and print the seconds of a step.

    Parameters
    ----------
    text : the order.
    """
    order = json.loads(text)
    if order["core"] is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {order["core"]})
    import keras
    import tensorflow as tf

    from hetero_mtf.doctor.network import samples, small_network

    if order["core"] is not None:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(2)
    with tf.device(order["device"]):
        model = small_network()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.001, momentum=0.9), loss, jit_compile=order["jit"])
        x, y = samples(model, order["batch"] * order["steps"])
        clock = _StepClock()
        model.fit(x, y, batch_size=order["batch"], epochs=1, verbose=0, shuffle=False, callbacks=[clock.callback(order["limit_s"])])
    print(json.dumps({"step_s": clock.median_s()}))


class _StepClock:
    def __init__(self) -> None:
        self._ends: list[float] = []

    def callback(self, limit_s: float) -> Any:
        """Return the callback that notes when each step ends, and stops after some seconds; the first two steps build the program."""
        import keras

        ends = self._ends

        class Ends(keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                ends.append(time.perf_counter())
                if len(ends) > 3 and ends[-1] - ends[1] > limit_s:
                    self.model.stop_training = True

        return Ends()

    def median_s(self) -> float:
        import statistics

        steps = [after - before for before, after in zip(self._ends[1:], self._ends[2:])]
        return statistics.median(steps)


if __name__ == "__main__":
    main(sys.argv[1])
