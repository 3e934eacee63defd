"""Predicted step of schedules without a flush: all stages work at once, each on another batch or microbatch.

A tick takes as long as the slowest stage: with forward and backward seconds f_s and b_s, update u_s, and x_s for a transfer over the
boundary before stage s,

    busy_s = f_s + b_s + u_s / n + x_s        and f_s once more for a forward pass that is replayed, which the last stage has not

where an update follows n backward passes. What a stage sends forward is sent during its backward pass; the gradient that it sends back is
ready when that ends. A step is one tick under schedule "decoupled", and one for each microbatch under "1f1b_2bw".

In bytes, stage s holds what 2 (S - 1 - s) + 1 batches keep between their passes: inputs where forward passes are replayed, else
activations; what has arrived from other stages for the next tick; and as many versions of its weights as there are updates between the
passes, where the backward pass reads those of the forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.planning.cost.feeding import feed_s
from hetero_mtf.planning.cost.step_cost import StageCost, launch_s, stage_cost
from hetero_mtf.planning.layout.blocks import output_bytes
from hetero_mtf.planning.layout.records import DevicePart, Prediction, Stage
from hetero_mtf.planning.memory.layer_memory import NetworkMemory
from hetero_mtf.planning.memory.stage_memory import stage_bytes
from hetero_mtf.planning.memory.worker_memory import GRAPH_BYTES
from hetero_mtf.planning.pipeline.group_stages import with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, boundaries_s
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.simulator import UPDATE, Entry, Simulation
from hetero_mtf.planning.schedule.stale import StaleOptions, batches_kept, delays


class LateStage:
    """Seconds of a tick of one stage.

    Parameters
    ----------
    cost : its passes over a batch or microbatch.
    execution : schedule and options.
    is_last : whether it is the last stage.
    back_s : seconds of the gradient that it sends back.
    """

    def __init__(self, cost: StageCost, execution: Execution, is_last: bool, back_s: float) -> None:
        self.cost, self.back_s = cost, back_s
        self.again = options_of(execution).backward == "replay" and not is_last
        self.updates = 1.0 / (execution.microbatches * options_of(execution).accumulate)  # in a tick

    @property
    def backward_s(self) -> float:
        """Seconds of the backward pass, with the forward pass that it replays."""
        return self.cost.backward.seconds + (self.cost.forward.seconds if self.again else 0.0)

    @property
    def update_s(self) -> float:
        """Seconds of updates."""
        return self.cost.finish.seconds * self.updates

    @property
    def busy_s(self) -> float:
        """Seconds of a tick."""
        return self.cost.forward.seconds + self.backward_s + self.update_s + self.back_s

    def device_s(self, place: int) -> tuple[float, float]:
        """Return the compute and communication seconds of a device of the stage in a tick.

        Parameters
        ----------
        place : its place among the stage's devices.
        """
        cost, passes = self.cost, 2.0 if self.again else 1.0
        parts = ((cost.forward, passes), (cost.backward, 1.0), (cost.finish, self.updates))
        compute_s = sum(part.compute_s[place] * times for part, times in parts)
        return compute_s, self.back_s + sum(part.communication_s[place] * times for part, times in parts)


def options_of(execution: Execution) -> StaleOptions:
    """Return the options of a schedule without a flush."""
    return execution.stale or StaleOptions()


def predict_stale(costs: MicrobatchCosts, stages: Sequence[Stage], execution: Execution) -> tuple[Prediction, Simulation]:
    """Return the predicted step, once all stages have batches, and the time line of one tick.

    Parameters
    ----------
    stages : at least two; their samples sum to the batch.
    execution : with one of `STALE_SCHEDULES`.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.
    """
    size, last = costs.profile.batch_size // execution.microbatches, len(stages) - 1
    at, parts = costs.at(size), [with_samples(stage, size) for stage in stages]
    back_s = [0.0, *boundaries_s(at, parts).tolist()]
    ticks = [LateStage(stage_cost(at, stage), execution, s == last, back_s[s]) for s, stage in enumerate(parts)]
    tick_s, count = max(tick.busy_s for tick in ticks), execution.microbatches
    launched_s = max(launch_s(costs.full_batch), feed_s(costs.full_batch.profile, stages) / count - tick_s)
    slowest = max(ticks, key=lambda tick: tick.busy_s)
    step_s = count * (tick_s + launched_s)
    used = []
    for s, stage in enumerate(parts):
        held = held_bytes(at.profile, stage, s, len(stages), execution)
        for place, device in enumerate(stage.devices):
            compute_s, communication_s = (count * seconds for seconds in ticks[s].device_s(place))
            idle_s = max(0.0, step_s - compute_s - communication_s)
            used.append(DevicePart(costs.profile.cluster.devices[device].name, compute_s, communication_s, idle_s, held[place]))
    forward_s, update_s = count * slowest.cost.forward.seconds, count * slowest.update_s
    backward_s = count * tick_s - forward_s - update_s
    return Prediction(step_s, forward_s, backward_s, update_s, tuple(used), count * launched_s), _tick_line(ticks, tick_s, parts)


def held_bytes(
    profile: Profile, stage: Stage, number: int, stages: int, execution: Execution, memory: NetworkMemory | None = None
) -> tuple[int, ...]:
    """Return the (processors,) bytes that a stage holds at most.

    Parameters
    ----------
    profile : at the batch size of a batch or microbatch.
    number, stages : index of the stage, and how many there are.
    memory : NetworkMemory of the profile, where known.
    """
    options = options_of(execution)
    replays = options.backward == "replay"
    held = stage_bytes(profile, stage, replays, memory)
    versions = 0
    if number < stages - 1 and not (replays and execution.schedule == "decoupled"):
        versions = delays(execution.schedule, stages, options)[number]
    elif execution.schedule == "1f1b_2bw":
        versions = 1
    programs = 2 if execution.schedule == "decoupled" else 1  # another one for a pipeline that is not full
    further = _boundary_bytes(profile, stage) + programs * GRAPH_BYTES * len(stage.layouts)
    return tuple(
        bytes_ + round(versions * weights + further)
        for bytes_, weights in zip(held.peak(batches_kept(number, stages)), held.weights.tolist())
    )


def _boundary_bytes(profile: Profile, stage: Stage) -> int:
    """Return the bytes that a stage exchanges with others in a tick, which wait for the next tick where they arrive."""
    graph, inside = profile.graph, set(stage.layers)
    sent = {layer for layer in inside if any(reader not in inside for reader in graph.readers[layer])}
    arrived = {source for layer in inside for source in graph.layers[layer].inputs if source not in inside}
    return profile.batch_size * sum(output_bytes(graph, layer) for layer in sent | arrived)


def _tick_line(ticks: Sequence[LateStage], tick_s: float, stages: Sequence[Stage]) -> Simulation:
    """Return the time line of one tick; batches are numbered from the oldest in flight."""
    last, tasks, updates, sent = len(ticks) - 1, [], [], []
    for s, tick in enumerate(ticks):
        forward_s, done_s = tick.cost.forward.seconds, tick.cost.forward.seconds + tick.backward_s
        tasks += [Entry(s, 2 * last - s, FORWARD, 0.0, forward_s), Entry(s, s, BACKWARD, forward_s, done_s)]
        updates.append(Entry(s, -1, UPDATE, done_s, done_s + tick.update_s))
        if s < last:
            onwards_s, before_s = ticks[s + 1].back_s, forward_s
            sent.append(Entry(s, 2 * last - s, FORWARD, before_s, before_s + onwards_s))
        if s:
            sent.append(Entry(s - 1, s, BACKWARD, done_s, done_s + tick.back_s))
    idle = [1 - (tick.busy_s - tick.back_s) / tick_s if tick_s > 0 else 0.0 for tick in ticks]
    devices = [len(stage.devices) for stage in stages]
    bubble = sum(share * count for share, count in zip(idle, devices)) / sum(devices)
    passes_s = max(entry.end_s for entry in tasks)
    held = tuple(batches_kept(s, len(ticks)) for s in range(len(ticks)))
    return Simulation(
        tick_s, passes_s, tuple(sorted(tasks, key=lambda e: e.start_s)), tuple(sent), tuple(updates), tuple(idle), bubble, held, ()
    )
