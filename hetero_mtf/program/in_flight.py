"""Batches of schedule "decoupled" between their first forward and their last backward pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.tick import Tick


@dataclasses.dataclass(frozen=True)
class Entered:
    """A batch in flight.

    Parameters
    ----------
    batch : the batch.
    scalars : the optimizer's scalars of its step.
    """

    batch: BatchArrays
    scalars: Mapping[str, float]


class InFlight:
    """The batches in flight, by number.

    Parameters
    ----------
    stages : number of stages, K.

    Notes
    -----
    In tick t stage k takes the forward pass of batch t - k and the backward pass of batch t - 2 (K - 1) + k, if they are in flight.
    """

    def __init__(self, stages: int) -> None:
        self._last = stages - 1
        self._entered: dict[int, Entered] = {}
        self._tick = 0

    def __len__(self) -> int:
        return len(self._entered)

    @property
    def form(self) -> tuple[Any, ...]:
        """Size and targets of the batches in flight, which are the same for all; empty without any."""
        return next(((each.batch.size, each.batch.targets) for each in self._entered.values()), ())

    def enter(self, number: int, entered: Entered) -> None:
        """Add the next batch, of the form of those in flight.

        Parameters
        ----------
        number : its number, one more than that of the batch before unless none is in flight.
        entered : the batch.
        """
        if not self._entered:
            self._tick = number
        self._entered[number] = entered

    @property
    def is_full(self) -> bool:
        """Whether all stages have a batch for both passes."""
        return all(number in self._entered for stage in range(self._last + 1) for number in self._numbers(stage))

    @property
    def leaving(self) -> Entered | None:
        """The batch of the last stage, whose loss the next tick gives."""
        return self._entered.get(self._tick - self._last)

    def feeds(self, tick: Tick, graph: LayerGraph) -> dict[Any, Any]:
        """Return what the next tick is fed; stages without a batch get some other one, which does not count.

        Parameters
        ----------
        tick : program.
        graph : the network.
        """
        some = next(iter(self._entered.values()))
        feeds: dict[Any, Any] = {tick.number: self._tick}
        for stage, (x, scalars) in enumerate(zip(tick.x, tick.scalars)):
            forward, backward = self._numbers(stage)
            arrays = dict(zip(graph.inputs, self._entered.get(forward, some).batch.x))
            feeds.update({placeholder: arrays[index] for index, placeholder in x.items()})
            of_step = self._entered.get(backward, some).scalars
            feeds.update({placeholder: of_step[name] for name, placeholder in scalars.items()})
            if tick.active:
                feeds.update(zip(tick.active[stage], (forward in self._entered, backward in self._entered)))
        batch = (self.leaving or some).batch
        for inputs, y, weight, scale in zip(tick.loss_inputs, batch.y, batch.weight, batch.scale):
            if inputs is not None:
                feeds.update({inputs.y: y, inputs.weight: weight, inputs.scale: scale})
        return feeds

    def advance(self) -> None:
        """Go on to the next tick: the batch whose backward pass was the first stage's has left."""
        self._entered.pop(self._tick - 2 * self._last, None)
        self._tick += 1

    def _numbers(self, stage: int) -> tuple[int, int]:
        return self._tick - stage, self._tick - 2 * self._last + stage
