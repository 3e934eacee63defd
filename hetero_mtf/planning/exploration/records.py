"""What a training under exploration knows."""

from __future__ import annotations

import dataclasses
import statistics
from typing import NamedTuple

from hetero_mtf.planning.exploration.actions import Watch
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.plan_run import TracedStep
from hetero_mtf.planning.watching.evidence import DeviceChange

ROUGH_ERROR = 0.25  # of ln(step), of a rough profile before a plan on several devices was tried
SETTLING = 1  # steps after a move that do not count


@dataclasses.dataclass(frozen=True)
class Trial:
    """A plan that training steps were taken under.

    Parameters
    ----------
    plan : the plan.
    predicted_s : seconds of a step that were predicted before the first.
    step_s : seconds of the latest steps that count: none that a build, a trace or the settling after a move overlapped.
    traces : steps that were traced.
    """

    plan: Plan
    predicted_s: float
    step_s: tuple[float, ...] = ()
    traces: tuple[TracedStep, ...] = ()

    @property
    def median_s(self) -> float:
        """Median seconds of a step; infinite before one counts."""
        return statistics.median(self.step_s) if self.step_s else float("inf")


class Build(NamedTuple):
    """What building a plan took.

    Parameters
    ----------
    size : as `size_of` the plan.
    seconds : seconds.
    """

    size: int
    seconds: float


def size_of(plan: Plan) -> int:
    """Return what the graph of a plan grows with: layers, times processors, times microbatches."""
    return plan.microbatches * sum(len(stage.layers) * len(stage.devices) for stage in plan.stages)


class Candidate(NamedTuple):
    """A plan that was not tried yet.

    Parameters
    ----------
    plan : the plan.
    predicted_s : seconds of a step, by what is known now.
    error : standard deviation of ln(measured / predicted).
    """

    plan: Plan
    predicted_s: float
    error: float


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """What a training knows about its plans, and where it stands.

    Parameters
    ----------
    trials : plans that were tried since devices last changed, at least the first one.
    floor : part of the first plan's step that no plan is expected to be below: all devices together, without communication.
    present : index of the trial whose plan is in force.
    candidates : plans that could be tried, solved for with what `solved_trials` trials told; None before the first solution.
    error : standard deviation of ln(measured / predicted) of a plan that is unlike all that were tried.
    solved_trials : number of trials when the candidates were solved for.
    settling : steps under the present plan that do not count yet.
    building : the plan that is being built; None where none is.
    solving : whether candidates are being solved for.
    built : a plan that was built and is not tried yet.
    refused : `Plan.built_from` of plans that could not be built.
    taken : steps so far.
    left : steps to come; None where that is not known.
    builds : what was built, in order; the first is the first plan.
    elapsed_s : seconds of all steps so far.
    spent_s : seconds that trying plans has cost so far, beside steps of the best plan: longer steps, traces and moves.
    delay_s : what builds and solutions in the background have made steps longer by, in all.
    solve_s : seconds that the last solution took.
    rest : why nothing more is tried until a device changes; None while plans may be.
    changes : the devices that have changed, as which plans are tried again.
    changed_at : steps taken when devices last changed; None where they never did.
    calibration_s : seconds that calibrating is expected to take yet; None where the profile is not rough, or cannot be measured.
    again : number of steps that count since training went back to the present plan, the latest of its trial; None where it did not.
    lasted : steps that the devices were as before their last change, since the one before; None where there was none.
    """

    trials: tuple[Trial, ...]
    floor: float = 0.0
    present: int = 0
    candidates: tuple[Candidate, ...] | None = None
    error: float = ROUGH_ERROR
    solved_trials: int = 0
    settling: int = SETTLING
    building: Plan | None = None
    solving: bool = False
    built: Plan | None = None
    refused: frozenset[object] = frozenset()
    taken: int = 0
    left: int | None = None
    builds: tuple[Build, ...] = ()
    elapsed_s: float = 0.0
    spent_s: float = 0.0
    delay_s: float = 0.0
    solve_s: float = 0.0
    rest: Watch | None = None
    changes: tuple[DeviceChange, ...] = ()
    changed_at: int | None = None
    lasted: int | None = None
    again: int | None = None
    calibration_s: float | None = None

    @property
    def trial(self) -> Trial:
        """The trial of the plan in force."""
        return self.trials[self.present]

    @property
    def best(self) -> int:
        """Index of the trial with the shortest median step."""
        return min(range(len(self.trials)), key=lambda at: self.trials[at].median_s)

    @property
    def horizon(self) -> int:
        """Steps that a gain is expected for: those to come; where that is not known as many as were taken.

        Devices that have changed before are expected to change again after as many steps as their present or last state has lasted.
        """
        ahead = self.taken if self.left is None else self.left
        if self.lasted is None or self.changed_at is None:
            return ahead
        return min(ahead, max(self.lasted, self.taken - self.changed_at))

    @property
    def busy(self) -> bool:
        """Whether something runs in the background, so that a step is no measurement."""
        return self.solving or self.building is not None


@dataclasses.dataclass(frozen=True)
class Solution:
    """What solving for candidates gave.

    Parameters
    ----------
    candidates, error, floor : as of `Knowledge`.
    trials : number of trials that it took into account.
    """

    candidates: tuple[Candidate, ...]
    error: float
    floor: float
    trials: int


class Learnt(NamedTuple):
    """What a training has learnt of its plans.

    Parameters
    ----------
    plan : the plan that it stays with.
    profile : the profile as corrected.
    is_final : whether no other plan promised to be faster, whatever the length of the training.
    is_rough : whether the profile is made of operation counts and traces.
    """

    plan: Plan
    profile: Profile
    is_final: bool
    is_rough: bool
