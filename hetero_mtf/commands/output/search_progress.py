"""The search for pipelines as it is followed: its progress, its answers, and the picture of its generations."""

from __future__ import annotations

import contextlib

from hetero_mtf.commands.options.pipeline_options import PipelineChoice
from hetero_mtf.planning.allocation.allocate import Allocated
from hetero_mtf.planning.allocation.partition import equal_partition, proportional_partition
from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.convergence import draw_convergence
from hetero_mtf.report.progress import Advance, progress
from hetero_mtf.units import seconds_text


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


def planner_options(choice: PipelineChoice, search: SearchProgress, groups: bool = True) -> PipelineOptions:
    """Return the options of the planner.

    Parameters
    ----------
    choice : the options on the command line.
    search : shows the allocator's progress and keeps its answers.
    groups : whether a stage may have several devices.
    """
    return PipelineOptions(
        allocator=choice.allocator or ("auto" if choice.convergence is None else "genetic"),
        microbatches=choice.microbatches,
        stages=choice.stages,
        replicas=choice.replicas,
        schedule=choice.schedule or "1f1b",
        recompute=bool(choice.recompute),
        seed=choice.allocator_seed or 0,
        groups=groups,
        progress=search.generation,
        on_allocated=search.allocated,
    )
