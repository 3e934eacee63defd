"""RunPlans: the plan of a run: how it is chosen, what says under which one each step is taken, and those so far."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hetero_mtf.errors import DataError, PlanError
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.planning.names import FIRST, STEPS
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.loop import Refinement
from hetero_mtf.training.control.calibration_between import CalibrationBetween
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.plan_in_force import PlanInForce
from hetero_mtf.training.control.rebalance_request import can_rebalance, check_request
from hetero_mtf.training.control.replay import Replay
from hetero_mtf.training.plan_choice import Choice, calibration_in_turns, choose_plan, resumed_choice
from hetero_mtf.training.refine import refine
from hetero_mtf.training.run.plans_so_far import PlansSoFar
from hetero_mtf.training.trained_network import TrainedNetwork


class Choosing(NamedTuple):
    """How the plan of a run is chosen.

    Parameters
    ----------
    refine_s : seconds after which no further plan is run before training.
    measure : as `read_measure` returns it.
    rebalance : whether training goes on under another plan where a device changes; None for where the plan was chosen here.
    elastic : whether training goes on without workers that are lost.
    """

    refine_s: float
    measure: str | PlanHistory
    rebalance: bool | None = None
    elastic: bool = False


class RunPlans:
    """Chooses the plan of a run and holds it.

    Parameters
    ----------
    network : what is trained.
    choosing : how its plan is chosen.
    seed : seed of dropout.

    Attributes
    ----------
    controller : what says under which plan each step is taken; None where that is always the same one.
    refinement : by which the plan was chosen; None where none was.
    """

    def __init__(self, network: TrainedNetwork, choosing: Choosing, seed: int) -> None:
        self._network, self._choosing, self._seed = network, choosing, seed
        self._in_force: PlanInForce | None = None
        self._so_far = PlansSoFar()
        self._is_chosen = False  # the first plan, rather than given
        self.controller: Controller | Replay | None = None
        self.refinement: Refinement | None = None

    @property
    def has_plan(self) -> bool:
        """Whether there is a plan yet."""
        return self._in_force is not None

    @property
    def in_force(self) -> PlanInForce:
        """The plan in force, with its engine.

        Raises
        ------
        PlanError
            If there is none yet.
        """
        if self._in_force is None:
            raise PlanError("there is no plan yet, it is made on first use", "call fit or train_on_batch, or prepare(batch_size), first")
        return self._in_force

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.in_force.plan

    @property
    def best_plan(self) -> Plan:
        """The plan with the shortest measured step so far; the one in force where no others were tried."""
        return self.controller.best_plan if isinstance(self.controller, Controller) else self.plan

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves to other plans while training, as these were tried or devices had changed."""
        return () if self.controller is None else tuple(self.controller.moves)

    @property
    def history(self) -> PlanHistory:
        """The plans so far, each with the step that it began at."""
        return self._so_far.history(self.moves, self.plan)

    def begin(self, plan: Plan | None, profile: Profile | None) -> None:
        """Begin with a plan that is given, or refine one now from a profile; with neither it is chosen for the first batch.

        Parameters
        ----------
        plan, profile : as for `Trainer`.

        Raises
        ------
        HeteroError
            If the plan cannot be honoured, or training by it be rebalanced where that is asked for.
        """
        network, choosing = self._network, self._choosing
        if plan is None and profile is not None:
            made = refine(None, profile, network.function, network.cluster, **network.trained_by, time_limit_s=choosing.refine_s)
            self.refinement = made
            self._begin(made.plan, made.profile)
        elif plan is not None:
            if choosing.rebalance:
                check_request(plan, profile, network.graph, network.cluster)
            self._begin(plan, profile if choosing.rebalance else None)

    def prepare(self, batch_size: int, verbose: str | int = "auto") -> Plan:
        """Return the plan in force; where there is none yet, it is chosen now.

        Parameters
        ----------
        batch_size : samples a batch.
        verbose : 0 for no progress, and no line that says what was chosen.

        Raises
        ------
        DataError
            If the batch size is no whole number, or below 1.
        HeteroError
            If the network cannot be planned for, or a worker dies.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
            raise DataError(f"the batch size is {batch_size!r}", "give a whole number of samples, at least 1")
        if self._in_force is None:
            choice = choose_plan(self._network.task(batch_size), self._choosing.refine_s, verbose, self._choosing.measure)
            self.refinement, self._is_chosen = choice.refinement, True
            self._begin_with(choice)
        return self.plan

    def replan(self, plan: Plan, batch: int) -> None:
        """Go on under another plan, with all values as they are; it is not rebalanced unless that was asked for.

        Parameters
        ----------
        plan : a plan for this network and cluster.
        batch : number of the next batch.

        Raises
        ------
        PlanError
            If it is for another network or cluster, or cannot be honoured; the old plan stays in force then.
        """
        spans = self.history.spans
        self.in_force.replace(plan)
        self._begin_history(spans, batch)
        if self._choosing.rebalance is not True or (self.controller is not None and not self.controller.fits(plan)):
            self._stop_exploring()
            self.controller = None

    def resume(self, plans: PlanHistory | None, batch: int, values: Mapping[str, np.ndarray], seed: int) -> None:
        """Go on with values that were saved; where there is no plan yet, and none is measured first, with that in force then.

        Parameters
        ----------
        plans : the plans that were saved with them; None where none were.
        batch : number of the next batch.
        values : variable or slot key -> whole array.
        seed : seed of dropout.

        Raises
        ------
        HeteroError
            If there is no plan and there can be none.
        """
        self._begin_resumed(plans, batch)
        spans = (plans or self.history).spans
        self._stop_exploring()  # plans that are built draw random numbers by the seed before
        self.in_force.replace(self.plan, values, seed)
        self._begin_history(spans, batch)

    def begin_again(self, plan: Plan, values: Mapping[str, np.ndarray], profile: Profile, is_rough: bool, has_room: bool) -> Controller:
        """Go on under a plan for other devices, with values from before; what moved before stays noted.

        Parameters
        ----------
        plan : a plan for the network, on the devices in use now.
        values : variable or slot key -> whole array.
        profile : of the devices in use now.
        is_rough : whether it is made of operation counts.
        has_room : whether there is memory for plans that are tried, where some were before.

        Returns
        -------
        Controller
            What says under which plan each step is taken from now on.

        Raises
        ------
        HeteroError
            If the plan cannot be honoured.
        """
        self._stop_exploring()
        self.in_force.replace(plan, values)
        before = self.controller
        by_steps = before is None and self._is_chosen and self._choosing.measure == STEPS  # as where it began on one device alone
        explores = has_room and (before.explores if isinstance(before, Controller) else by_steps)
        watches = self._choosing.rebalance is not False and (isinstance(before, Controller) or by_steps)
        measures = explores and is_rough
        calibration = CalibrationBetween(calibration_in_turns(self._network.task(plan.batch_size))) if measures else None
        controller = Controller(profile, plan, explores=explores, is_rough=is_rough, watches=watches, calibration=calibration)
        controller.moves = [*self.moves]
        if before is not None:
            controller.steps_ahead, controller.speaks = before.steps_ahead, before.speaks
        self.controller = controller
        return controller

    @contextlib.contextmanager
    def told(self, steps_ahead: Callable[[], int | None], speaks: bool) -> Iterator[None]:
        """Let what says under which plan steps are taken know how many come, while the context is open.

        Parameters
        ----------
        steps_ahead : returns the steps that come; None where that is not known.
        speaks : whether a line is written for each trial and move.
        """
        controller = self.controller
        if controller is not None:
            controller.steps_ahead, controller.speaks = steps_ahead, speaks
        try:
            yield
        finally:
            for each in (controller, self.controller):  # after a loss there is another one
                if each is not None:
                    each.steps_ahead, each.speaks = lambda: None, True

    def close(self) -> None:
        """Free what plans hold on the cluster; closing twice is harmless."""
        self._stop_exploring()
        if self._in_force is not None:
            self._in_force.engine.close()

    def _begin(self, plan: Plan, profile: Profile | None) -> None:
        """Begin with a plan, and watch its steps where there is a profile to rebalance it by."""
        self._in_force = PlanInForce(self._network, plan, self._seed)
        watched = profile is not None and self._choosing.rebalance is not False and can_rebalance(plan, profile)
        self.controller = Controller(profile, plan, explores=False, is_rough=False) if watched and profile is not None else None

    def _begin_with(self, choice: Choice) -> None:
        """Begin with a plan that was chosen; try others as training steps, or go through those of an earlier training."""
        self._begin(choice.plan, choice.profile)
        if choice.repeats is not None:
            self.controller = Replay(choice.repeats)
        elif choice.explored is not None and choice.profile is not None:
            self.controller = Controller(
                choice.profile,
                choice.plan,
                is_rough=choice.is_rough,
                watches=self._choosing.rebalance is not False,
                calibration=None if choice.calibrate is None else CalibrationBetween(choice.calibrate),
                learnt=choice.explored,
            )

    def _begin_resumed(self, plans: PlanHistory | None, batch: int) -> None:
        """Begin, where there is no plan yet, with the one in force when a state was saved, or where plans are repeated with its step's."""
        measure = self._choosing.measure
        plans = measure if isinstance(measure, PlanHistory) else plans
        if self._in_force is None and plans is not None and measure != FIRST:
            plan = plans.at(batch)
            choice = resumed_choice(self._network.task(plan.batch_size), plan, measure)
            if choice is None:  # as for another cluster
                self.prepare(plan.batch_size)
            else:
                self._begin_with(choice)

    def _begin_history(self, spans: Sequence[PlanSpan], batch: int) -> None:
        """Keep some plans as the history, and go on with the present one from a batch on."""
        self._so_far = PlansSoFar(tuple(spans), batch, len(self.moves))

    def _stop_exploring(self) -> None:
        """Free what plans hold that are tried, but that in force."""
        if self.controller is not None:
            self.controller.close()
