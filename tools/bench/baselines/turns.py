"""A baseline's process: pinned to one core, ended with the bench that started it, idle until it is told to take steps.

It needs the standard library and this project's files only, so it serves in an environment without TensorFlow too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from hetero_mtf.runtime.processes.parent_death import tie_to_parent

Prepared = tuple[Callable[[], float], int]


def attend(prepare: Callable[[dict[str, Any]], Prepared]) -> None:
    """Build a training step as the bench ordered, say so, and take as many steps as each line of standard input says.

    Parameters
    ----------
    prepare : order -> (function that takes a step and returns its loss, number of trainable weights). The order is JSON in
        the first argument: parent (process id), core, task, addresses, batch (samples of this process), batches (samples of each
        process) and warm_up (steps).
    """
    order = json.loads(sys.argv[1])
    if not tie_to_parent(order["parent"], signal.SIGKILL):
        return
    os.sched_setaffinity(0, {order["core"]})
    line = os.dup(1)
    os.dup2(2, 1)  # what frameworks print goes to the log
    step, weights = prepare(order)
    losses = [step() for _ in range(order["warm_up"])]
    _say(line, weights=weights, loss=losses[-1])
    for text in sys.stdin:
        losses = [step() for _ in range(int(text))]
        _say(line, loss=losses[-1])
    os._exit(0)  # neither framework leaves its group without waiting for the others


def loss_factor(order: dict[str, Any]) -> float:
    """Return samples * processes / batch, by which a process multiplies the mean loss of its own samples.

    The mean over processes of the products is the mean loss of the full batch, and so it is of their gradients.

    Parameters
    ----------
    order : of a process, as for `attend`.

    Examples
    --------
    >>> [loss_factor({"batch": samples, "batches": [6, 2]}) for samples in (6, 2)]
    [1.5, 0.5]
    """
    return float(order["batch"] * len(order["batches"]) / sum(order["batches"]))


def _say(line: int, **answer: float) -> None:
    os.write(line, json.dumps(answer).encode() + b"\n")
