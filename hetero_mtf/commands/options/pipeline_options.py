"""Options of pipelines and of their genetic allocator."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hetero_mtf.commands.options.shared import RenamedChoice
from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.planning.names import ALLOCATORS, EARLIER_NAMES, PIPELINE_STRATEGIES, SEARCHED_SCHEDULES, STALE_SCHEDULES

if TYPE_CHECKING:
    from hetero_mtf.planning.allocation.allocate import Allocated
    from hetero_mtf.planning.allocation.problem import ChainProblem
    from hetero_mtf.planning.pipeline.search import PipelineOptions
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.report.progress import Advance

Command = TypeVar("Command", bound=Callable[..., Any])
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
            from hetero_mtf.commands.process.output_file import check_target
            from hetero_mtf.report.convergence import FORMATS

            check_target(self.convergence)
            if os.path.splitext(self.convergence)[1].lower().lstrip(".") not in FORMATS:
                raise HeteroError(f"a picture cannot be written to {self.convergence}", f"end its name with .{', .'.join(FORMATS)}")

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

    def planner_options(self, search: SearchProgress, groups: bool = True) -> PipelineOptions:
        """Return the options of the planner.

        Parameters
        ----------
        search : shows the allocator's progress and keeps its answers.
        groups : whether a stage may have several devices.
        """
        from hetero_mtf.planning.pipeline.search import PipelineOptions

        return PipelineOptions(
            allocator=self.allocator or ("auto" if self.convergence is None else "genetic"),
            microbatches=self.microbatches,
            stages=self.stages,
            replicas=self.replicas,
            schedule=self.schedule or "1f1b",
            recompute=bool(self.recompute),
            seed=self.allocator_seed or 0,
            groups=groups,
            progress=search.generation,
            on_allocated=search.allocated,
        )


class SearchProgress:
    """Follows the search for pipelines: shows a bar of generations for each number of microbatches, and keeps the answers.

    Use it in a with-statement, so that a bar always ends.

    Attributes
    ----------
    answers : the chain problems and the allocator's answers.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[ChainProblem, Allocated]] = []
        self._bar = contextlib.ExitStack()
        self._advance: Advance = lambda step: None

    def __enter__(self) -> SearchProgress:
        return self

    def __exit__(self, *fault: object) -> None:
        self._bar.close()

    def generation(self, generation: int, generations: int, best_s: float) -> None:
        """Count a generation of the genetic allocator.

        Parameters
        ----------
        generation, generations : which one of how many.
        best_s : best J so far, seconds; infinite while nothing fits.
        """
        from hetero_mtf.report.progress import progress
        from hetero_mtf.units import seconds_text

        if generation == 1:
            self._bar.close()
            self._advance = self._bar.enter_context(progress("genetic allocator", generations))
        self._advance(f"best {seconds_text(best_s)}" if best_s < float("inf") else "nothing fits yet")

    def allocated(self, problem: ChainProblem, answer: Allocated) -> None:
        """Keep an answer.

        Parameters
        ----------
        problem : what was to be allocated.
        answer : the allocation.
        """
        self._bar.close()
        self.answers.append((problem, answer))

    def draw(self, path: str, plan: Plan) -> None:
        """Write the picture of the generations.

        Parameters
        ----------
        path : path of the picture.
        plan : the plan that was made.

        Raises
        ------
        HeteroError
            If the picture cannot be written.
        """
        from hetero_mtf.planning.allocation.partition import equal_partition, proportional_partition
        from hetero_mtf.report.convergence import draw_convergence

        assert plan.proof is not None
        parts, replicas, value = plan.microbatches, max(len(plan.replicas), 1), plan.proof.value_s
        same = [(p, a) for p, a in self.answers if (p.microbatches, p.replicas, a.value) == (parts, replicas, value)]
        problem, answer = same[0]
        stages = len(answer.allocation.boundaries)
        partitions = [
            (name, make(problem, stages))
            for name, make in (("equal partition", equal_partition), ("proportional partition", proportional_partition))
        ]
        others = [(name, problem.value(partition)) for name, partition in partitions]
        optimal = "exact optimum" in answer.reason
        draw_convergence(path, answer.history, after_local_search=answer.value, bound=answer.bound, optimal=optimal, others=others)
