"""Seconds a training step takes under several plans, measured side by side."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hetero_mtf.errors import DataError
from hetero_mtf.mesh.operations.mixing import rounds as mixing_rounds
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.stale import batches_kept
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training.trainer import Trainer

WARM_UP_STEPS = 2
TRACED_STEPS = 3


def time_plans(
    model: Any,
    plans: Mapping[str, Plan],
    cluster: Any,
    x: Any,
    y: Any,
    *,
    optimizer: Any = "sgd",
    loss: Any,
    rounds: int = 5,
    steps: int = 3,
    warm_up: int | None = None,
    clock: Callable[[], float] = time.perf_counter,
    done: Callable[[str], None] = lambda name: None,
) -> dict[str, list[float]]:
    """Return the seconds of a step under each plan, one value a round.

    All plans are built side by side on the cluster; each round runs some steps of every plan back to back, one plan after
    the other, so that a disturbance of the machine affects all of them. A value is the mean of the round's steps.
    Compare medians over rounds.

    Parameters
    ----------
    model : Keras model; it is not changed.
    plans : name -> plan, all for this model and cluster.
    cluster : live cluster.
    x, y : (batch, ...) one batch, which every step trains on.
    optimizer, loss : as for `Trainer`.
    rounds : rounds that count, at least 1.
    steps : steps of a plan in one round, at least 1; enough for 200 ms on emulated devices, which may work ahead of their share.
    warm_up : steps of each plan before the first round, at least 1: the first builds the graph. None for `warm_up_steps`.
    clock : gives seconds.
    done : called with a plan's name after its warm-up and after each of its rounds.

    Returns
    -------
    name -> (rounds,) seconds a step.

    Raises
    ------
    DataError
        If rounds, steps or warm_up is less than 1.
    HeteroError
        As `Trainer`, and if a worker dies.
    """
    with contextlib.ExitStack() as stack:
        settings: dict[str, Any] = {"optimizer": optimizer, "loss": loss}
        trainers = {name: stack.enter_context(Trainer(model, plan, cluster, **settings)) for name, plan in plans.items()}
        runs = {name: functools.partial(trainer.train_on_batch, x, y) for name, trainer in trainers.items()}
        waits = {name: trainer.wait for name, trainer in trainers.items()}
        before = warm_up_steps(plans.values()) if warm_up is None else warm_up
        return interleaved(runs, waits, rounds=rounds, steps=steps, warm_up=before, clock=clock, done=done)


def warm_up_steps(plans: Iterable[Plan]) -> int:
    """Return the steps after which all programs of plans have been built and run.

    "decoupled" has another one once all stages have batches, butterfly mixing one for each of its phases.

    Parameters
    ----------
    plans : those that are timed together.
    """
    plans = list(plans)
    kept = [batches_kept(0, len(plan.stages)) for plan in plans if plan.schedule == "decoupled"]
    phases = [mixing_rounds(len(plan.stages[0].devices)) - 1 for plan in plans if plan.gradient_sync == "butterfly_mixing"]
    return WARM_UP_STEPS + max((*kept, *phases), default=0)


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    waits: Mapping[str, Callable[[], object]] | None = None,
    *,
    rounds: int = 5,
    steps: int = 3,
    warm_up: int = WARM_UP_STEPS,
    clock: Callable[[], float] = time.perf_counter,
    done: Callable[[str], None] = lambda name: None,
) -> dict[str, list[float]]:
    """Return the seconds of a step of each function that takes one, one value a round.

    Parameters
    ----------
    runs : name -> function that takes a step.
    waits : name -> function that returns when all its steps are done, for those that return before.
    rounds, steps, warm_up, clock, done : as for `time_plans`.

    Returns
    -------
    name -> (rounds,) seconds a step.

    Raises
    ------
    DataError
        If rounds, steps or warm_up is less than 1.
    """
    if min(rounds, steps, warm_up) < 1:
        raise DataError(f"rounds, steps and warm_up are {rounds}, {steps} and {warm_up}", "use at least 1 of each")
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    waits = waits or {}
    for name, run in runs.items():
        _repeat(run, warm_up, waits.get(name))
        done(name)
    for _ in range(rounds):
        for name, run in runs.items():
            start_s = clock()
            _repeat(run, steps, waits.get(name))
            seconds[name].append((clock() - start_s) / steps)
            done(name)
    return seconds


def trace_median_step(trainer: Any, x: Any, y: Any) -> StepTrace:
    """Return the trace of the step of median length among three, taken after one that is not traced.

    A single step may be far from the usual one: the first after an evaluation often is, and so is one that another program disturbs.

    Parameters
    ----------
    trainer : Trainer; it takes four steps.
    x, y : (batch, ...) one batch, which every step trains on.
    """
    trainer.train_on_batch(x, y)
    return sorted((trainer.trace_on_batch(x, y) for _ in range(TRACED_STEPS)), key=lambda trace: trace.step_s)[TRACED_STEPS // 2]


def _repeat(run: Callable[[], object], count: int, wait: Callable[[], object] | None) -> None:
    for _ in range(count):
        run()
    if wait is not None:
        wait()
