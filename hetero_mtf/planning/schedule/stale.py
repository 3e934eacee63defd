"""Options of schedules without a flush: what the backward pass uses, and what is done about gradients that are late.

References: replay is features replay (Huo, Gu, Huang, NeurIPS 2018), stored decoupled backpropagation (DDG; Huo et al., ICML 2018),
accumulation that of ADL (Zhuang, Lin, Toh, ICML 2021), prediction by the optimizer's momentum SpecTrain's (Chen, Yang, Cheng, 2018), for
Adam PipeOptim's (Guan et al., 2023).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

from hetero_mtf.json_records import Fault
from hetero_mtf.planning.names import BACKWARDS


@dataclasses.dataclass(frozen=True)
class StaleOptions:
    """Options of schedules "decoupled" and "1f1b_2bw".

    Parameters
    ----------
    backward : "replay" computes the forward pass again for the backward pass; under "decoupled" with the weights that are present then,
        under "1f1b_2bw" with those of the forward pass. "stored" keeps activations, and the weights of the forward pass.
    accumulate : batches whose gradients are averaged for one update; always 1 under "1f1b_2bw", whose update is that of a batch.
    predict : whether forward passes use weights that the optimizer's momentum predicts for the time of the update.
    rates : (stages,) factors on the learning rate of each stage; empty for 1.
    """

    backward: str = "replay"
    accumulate: int = 1
    predict: bool = False
    rates: tuple[float, ...] = ()

    def faults(self, schedule: str, stages: int) -> list[Fault]:
        """Return everything that is wrong with them.

        Parameters
        ----------
        schedule : of `STALE_SCHEDULES`.
        stages : number of stages.

        Examples
        --------
        >>> [str(fault) for fault in StaleOptions("kept").faults("decoupled", 2)]
        ["stale.backward: is 'kept', must be one of replay, stored"]
        """
        return [Fault(f"stale.{path}", text) for wrong, path, text in self._entries(schedule, stages) if wrong]

    def _entries(self, schedule: str, stages: int) -> Iterator[tuple[bool, str, str]]:
        yield self.backward not in BACKWARDS, "backward", f"is {self.backward!r}, must be one of {', '.join(BACKWARDS)}"
        count = self.accumulate
        is_count = isinstance(count, int) and not isinstance(count, bool) and count >= 1
        yield not is_count, "accumulate", f"is {count!r}, must be a whole number of batches, at least 1"
        several = is_count and count > 1 and schedule == "1f1b_2bw"
        yield several, "accumulate", f"is {count!r}, must be 1 for the schedule 1f1b_2bw, whose update is that of a batch"
        alone = is_count and count > 1 and stages == 1
        yield alone, "accumulate", f"is {count!r}, must be 1 for one stage; use larger batches"
        rates = list(self.rates)
        yield bool(rates) and len(rates) != stages, "rates", f"are {len(rates)}, there are {stages} stages"
        yield not all(map(_is_rate, rates)), "rates", f"are {rates}, must be numbers above 0"


def _is_rate(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def delays(schedule: str, stages: int, options: StaleOptions) -> tuple[int, ...]:
    """Return, for each stage, the most updates between a forward pass and the update by its gradient.

    Parameters
    ----------
    schedule : one of `STALE_SCHEDULES`.
    stages : number of stages, K.
    options : the accumulation counts.

    Examples
    --------
    >>> delays("decoupled", 3, StaleOptions()), delays("decoupled", 3, StaleOptions(accumulate=3)), delays("1f1b_2bw", 3, StaleOptions())
    ((4, 2, 0), (2, 1, 0), (1, 1, 1))
    """
    if schedule == "1f1b_2bw":
        return (1 if stages > 1 else 0,) * stages
    return tuple(-(-ticks_between(stage, stages) // options.accumulate) for stage in range(stages))


def ticks_between(stage: int, stages: int) -> int:
    """Return the steps from a stage's forward pass of a batch, or microbatch, to its backward pass: 2 (K - 1 - k) for stage k of K.

    Each boundary to the last stage takes a step there and one back; the last stage does both passes in one step.

    Parameters
    ----------
    stage, stages : index of the stage, and their number.
    """
    return 2 * (stages - 1 - stage)


def batches_kept(stage: int, stages: int) -> int:
    """Return the batches, or microbatches, whose inputs a stage holds at once, the arriving one included.

    Parameters
    ----------
    stage, stages : index of the stage, and their number.
    """
    return ticks_between(stage, stages) + 1
