"""A step of training as an engine is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.engine import Engine, Finished
from hetero_mtf.runtime.step_trace import StepTrace


class StepCall(NamedTuple):
    """What a step takes, whichever engine takes it; the fields are the parameters of `Engine.advance`."""

    batch: BatchArrays
    step: int
    scalars: Mapping[str, float]
    want_outputs: bool

    def advance(self, engine: Engine) -> list[Finished]:
        """Return what a step of an engine gives.

        Parameters
        ----------
        engine : takes it.
        """
        return engine.advance(*self)

    def advance_traced(self, engine: Engine) -> tuple[list[Finished], StepTrace]:
        """Return what a step of an engine gives, and its trace.

        Parameters
        ----------
        engine : takes it.
        """
        return engine.advance_traced(*self)
