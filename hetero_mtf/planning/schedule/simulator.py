"""A step of a pipeline in seconds and bytes, before it is run: every task and transfer with its start and end.

Two answers to "how long does a step take", for S stages, the transfers between them, and M microbatches alike. With c_k the seconds
of one microbatch in stage or transfer k, forward and backward together, f_k and b_k its parts and T the largest c_k:

    J = sum_k c_k + (M - 1) T                                 `chain_s`, what allocators minimise
    the end of the last task in `simulate`                    what a schedule makes of it

- fill_drain takes exactly G = sum_k c_k + (M - 1) (max_k f_k + max_k b_k): each pass is a line whose every place does the same
  M times, and the passes never meet, so it makes no difference whether the two directions of a link share it. Hence J is a lower
  bound, and equal if one stage or transfer has both the longest forward and the longest backward pass: if f_k / b_k is the same in all.
- 1f1b with the depths of `least_depths`, or 2 (S - s) - 1, or S - s without transfers, takes at most G, hence at most J if f_k / b_k is
  the same in all, where each direction of a link serves one transfer at a time: J is an upper bound. Found, not proven: no exception
  in 300,000 random instances. (Were forward m of k to start at sum_{j<k} f_j + m T, the rest alike, those depths keep up with it.)
  It may be less since J lets the slowest stage k wait for R, the c_j of all behind it, added up, but under 1f1b it goes on
  meanwhile, and waits for max(0, R - (n-1) f_k) + max(0, R - (n-1) b_k) at least, n < M its depth. So it equals J if
  (n - 1) T = R, if M = 1, and if none is slower than the last stage, such as where all stages and transfers are even.
- 1f1b with smaller depths, such as S - s where transfers take time, can wait for transfers with every microbatch, and so can it where
  the directions of a link take turns, first come, first served: then it may take longer than J.
- No schedule is faster than its slowest stage k with what is before it: sum_{j<k} c_j + M c_k = J - R for the k of J, a stage.
- interleaved has no J: devices, not stages, are what is busy. With the sum of a device's c_k in place of T it is near, but no bound.

References: this project's objective and simulator; for the schedules see `schedule`.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, Table, Task, in_flight
from hetero_mtf.planning.schedule.pipeline_costs import CheckedCosts, PipelineCosts

UPDATE = "update"


class Entry(NamedTuple):
    """A bar of a time line.

    Parameters
    ----------
    stage : index of the stage; of a transfer that of the earlier of its two stages, in both directions.
    microbatch : its index; -1 for an update, which all microbatches share.
    step_pass : "forward", "backward" or "update".
    start_s, end_s : seconds since the step began.
    """

    stage: int
    microbatch: int
    step_pass: str
    start_s: float
    end_s: float


@dataclasses.dataclass(frozen=True)
class Simulation:
    """A simulated step.

    Parameters
    ----------
    step_s : seconds until the last update is done.
    passes_s : seconds until the last task is done, updates left out; what `chain_s` estimates.
    tasks, transfers, updates : time lines, in the order of their starts.
    bubbles : (stages,) idle fraction of passes_s, mean over the stage's devices.
    bubble : the same over all devices.
    in_flight : (stages,) most microbatches in flight.
    peak_bytes : (stages,) most bytes at once on a device of the stage, its other stages included.
    again : the (stage, microbatch) whose forward pass is done again before its backward pass.
    """

    step_s: float
    passes_s: float
    tasks: tuple[Entry, ...]
    transfers: tuple[Entry, ...]
    updates: tuple[Entry, ...]
    bubbles: tuple[float, ...]
    bubble: float
    in_flight: tuple[int, ...]
    peak_bytes: tuple[float, ...]
    again: frozenset[tuple[int, int]] = frozenset()


def ideal_bubble(stages: int, microbatches: int) -> float:
    """Return the idle fraction of even stages without transfers: (S - 1) / (M + S - 1).

    Parameters
    ----------
    stages, microbatches : how many there are, each at least 1.

    Examples
    --------
    >>> ideal_bubble(2, 8), ideal_bubble(1, 4)
    (0.1111111111111111, 0.0)
    """
    return (stages - 1) / (microbatches + stages - 1)


def chain_s(stage_s: np.ndarray | Sequence[float], transfer_s: np.ndarray | Sequence[float], microbatches: int) -> np.ndarray:
    """Return J = sum of all seconds + (M - 1) * the largest of them, of one or of many pipelines.

    Parameters
    ----------
    stage_s : (..., stages) array of float, seconds of forward and backward of one microbatch; zeros may fill it up.
    transfer_s : (..., stages - 1) array of float, seconds there and back; may be empty along the last axis.
    microbatches : M.

    Examples
    --------
    >>> chain_s([[3.0, 1.0], [2.0, 2.0]], [[0.5], [0.5]], 4)
    array([13.5, 10.5])
    """
    places = np.concatenate([np.asarray(stage_s, float), np.asarray(transfer_s, float)], axis=-1)
    # one microbatch passes every place: sum_k c_k; each of the other M - 1 leaves the largest place T seconds after the one ahead
    objective_s: np.ndarray = places.sum(axis=-1) + (microbatches - 1) * places.max(axis=-1)
    return objective_s


def simulate(costs: PipelineCosts, table: Table, devices: Sequence[Sequence[int]] | None = None) -> Simulation:
    """Return the step that a schedule makes of some costs.

    A task starts when all devices of its stage have done their earlier tasks and its input, or gradient, has arrived; a transfer
    when what it sends is there and its link is free, first come, first served; under `rendezvous` not before its reader waits for it and
    nothing else. Boundaries between the same devices share a link. A stage is updated as soon as its devices have done all their tasks.

    Parameters
    ----------
    costs : PipelineCosts of as many stages and microbatches as the table has.
    table : clock table of a schedule; only its order matters.
    devices : (stages,) devices of each stage; None for one of its own each.

    Raises
    ------
    PlanError
        If costs, table and devices are not of the same stages and microbatches, or a cost is negative or not finite.

    Notes
    -----
    A simulation of events, O(stages * microbatches * log(stages)); `passes_s` does many pipelines at once. Not simulated: inputs
    that have arrived and wait to be read take no memory, and sending takes none of a device's time.

    Examples
    --------
    >>> from hetero_mtf.planning.schedule.clock_table import clock_table
    >>> table = clock_table("1f1b", [[0], [1]], microbatches=4)
    >>> step = simulate(PipelineCosts([1, 1], [2, 2], [0.0], [0.0]), table)
    >>> step.step_s, round(step.bubble, 3), step.tasks[3]
    (15.0, 0.2, Entry(stage=1, microbatch=0, step_pass='backward', start_s=2.0, end_s=4.0))
    """
    placed = devices if devices is not None else [[stage] for stage in range(len(costs.forward_s))]
    checked = CheckedCosts(costs, table, placed)
    line = _EventSimulation(checked, table, placed)
    line.run()
    free = dict.fromkeys(line.orders, 0.0)
    busy = dict.fromkeys(line.orders, 0.0)
    for stage, _, _, start_s, end_s in line.tasks:
        for device in placed[stage]:
            free[device] = max(free[device], end_s)
            busy[device] += end_s - start_s
    end_s = max(free.values())
    idle = {device: 1 - spent / end_s if end_s else 0.0 for device, spent in busy.items()}
    updates = _updates(checked.update_s, placed, free)
    return Simulation(
        step_s=max(entry.end_s for entry in updates),
        passes_s=end_s,
        tasks=_by_start(line.tasks),
        transfers=_by_start(line.transfers),
        updates=_by_start(updates),
        bubbles=tuple(sum(idle[device] for device in members) / len(members) for members in placed),
        bubble=sum(idle.values()) / len(idle),
        in_flight=in_flight(table),
        peak_bytes=_peaks(checked, line.orders, placed),
        again=checked.again,
    )


def passes_s(
    forward_s: np.ndarray, backward_s: np.ndarray, send_forward_s: np.ndarray, send_backward_s: np.ndarray, table: Table
) -> np.ndarray:
    """Return `simulate(...).passes_s` of many pipelines under one table, stages on devices of their own, links not shared.

    Parameters
    ----------
    forward_s, backward_s : (pipelines, stages) or (pipelines, stages, microbatches) array of float, seconds of a microbatch; where
        a forward pass is done again, it is part of `backward_s`.
    send_forward_s, send_backward_s : (pipelines, stages - 1) or with microbatches, seconds of the transfers.
    table : clock table of "fill_drain" or "1f1b"; the depths are those of the table for all pipelines.

    Returns
    -------
    (pipelines,) array of float, seconds.

    Raises
    ------
    PlanError
        If the table has other stages than the costs.

    Notes
    -----
    In a fixed order every task starts at the largest of some ends, so the tasks of all pipelines are added up in the order of
    the table. O(pipelines * stages * microbatches), equal to `simulate`.
    """
    microbatches = 1 + max(task.microbatch for now in table for task in now)
    seconds = [_by_microbatch(array, microbatches) for array in (forward_s, backward_s, send_forward_s, send_backward_s)]
    own, sent = dict(zip((FORWARD, BACKWARD), seconds[:2])), dict(zip((FORWARD, BACKWARD), seconds[2:]))
    stages, scheduled = own[FORWARD].shape[0], 1 + max(task.stage for now in table for task in now)
    if stages != scheduled:
        raise PlanError(f"a table of {scheduled} stages does not fit costs of {stages}", "make it by clock_table for the same stages")
    nothing = np.zeros(own[FORWARD].shape[-1])
    free = [nothing] * stages
    link = {FORWARD: [nothing] * stages, BACKWARD: [nothing] * stages}
    arrived: dict[Task, np.ndarray] = {}
    # e: end of a task of d seconds, a: arrival of its input, e_0: end of the task before on its stage; c: seconds of the transfer of its
    # output, a_0: end of the transfer before on that link. Then e = max(e_0, a) + d, and the output arrives at max(e, a_0) + c.
    # The table lists a sender before its reader: in another order the reader would not wait, as `arrived` lacks its input then.
    for task in itertools.chain(*table):
        stage, microbatch, step_pass = task
        # a backward pass waits for its own forward pass through `free`: both run on the stage's devices
        free[stage] = np.maximum(free[stage], arrived.pop(task, nothing)) + own[step_pass][stage, microbatch]
        reader = stage + 1 if step_pass == FORWARD else stage - 1
        if 0 <= reader < stages:
            boundary = min(stage, reader)
            # one sender for each boundary and direction, so the order of the table is first come, first served
            begun = np.maximum(free[stage], link[step_pass][boundary])
            link[step_pass][boundary] = begun + sent[step_pass][boundary, microbatch]
            arrived[Task(reader, microbatch, step_pass)] = link[step_pass][boundary]
    last_end_s: np.ndarray = np.max(free, axis=0)
    return last_end_s


def _by_microbatch(array: np.ndarray, microbatches: int) -> np.ndarray:
    """Return (places, microbatches, pipelines) seconds."""
    array = np.asarray(array, float)
    if array.ndim == 2:
        array = np.repeat(array[:, :, None], microbatches, axis=2)
    return np.ascontiguousarray(np.moveaxis(array, 0, -1))


_Sent = tuple[Task, int, float]  # the task that a transfer lets start, its boundary, its seconds


class _EventSimulation:
    """A simulation of events: the inputs that each task still waits for, the queue of each link, and the ends to come, earliest first."""

    def __init__(self, costs: CheckedCosts, table: Table, devices: Sequence[Sequence[int]]) -> None:
        self.costs, self.devices = costs, devices
        self.orders: dict[int, list[Task]] = {device: [] for members in devices for device in members}
        self.missing: dict[Task, int] = {}
        for task in itertools.chain(*table):
            # a neighbour's tensor if there is a neighbour; a backward pass also needs its own forward pass; and one more for each device
            # of the stage, whose turn the task must be: it starts when the slowest of them is free
            inputs = (task.stage > 0) if task.step_pass == FORWARD else 1 + (task.stage + 1 < costs.stages)
            self.missing[task] = len(devices[task.stage]) + inputs
            for device in devices[task.stage]:
                self.orders[device].append(task)
        self.places = dict.fromkeys(self.orders, 0)
        # end; number, so that of equal ends the first begun goes first; task; its link, None for a task's own end
        self.events: list[tuple[float, int, Task, object]] = []
        self.waiting: dict[object, collections.deque[_Sent]] = {}
        self.busy: set[object] = set()  # links with a transfer on the way
        self.links: dict[Task, object] = {}  # the link of each task's input, once it is made
        self.changed: list[object] = []  # links that may have become free to send, under rendezvous
        self.tasks: list[Entry] = []
        self.transfers: list[Entry] = []

    def run(self) -> None:
        """Process all events in the order of time."""
        for device in self.orders:
            self._take_next(device, 0.0)
        while self.events:
            now, _, task, link = heapq.heappop(self.events)
            if link is None:
                self._leave(task, now)
            else:
                self.busy.discard(link)
                self._offer(link, now)
                self._release(task, now)
            while self.changed:
                self._start_transfer(self.changed.pop(0), now)
        if len(self.tasks) < len(self.missing):
            raise PlanError(f"{len(self.missing) - len(self.tasks)} tasks of the table wait for each other", "make it by clock_table")

    def _take_next(self, device: int, now: float) -> None:
        if self.places[device] < len(self.orders[device]):
            self._release(self.orders[device][self.places[device]], now)

    def _release(self, task: Task, now: float) -> None:
        """Take away one of the things a task waits for, and start it if that was the last."""
        self.missing[task] -= 1
        if not self.missing[task]:
            end_s = now + self.costs.own_s[task.step_pass][task.stage][task.microbatch]
            self.tasks.append(Entry(*task, now, end_s))
            heapq.heappush(self.events, (end_s, len(self.tasks) + len(self.transfers), task, None))
        elif self.costs.rendezvous and task in self.links:
            self._offer(self.links[task], now)

    def _leave(self, task: Task, now: float) -> None:
        stage, microbatch, step_pass = task
        if step_pass == FORWARD:
            self._release(Task(stage, microbatch, BACKWARD), now)
        self._send(stage, Task(stage + 1 if step_pass == FORWARD else stage - 1, microbatch, step_pass), now)
        for device in self.devices[stage]:
            self.places[device] += 1
            self._take_next(device, now)

    def _send(self, source: int, reader: Task, now: float) -> None:
        if not 0 <= reader.stage < self.costs.stages:
            return
        boundary = min(source, reader.stage)
        endpoints = tuple(self.devices[source]), tuple(self.devices[reader.stage])
        # without an order both directions have one key, and so one queue
        link: object = frozenset(endpoints) if self.costs.shared_links else endpoints
        queue = self.waiting.setdefault(link, collections.deque())
        queue.append((reader, boundary, self.costs.sent_s[reader.step_pass][boundary][reader.microbatch]))
        self.links[reader] = link
        self._offer(link, now)

    def _offer(self, link: object, now: float) -> None:
        """Let a link begin its next transfer: under rendezvous after all that this event changes, as what is sent first depends on it."""
        if self.costs.rendezvous:
            self.changed.append(link)
        else:
            self._start_transfer(link, now)

    def _start_transfer(self, link: object, now: float) -> None:
        """Start the next transfer of a link, if it is idle and nothing is in the way."""
        if link in self.busy:
            return
        queue = self.waiting[link]
        ready = [sent for sent in queue if self.missing[sent[0]] == 1] if self.costs.rendezvous else list(itertools.islice(queue, 1))
        if ready:
            # between two stages that each send and receive, gradients go first: an activation first would let both wait for each other
            reader, boundary, seconds = first = min(ready, key=lambda sent: self.costs.rendezvous and sent[0].step_pass == FORWARD)
            queue.remove(first)
            self.busy.add(link)
            self.transfers.append(Entry(boundary, reader.microbatch, reader.step_pass, now, now + seconds))
            heapq.heappush(self.events, (now + seconds, len(self.tasks) + len(self.transfers), reader, link))


def _by_start(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: (entry.start_s, entry.end_s, entry.stage)))


def _updates(update_s: Sequence[float], devices: Sequence[Sequence[int]], free: dict[int, float]) -> list[Entry]:
    """Return the updates; a device with several stages does one after the other."""
    entries, free = [], dict(free)
    for stage, members in enumerate(devices):
        start_s = max(free[device] for device in members)
        free.update(dict.fromkeys(members, start_s + update_s[stage]))
        entries.append(Entry(stage, -1, UPDATE, start_s, start_s + update_s[stage]))
    return entries


def _peaks(costs: CheckedCosts, orders: dict[int, list[Task]], devices: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Return the most bytes at once on a device of each stage."""
    # bytes change where tasks begin and end, and a device does one task at a time: the order of its tasks is enough, without seconds
    peaks = {}
    for device, order in orders.items():
        held = peak = sum(costs.fixed_bytes[stage] for stage, members in enumerate(devices) if device in members)
        for stage, microbatch, step_pass in order:
            kept, needed = costs.kept_bytes[stage][microbatch], costs.needed_bytes[stage][microbatch]
            held += kept if step_pass == FORWARD else 0.0
            # recomputing holds all that the pass needs in place of the kept input; elsewhere the two are equal
            peak = max(peak, held if step_pass == FORWARD else held - kept + max(kept, needed))
            held -= kept if step_pass == BACKWARD else 0.0
        peaks[device] = peak
    return tuple(max(peaks[device] for device in members) for members in devices)
