"""Options of pipelines and of their genetic allocator."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import click

from hetero_mtf.commands.options.shared import Command, RenamedChoice
from hetero_mtf.commands.options.typed import taken_fields
from hetero_mtf.commands.process.output_file import check_target
from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.planning.names import ALLOCATORS, EARLIER_NAMES, PIPELINE_STRATEGIES, SEARCHED_SCHEDULES, STALE_SCHEDULES

_OPTIONS = ("allocator", "microbatches", "stages", "replicas", "schedule", "recompute", "allocator_seed", "convergence")
_ALLOCATOR = "Pipeline: how layers are partitioned and stages placed; auto is exact where that is cheap, else genetic.  [default: auto]"
_REPLICAS = "Pipeline: slices of each batch that go through devices of their own.  [default: as many as are best]"
_SCHEDULE = "Pipeline: order of its passes; decoupled and 1f1b_2bw are not synchronous.  [default: 1f1b, which keeps least]"
_ALLOW_STALE = "Let auto take a pipeline that is not synchronous: its gradients are late, and its numbers not those of one device."
_RECOMPUTE = "Pipeline: compute activations again in backward passes, for less memory."
_CONVERGENCE = "Pipeline: a picture of the genetic allocator's generations to write; .png, .svg or .pdf.  [makes the allocator genetic]"


def allow_stale_option(command: Command) -> Command:
    """Add --allow-stale."""
    return click.option("--allow-stale", is_flag=True, help=_ALLOW_STALE)(command)


def pipeline_options(command: Command) -> Command:
    """Add --allocator, --microbatches, --stages, --replicas, --schedule, --recompute, --seed, --convergence and --allow-stale."""
    count = click.IntRange(1)
    for option in (
        allow_stale_option,
        click.option("--convergence", metavar="FILE", help=_CONVERGENCE),
        click.option("--seed", "allocator_seed", type=click.IntRange(0), help="Pipeline: seed of the genetic allocator.  [default: 0]"),
        click.option("--recompute", is_flag=True, default=None, help=_RECOMPUTE),
        click.option("--schedule", type=click.Choice([*SEARCHED_SCHEDULES, *STALE_SCHEDULES]), help=_SCHEDULE),
        click.option("--replicas", type=count, help=_REPLICAS),
        click.option("--stages", type=count, help="Pipeline: number of stages.  [default: as many as are best]"),
        click.option("--microbatches", type=count, help="Pipeline: parts of a batch.  [default: the best of 2, 4, 8 and 16]"),
        click.option("--allocator", type=RenamedChoice(ALLOCATORS, EARLIER_NAMES), help=_ALLOCATOR),
    ):
        command = option(command)
    return command


@dataclasses.dataclass(frozen=True)
class PipelineChoice:
    """The options of a pipeline on the command line; None for what was left out.

    Parameters
    ----------
    allocator, microbatches, stages, replicas, schedule, recompute, allocator_seed, convergence, allow_stale : the options' values.

    Raises
    ------
    HeteroError
        If the picture cannot be written, or its name ends in no known format.
    """

    allocator: str | None = None
    microbatches: int | None = None
    stages: int | None = None
    replicas: int | None = None
    schedule: str | None = None
    recompute: bool | None = None
    allocator_seed: int | None = None
    convergence: str | None = None
    allow_stale: bool = False

    def __post_init__(self) -> None:
        if self.convergence is not None:
            from hetero_mtf.report.convergence import FORMATS  # loads NumPy, which no other option waits for

            check_target(self.convergence)
            if os.path.splitext(self.convergence)[1].lower().lstrip(".") not in FORMATS:
                raise HeteroError(f"a picture cannot be written to {self.convergence}", f"end its name with .{', .'.join(FORMATS)}")

    @classmethod
    def taken(cls, given: dict[str, Any]) -> PipelineChoice:
        """Return these options out of all that a command was given, and leave the others there.

        Parameters
        ----------
        given : name -> value; changed.
        """
        return cls(**taken_fields(cls, given))

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were given, by their names."""
        spelt = {"allocator_seed": "seed"}
        return tuple(f"--{spelt.get(name, name)}" for name in _OPTIONS if getattr(self, name) is not None)

    def check(self, strategy: str, shares: bool, gradient_sync: str) -> None:
        """Refuse options of a pipeline where none is made.

        Parameters
        ----------
        strategy, gradient_sync : what the plan is made by.
        shares : whether --shares are given.

        Raises
        ------
        PlanError
            If something else is to be made.
        """
        if self.allow_stale and (strategy != "auto" or shares or gradient_sync != "all_reduce"):
            raise PlanError("--allow-stale goes with a profile, --strategy auto and --gradient-sync all_reduce", "leave out the others")
        refused = [f"--{name}" for name in ("schedule", "recompute", "replicas") if getattr(self, name) is not None]
        if self.allow_stale and refused:
            raise PlanError(f"--allow-stale lets auto choose a pipeline that takes no {', '.join(refused)}", "leave out one or the other")
        if not self.given:
            return
        options, goes = ", ".join(self.given), "goes" if len(self.given) == 1 else "go"
        if shares:
            raise PlanError(
                f"{options} {goes} with a profile, not with --shares", "make a manual pipeline in Python, with hm.Plan.pipeline"
            )
        if strategy not in PIPELINE_STRATEGIES:
            raise PlanError(f"{options} {goes} with --strategy pipeline or auto, not with {strategy}", "leave out one or the other")
        if gradient_sync != "all_reduce":
            raise PlanError(f"{options} {goes} with --gradient-sync all_reduce, not with {gradient_sync}", "leave out one or the other")
        if self.convergence is not None and strategy != "pipeline":
            raise PlanError(f"--convergence goes with --strategy pipeline, not with {strategy}", "leave out one or the other")
        if self.convergence is not None and self.allocator not in (None, "genetic"):
            raise PlanError(f"--convergence draws generations, of which the allocator {self.allocator} has none", "add --allocator genetic")
        if self.allocator_seed is not None and self.allocator not in (None, "auto", "genetic"):
            raise PlanError(f"--seed is that of the allocator genetic, and --allocator is {self.allocator}", "leave out one or the other")
