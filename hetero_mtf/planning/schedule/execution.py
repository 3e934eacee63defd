"""How a list of stages is executed: schedule, microbatches, recomputation, depths and replicas."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from hetero_mtf.json_records import Fault
from hetero_mtf.planning.names import SCHEDULES, SEARCHED_SCHEDULES, STALE_SCHEDULES
from hetero_mtf.planning.schedule.stale import StaleOptions

_Condition = tuple[bool, str, str]  # whether it is wrong, its path, what is wrong


@dataclasses.dataclass(frozen=True)
class Execution:
    """How batches go through a list of stages.

    The values may come from a file or a person. They are not checked here but by `faults`, which needs the batch size and the stages.

    Parameters
    ----------
    schedule : one of `SCHEDULES`: "synchronous" (one microbatch after another through all stages and back), one with a clock table
        (`clock_table`), or one without a flush: "decoupled" (all stages at once, each on another batch) or "1f1b_2bw" (each on another
        microbatch, with two versions of the weights).
    microbatches : M, parts a batch is cut into (`microbatch_sizes`).
    recompute : whether backward passes recompute activations.
    depths : (stages,) most microbatches in flight of each stage of "1f1b"; empty for S - s in stage s of S.
    replicas : (replicas,) samples of a batch that each replica takes; empty for one replica.
    stale : options of a schedule without a flush; None for the defaults, and for all other schedules.
    """

    schedule: str = "synchronous"
    microbatches: int = 1
    recompute: bool = False
    depths: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    stale: StaleOptions | None = None

    @property
    def searched_schedule(self) -> str:
        """The schedule by which strategy pipeline looks for plans like this one: its own, or the default where it is not searched."""
        return self.schedule if self.schedule in SEARCHED_SCHEDULES else SEARCHED_SCHEDULES[0]

    def faults(self, batch_size: Any, stages: int) -> list[Fault]:
        """Return everything that is wrong with it, the batch size included.

        Parameters
        ----------
        batch_size : samples a step, not checked yet.
        stages : number of stages.

        Examples
        --------
        >>> [str(fault) for fault in Execution("1f1b", 9).faults(8, 2)]
        ['microbatches: are 9, a batch of 8 samples has 8 at most']
        """
        entries = (*self._depths(stages), *self._batch(batch_size), *self._without_flush(batch_size, stages))
        faults = [Fault(path, text) for wrong, path, text in entries if wrong]
        return faults + (self.stale.faults(self.schedule, stages) if self.stale is not None else [])

    def _depths(self, stages: int) -> Iterator[_Condition]:
        depths = list(self.depths)
        yield bool(depths) and self.schedule != "1f1b", "depths", f"are {depths}, must be empty for the schedule {self.schedule}"
        yield bool(depths) and len(depths) != stages, "depths", f"are {len(depths)}, there are {stages} stages"
        falling = all(map(_is_integer, depths)) and min(depths, default=1) >= 1 and depths == sorted(depths, reverse=True)
        yield not falling, "depths", f"are {depths}, must be whole, at least 1, and no more in a stage than in the one before"

    def _batch(self, batch_size: Any) -> Iterator[_Condition]:
        batch = batch_size if _is_integer(batch_size) else None
        yield batch is None, "batch_size", f"is {batch_size!r}, must be a whole number"
        yield batch is not None and batch < 1, "batch_size", f"is {batch}, must be at least 1"
        yield self.schedule not in SCHEDULES, "schedule", f"is {self.schedule!r}, must be one of {', '.join(SCHEDULES)}"
        parts = self.microbatches if _is_integer(self.microbatches) else None
        yield parts is None, "microbatches", f"are {self.microbatches!r}, must be a whole number"
        yield parts is not None and parts < 1, "microbatches", f"are {parts}, must be at least 1"
        least = max(batch or 1, 1)
        yield parts is not None and parts > least, "microbatches", f"are {parts}, a batch of {least} samples has {least} at most"
        samples = list(self.replicas)
        wrong = bool(samples) and not (all(map(_is_integer, samples)) and min(samples) >= 1 and sum(samples) == batch)
        yield wrong, "replicas", f"take {samples} samples, must be 1 or more each and sum to the batch size {batch_size}"

    def _without_flush(self, batch: Any, stages: int) -> Iterator[_Condition]:
        """Yield what schedules without a flush ask for."""
        name, parts = self.schedule, self.microbatches
        is_stale = name in STALE_SCHEDULES
        yield (
            self.stale is not None and not is_stale,
            "stale",
            f"is for {' and '.join(STALE_SCHEDULES)}, must be left out for the schedule {name}",
        )
        words = f"is {self.recompute}, the schedule {name} has stale.backward instead; leave it out"
        yield is_stale and self.recompute, "recompute", words
        yield name == "decoupled" and parts != 1, "microbatches", f"are {parts!r}, must be 1 for the schedule decoupled"
        if name == "1f1b_2bw" and _is_integer(parts) and parts > 0:
            least = max(2 * (stages - 1), 1)
            yield parts < least, "microbatches", f"are {parts}, must be {least} or more for the schedule 1f1b_2bw in {stages} stages"
            uneven = _is_integer(batch) and bool(batch % parts)
            yield uneven, "microbatches", f"are {parts}, must divide the batch of {batch} samples for the schedule 1f1b_2bw"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
