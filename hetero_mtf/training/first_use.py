"""What a trainer is given by default: the settings of a compiled model, the devices here, and a plan that is made on first use."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hetero_mtf.data.factory import is_array
from hetero_mtf.data.form import Form
from hetero_mtf.data.source import BatchSource, checked_steps
from hetero_mtf.errors import DataError, PlanError, UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.structure import leaves_of
from hetero_mtf.keras_reading.private_names import compiled_with
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.planning.names import FIRST
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.loop import Refinement
from hetero_mtf.program.engine import Engine
from hetero_mtf.program.objective import Objective
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.program.stale.engine import engine_of
from hetero_mtf.training.control.calibration_between import CalibrationBetween
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.control.measure_option import DEFAULT
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.rebalance_request import can_rebalance
from hetero_mtf.training.control.replay import Replay
from hetero_mtf.training.keras_side import Settings, read_weights, with_initial_slots
from hetero_mtf.training.plan_choice import Choice, Task, choose_plan, resumed_choice

BATCH_SIZE = 32  # of arrays, where none is given, as in Keras


def settings_of(model: Any, given: Settings, added: bool = False) -> Settings:
    """Return what is given, and for the rest what the model was compiled with.

    Parameters
    ----------
    model : keras.Model.
    given : None for what is not given.
    added : whether layers add to the loss, so that there need be no other.

    Raises
    ------
    UnsupportedError
        If there is no loss.
    """
    optimizer, loss, loss_weights, metrics, weighted_metrics = given
    compiled = bool(getattr(model, "compiled", False))
    if compiled and loss is None:
        loss = getattr(model, "loss", None)
        loss_weights = (
            compiled_with(model)[0] if loss_weights is None and loss is not None else loss_weights
        )
    if loss is None and not added:
        raise UnsupportedError("there is no loss to train by", "compile the model with one, or give loss")
    if compiled and optimizer is None:
        optimizer = model.optimizer
    if compiled:
        _, own, own_weighted = compiled_with(model)
        metrics = own if metrics is None else metrics
        weighted_metrics = own_weighted if weighted_metrics is None else weighted_metrics
    optimizer = "sgd" if optimizer is None else optimizer
    return Settings(optimizer, loss, loss_weights, () if metrics is None else metrics, () if weighted_metrics is None else weighted_metrics)


def first_size(x: Any, batch_size: int | None, are_arrays: bool) -> tuple[Any, int]:
    """Return data of the same samples, and the samples of their first batch.

    Parameters
    ----------
    x : arrays, or a stream of batches, of which the first is looked at.
    batch_size : samples a batch of arrays; None for those of the stream, or 32 of arrays.
    are_arrays : whether it is arrays.

    Raises
    ------
    DataError
        If a stream is empty, or gives no arrays.
    """
    if batch_size is not None:
        return x, batch_size
    if isinstance(x, BatchSource):
        size = getattr(x, "batch_size", None)
        if size is None:
            raise DataError("there is no plan yet, and the source of batches does not tell their size", "give batch_size")
        return x, int(size)
    if are_arrays:
        return x, BATCH_SIZE
    if hasattr(x, "__next__"):
        first = next(x, None)
        return _followed(first, x), _samples(first)
    item = x[0] if hasattr(x, "__getitem__") and hasattr(x, "__len__") else next(iter(x), None)
    return x, _samples(item)


def _followed(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield from itertools.chain([first], rest)


def _samples(item: Any) -> int:
    leaves = leaves_of(item[0] if isinstance(item, (list, tuple)) else item)
    shape: Any = getattr(leaves[0], "shape", None) if item is not None and leaves else None
    if not shape:
        raise DataError("the stream gives no batch of arrays", "make it give (x, y) with the samples along the first dimension")
    return int(shape[0])


class PlannedOnUse:
    """A trainer's plan and engine: of a given plan, or of one that is chosen when the first batch is there."""

    _held: Engine | None = None
    _first_slots: dict[str, np.ndarray]
    _graph: LayerGraph
    _form: Form
    _model: Any
    _function: Any
    _cluster: Any
    _objective: Objective
    _rule: UpdateRule
    _seed: int
    _task: Callable[[int], Task]
    _refine_s: float
    _rebalance: bool | None = None
    _measure: str | PlanHistory = DEFAULT
    _earlier_spans: tuple[PlanSpan, ...] = ()  # before the last `replan`
    _planned_at = 0  # number of steps taken then
    _earlier_moves = 0  # of `moves`, those before it
    controller: Controller | Replay | None = None
    refinement: Refinement | None = None

    @property
    def _engine(self) -> Engine:
        if self._held is None:
            raise PlanError("there is no plan yet, it is made on first use", "call fit or train_on_batch, or prepare(batch_size), first")
        return self._held

    @_engine.setter
    def _engine(self, engine: Engine) -> None:
        self._held = engine

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._engine.plan

    def prepare(self, batch_size: int, verbose: str | int = "auto") -> Plan:
        """Return the plan in force; where there is none yet, measure, plan and refine now rather than with the first batch.

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
        if self._held is None:
            choice = choose_plan(self._task(batch_size), self._refine_s, verbose, self._measure)
            self.refinement = choice.refinement
            self._begin_with(choice)
        return self.plan

    def _begin_resumed(self, plans: PlanHistory | None, step: int) -> None:
        """Begin, where there is no plan yet, with the one in force when a state was saved, or where plans are repeated with its step's."""
        plans = self._measure if isinstance(self._measure, PlanHistory) else plans
        if self._held is None and plans is not None and self._measure != FIRST:
            plan = plans.at(step)
            choice = resumed_choice(self._task(plan.batch_size), plan, self._measure)
            if choice is None:  # as for another cluster
                self.prepare(plan.batch_size)
            else:
                self._begin_with(choice)

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
                watches=self._rebalance is not False,
                calibration=None if choice.calibrate is None else CalibrationBetween(choice.calibrate),
                learnt=choice.explored,
            )

    def _begin(self, plan: Plan, profile: Profile | None) -> None:
        """Begin with a plan, and watch its steps where there is a profile to rebalance it by."""
        self._engine = self._make_engine(plan, self._first_values(), self._seed)
        watched = profile is not None and self._rebalance is not False and can_rebalance(plan, profile)
        self.controller = Controller(profile, plan, explores=False, is_rough=False) if watched and profile is not None else None

    def _begin_history(self, spans: Sequence[PlanSpan], step: int) -> None:
        """Keep some plans as the history, and go on with the present one from a step on."""
        self._earlier_spans, self._planned_at, self._earlier_moves = tuple(spans), step, len(self.moves)

    def _stop_exploring(self) -> None:
        """Free what plans hold that are tried, but that in force."""
        if self.controller is not None:
            self.controller.close()

    @property
    def best_plan(self) -> Plan:
        """The plan with the shortest measured step so far; the one in force where no others were tried."""
        return self.controller.best_plan if isinstance(self.controller, Controller) else self.plan

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves to other plans while training, as these were tried or devices had changed."""
        return () if self.controller is None else tuple(self.controller.moves)

    @property
    def plan_history(self) -> PlanHistory:
        """The plans so far, each with the step that it began at: what `measure` takes to repeat them.

        Raises
        ------
        PlanError
            If there is no plan yet.
        """
        moves = self.moves[self._earlier_moves :]
        starts, plans = [self._planned_at, *(move.step for move in moves)], [*(move.before for move in moves), self.plan]
        spans = list(self._earlier_spans)
        for step, plan, step_s in zip(starts, plans, [*(move.before_s for move in moves), math.inf]):
            while spans and spans[-1].step >= step:  # from before an earlier step was gone back to
                spans.pop()
            goes_on = bool(spans) and spans[-1].plan.built_from == plan.built_from  # after a state was restored
            last = spans.pop() if goes_on else PlanSpan(step, plan)
            spans.append(PlanSpan(last.step, last.plan, step_s if 0 < step_s < math.inf else last.step_s))
        return PlanHistory(tuple(spans))

    def _first_values(self) -> dict[str, np.ndarray]:
        return with_initial_slots(self._graph, self._rule, {**read_weights(self._function, self._graph), **self._first_slots})

    def _make_engine(self, plan: Plan, values: Mapping[str, np.ndarray], seed: int) -> Engine:
        return engine_of(self._graph, plan, self._cluster, self._objective, self._rule, seed, values)

    def _replace_engine(self, plan: Plan, values: Mapping[str, np.ndarray], seed: int) -> None:
        self._engine.check_open()
        engine = self._make_engine(plan, values, seed)
        self._engine.close()
        self._engine, self._seed = engine, seed

    def _overwrite(self, values: Mapping[str, np.ndarray]) -> None:
        """Go on with other values of some variables and slots, in the engine that runs where it can."""
        if self._engine.writable:
            self._engine.write(values)
        else:
            self._replace_engine(self.plan, {**self._engine.read(), **values}, self._seed)

    def _batch_size(self, given: int | None) -> int:
        if given is not None:
            return given
        return BATCH_SIZE if self._held is None else self.plan.batch_size

    def _sized(
        self, x: Any, y: Any, batch_size: int | None, steps: int | None = None, labels: bool = True, verbose: str | int = 0
    ) -> tuple[Any, int]:
        """Return the data and the samples of a batch of arrays, after a plan was made for their batches where there is none."""
        are_arrays = is_array(x) or self._form.holds_arrays(x, y, labels)
        steps = checked_steps(steps)
        if are_arrays and batch_size is None and steps is not None:
            batch_size = -(-len(leaves_of(x)[0]) // steps)  # as in Keras: the steps take all samples
        if self._held is None:
            x, size = first_size(x, batch_size, are_arrays)
            self.prepare(size, verbose)
        return x, self._batch_size(batch_size)
