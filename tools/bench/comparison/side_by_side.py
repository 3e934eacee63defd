"""Plans of one network measured side by side: seconds of a step, and what each device did in it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

TRACED_STEPS, COUNTED_STEPS = 3, 2


@dataclasses.dataclass(frozen=True)
class Pace:
    """How long to measure.

    Parameters
    ----------
    rounds : rounds that count; a figure is their median.
    steps : steps of each plan in one round.
    budget_s : seconds that a calibration may take; None for those of `hm.calibrate`.
    traced : steps of each plan that are traced for the parts of a step; 0 leaves these out.
    """

    rounds: int
    steps: int
    budget_s: float | None
    traced: int = TRACED_STEPS


@dataclasses.dataclass(frozen=True)
class TrainingTask:
    """What every plan trains.

    Parameters
    ----------
    model : Keras model with logits as output.
    batch : samples per step.
    """

    model: Any
    batch: int

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The optimizer and the loss."""
        import keras

        optimizer = keras.optimizers.SGD(0.001, momentum=0.9)
        return {"optimizer": optimizer, "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}

    @functools.cached_property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """One batch of noise with labels."""
        return self.drawn(self.batch)

    def drawn(self, samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Return noise with labels.

        Parameters
        ----------
        samples : how many.
        """
        rng = np.random.default_rng(0)
        x = rng.normal(size=(samples, *self.model.input_shape[1:])).astype("float32")
        return x, rng.integers(0, self.model.output_shape[-1], (samples, *self.model.output_shape[1:-1]))


def measure(
    task: TrainingTask,
    plans: Mapping[str, Any],
    cluster: Any,
    pace: Pace,
    others: Mapping[str, Callable[[], float]],
    sent: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return name -> measured_s, the rounds it is the median of and, of plans, the measured parts and, of pipelines, tasks of a step.

    Parameters
    ----------
    task : what they train.
    plans : name -> Plan; all are open together and take turns.
    cluster : live cluster.
    pace : how long to measure.
    others : name -> function that takes a step otherwise, to take turns with them.
    sent : whether the bytes of a step are counted too, as sent_bytes; nothing else may use the loopback interface meanwhile.
    """
    import hetero_mtf as hm
    from hetero_mtf.training.timing import interleaved, warm_up_steps

    with contextlib.ExitStack() as stack:
        trainers = {name: stack.enter_context(hm.Trainer(task.model, plan, cluster, **task.settings)) for name, plan in plans.items()}
        runs = {name: functools.partial(trainer.train_on_batch, *task.data) for name, trainer in trainers.items()}
        waits = {name: trainer.wait for name, trainer in trainers.items()}
        times = interleaved({**runs, **others}, waits, rounds=pace.rounds, steps=pace.steps, warm_up=warm_up_steps(plans.values()))
        figures: dict[str, dict[str, Any]] = {
            name: {"measured_s": statistics.median(each), "rounds_s": each} for name, each in times.items()
        }
        for name, trainer in trainers.items() if sent else ():
            figures[name]["sent_bytes"] = sent_bytes(functools.partial(trainer.train_on_batch, *task.data), trainer.wait)
        for name, trainer in trainers.items() if pace.traced else ():
            traces = [trainer.trace_on_batch(*task.data) for _ in range(pace.traced)]
            figures[name]["measured_parts"] = scaled_parts(traces, figures[name]["measured_s"])
            if traces[0].tasks:
                figures[name]["traced_tasks"] = [scaled_tasks(trace, figures[name]["measured_s"]) for trace in traces]
    return figures


def sent_bytes(step: Callable[[], object], wait: Callable[[], object]) -> float:
    """Return the bytes that pass the loopback interface in a step, mean of several: tensors, batches fed and the runtime's messages.

    Parameters
    ----------
    step : takes a step.
    wait : waits until steps that were begun have ended.
    """
    wait()
    before = _loopback_bytes()
    for _ in range(COUNTED_STEPS):
        step()
    wait()
    return (_loopback_bytes() - before) / COUNTED_STEPS


def _loopback_bytes() -> int:
    """Return the bytes received so far by the loopback interface, by the kernel's counter."""
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def scaled_parts(traces: Sequence[Any], step_s: float) -> list[dict[str, Any]]:
    """Return device, compute_s, communication_s and idle_s of each device, means over traced steps, as parts of an untraced step.

    Parameters
    ----------
    traces : StepTrace of each traced step; tracing makes them a little longer.
    step_s : seconds of an untraced step.
    """
    factor = step_s / sum(trace.step_s for trace in traces)
    names = ("compute_s", "communication_s", "idle_s")
    devices = zip(*(trace.parts for trace in traces), strict=True)
    return [{"device": same[0].device, **{name: factor * sum(getattr(part, name) for part in same) for name in names}} for same in devices]


def scaled_tasks(trace: Any, step_s: float) -> list[dict[str, Any]]:
    """Return device, task, start_s, end_s and compute_s of the tasks of a pipeline's traced step, on the scale of an untraced one.

    Parameters
    ----------
    trace : StepTrace of the traced step.
    step_s : seconds of an untraced step.
    """
    factor = step_s / trace.step_s
    names = ("start_s", "end_s", "compute_s")
    return [{"device": t.device, "task": t.task, **{name: factor * getattr(t, name) for name in names}} for t in trace.tasks]


def parts_text(parts: Sequence[Mapping[str, Any]]) -> str:
    """Return compute, communication and idle time of each device in milliseconds, such as "300+20+5; 290+20+15".

    Parameters
    ----------
    parts : compute_s, communication_s and idle_s of each device.
    """
    return "; ".join("+".join(f"{1e3 * part[name]:.0f}" for name in ("compute_s", "communication_s", "idle_s")) for part in parts)
