"""Batches of a schedule without a flush between their first forward and their last backward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.stale.stage_inputs import StageInputs
from hetero_mtf.program.stale.tick import Tick


@dataclasses.dataclass
class Entered:
    """A batch in flight, or a microbatch.

    Parameters
    ----------
    part : its samples.
    number : its number, which is part of the masks' key.
    scalars : the optimizer's scalars of its update.
    full : the batch that it is a part of.
    group : number of the update that it counts for, from 0 since the pipeline was empty.
    place : its place among those of its update, from 0.
    is_last : whether its backward pass is the last one before the update.
    """

    part: BatchArrays
    number: int
    scalars: Mapping[str, float]
    full: BatchArrays
    group: int
    place: int
    is_last: bool


class InFlight:
    """The batches in flight, in the order in which they entered.

    Parameters
    ----------
    stages : number of stages, K.
    rates : (stages,) factors on the learning rate; empty for 1.

    Notes
    -----
    In tick t stage k takes the forward pass of batch t - k and the backward pass of batch t - 2 (K - 1) + k, if they are in flight.
    """

    def __init__(self, stages: int, rates: tuple[float, ...] = ()) -> None:
        self._last = stages - 1
        self._rates = rates or (1.0,) * stages
        self._entered: dict[int, Entered] = {}
        self._last_of: dict[int, int] = {}  # update -> its last batch, of those since the pipeline was empty
        self._tick = self._next = 0

    def __len__(self) -> int:
        return len(self._entered)

    @property
    def form(self) -> tuple[Any, ...]:
        """Size and targets of the batches in flight, which are the same for all; empty without any."""
        return next(((each.part.size, each.part.targets) for each in self._entered.values()), ())

    @property
    def newest(self) -> Entered | None:
        """The batch that entered last; None with none in flight."""
        return self._entered.get(self._next - 1)

    def enter(self, entered: Entered) -> None:
        """Add the next batch, of the form of those in flight."""
        if not self._entered:
            self._tick = self._next
            self._last_of.clear()
        self._entered[self._next] = entered
        self._last_of[entered.group] = self._next
        self._next += 1

    @property
    def is_full(self) -> bool:
        """Whether all stages have a batch for both passes."""
        return all(number in self._entered for stage in range(self._last + 1) for number in self._numbers(stage))

    @property
    def leaving(self) -> Entered | None:
        """The batch of the last stage, whose loss the next tick gives."""
        return self._entered.get(self._tick - self._last)

    def feeds(self, tick: Tick, graph: LayerGraph, call: int) -> dict[Any, Any]:
        """Return what the next tick is fed; stages without a batch get some other one, which does not count.

        Parameters
        ----------
        tick : program.
        graph : the network.
        call : number of the session call.
        """
        some = next(iter(self._entered.values()))
        feeds: dict[Any, Any] = {}
        for stage, (inputs, used) in enumerate(zip(tick.stages, tick.used)):
            forward, backward = self._numbers(stage)
            ahead, back = self._entered.get(forward, some), self._entered.get(backward, some)
            arrays = dict(zip(graph.inputs, ahead.part.x))
            feeds.update({placeholder: arrays[index] for index, placeholder in zip(graph.inputs, inputs.x) if index in used})
            feeds.update(zip((*inputs.numbers, inputs.is_odd), (ahead.number, back.number, call % 2 == 1)))
            feeds.update({inputs.scalars[name]: self._scaled(stage, name, value) for name, value in back.scalars.items()})
            if inputs.active is not None:
                is_back = backward in self._entered
                feeds.update(zip(inputs.active, (forward in self._entered, is_back, back.place == 0, is_back and back.is_last)))
            if inputs.share is not None:
                feeds[inputs.share] = 1.0 / (back.place + 1)
            feeds.update(self._weight_feeds(stage, inputs, forward, ahead))
        leaving = (self.leaving or some).part
        for fed, y, weight, scale in zip(tick.loss_inputs, leaving.y, leaving.weight, leaving.scale):
            if fed is not None:
                feeds.update({fed.y: y, fed.weight: weight, fed.scale: scale})
        return feeds

    def _weight_feeds(self, stage: int, inputs: StageInputs, forward: int, ahead: Entered) -> dict[Any, Any]:
        """Return which weights the forward pass reads."""
        feeds: dict[Any, Any] = {}
        if inputs.previous is not None:
            feeds[inputs.previous] = self._updated_at(stage, ahead.group - 1) < self._tick
        if inputs.distance is not None:
            feeds[inputs.distance] = float(self._updates_until(stage, forward, ahead, inputs.previous is not None))
            feeds.update(
                {inputs.forward_scalars[name]: self._scaled(stage, name, value) for name, value in self._next_update(stage).items()}
            )
        return feeds

    def _next_update(self, stage: int) -> Mapping[str, float]:
        """Return the optimizer's scalars of the update that follows a stage's present weights."""
        oldest = max(self._numbers(stage)[1], min(self._entered))
        return self._entered.get(oldest, self._entered[min(self._entered)]).scalars

    def _scaled(self, stage: int, name: str, value: float) -> float:
        return value * self._rates[stage] if name == "learning_rate" else value

    def _updated_at(self, stage: int, group: int) -> float:
        """Return the tick of an update at a stage; infinity for one before the pipeline was empty."""
        end = self._last_of.get(group)
        return float("inf") if end is None else end + 2 * self._last - stage

    def _updates_until(self, stage: int, forward: int, ahead: Entered, versions: bool) -> int:
        """Return the updates of a stage from the weights that a forward pass begins with to its own update."""
        if versions:
            return int(ahead.group - 1 in self._last_of)
        passing = range(forward - 2 * (self._last - stage), forward)
        return sum(self._entered[number].is_last for number in passing if number in self._entered)

    def advance(self) -> None:
        """Go on to the next tick: the batch whose backward pass was the first stage's has left."""
        self._entered.pop(self._tick - 2 * self._last, None)
        self._tick += 1

    def forget(self) -> None:
        """Drop all batches, after a step that failed."""
        self._entered.clear()

    def _numbers(self, stage: int) -> tuple[int, int]:
        return self._tick - stage, self._tick - 2 * self._last + stage
