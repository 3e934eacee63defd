"""Distribution: what is bound to a distributed model, so that Keras's own loops run their steps on a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from hetero_mtf.data.checked_batch import Batch, check_batch
from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.keras_reading.private_names import build_with, compile_loss, compile_metrics, untuned_datasets
from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.engine import Finished
from hetero_mtf.training.batches import samples
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.replay import Replay
from hetero_mtf.training.distribution.client_layers import divided
from hetero_mtf.training.distribution.differences import rows_text
from hetero_mtf.training.distribution.extents import Extents
from hetero_mtf.training.distribution.own_run import kept_plan, run_of
from hetero_mtf.training.distribution.own_step.step import OwnStep, StepExtents, StepMetrics, followed_step, has_own_step, leaves_in
from hetero_mtf.training.loops.callback_hooks import first_callback, listed, look_between_batches
from hetero_mtf.training.loops.keras_batches import arrays_of
from hetero_mtf.training.loops.keras_loops import FUNCTIONS, KerasLoops
from hetero_mtf.training.loops.model_metrics import ModelMetrics, symbolic_batch
from hetero_mtf.training.loops.own_weights import OwnWeights
from hetero_mtf.training.loops.plan_events import PlanEvents, plan_events
from hetero_mtf.training.plan_choice import say
from hetero_mtf.training.run.run import Run
from hetero_mtf.training.run.run_plans import Choosing


class Distribution:
    """Runs the steps of a Keras model on a cluster.

    The run behind them is made with the first batch, and again where the model was compiled again.

    Parameters
    ----------
    model : keras.Model.
    cluster : live cluster.
    plan : the plan to train by; None for the one with the best measured step.
    seed : seed of dropout.
    refine_s : seconds after which no further plan is tried.
    measure : when plans are measured, as `read_measure` returns it.
    elastic : whether training goes on without workers that are lost.

    Attributes
    ----------
    cluster, measure, elastic : as given.
    """

    def __init__(
        self,
        model: Any,
        cluster: Any,
        plan: Plan | None,
        seed: int,
        refine_s: float,
        measure: str | PlanHistory,
        elastic: bool = False,
    ) -> None:
        self._model, self._loops = model, KerasLoops(model, self)
        self.cluster = cluster
        self._plan, self._seed, self._refine_s, self.measure, self.elastic = plan, seed, refine_s, measure, elastic
        self._own_step = has_own_step(model)
        self._step: OwnStep | None = None
        self._looked_up: Callable[[Any], Any] = lambda x: x
        self._plan_is_kept = False  # from before the model was compiled again, when other variables may have been trained
        self._compiled: tuple[Any, ...] = ()
        self._trained: set[int] = set()
        self._verbose: Any = "auto"

    @staticmethod
    def of(model: Any) -> Distribution | None:
        """Return the distribution that is bound to a model, None where there is none."""
        loops = getattr(getattr(model, "__dict__", {}).get("make_train_function"), "__self__", None)
        side = loops.side if isinstance(loops, KerasLoops) else None
        return side if isinstance(side, Distribution) else None

    @property
    def plan(self) -> Plan | None:
        """The plan in force; None before the first batch."""
        run = self._loops.run
        return self._plan if run is None or not run.plans.has_plan else run.plans.plan

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves to other plans so far."""
        return () if self._loops.run is None else self._loops.run.plans.moves

    @property
    def controller(self) -> Controller | Replay | None:
        """What says under which plan each step is taken; None before the first batch, and where that is always the same one."""
        return None if self._loops.run is None else self._loops.run.plans.controller

    @property
    def plan_history(self) -> PlanHistory:
        """The plans so far, each with the step that it began at: what `measure` takes to repeat them.

        Raises
        ------
        PlanError
            If there is no plan yet.
        """
        if self._loops.run is None:
            raise PlanError("there is no plan yet, it is made with the first batch", "call fit first")
        return self._loops.run.plans.history

    def placement(self) -> dict[str, dict[str, list[tuple[str, tuple[int, ...]]]]]:
        """Return {layer name: {variable name: [(device name, slice shape), ...]}} of the graph that runs, {} before the first batch."""
        return {} if self._loops.run is None else self._loops.run.engine.placement()

    def __repr__(self) -> str:
        plan = "no plan yet" if self.plan is None else repr(self.plan)
        return f"<Distribution of {self._model.name} on {self.cluster!r}: {plan}>"

    def bind(self) -> None:
        """Set the functions on the model."""

        @functools.wraps(self._model.fit)  # with Keras's signature and documentation
        def fit(*arguments: Any, **options: Any) -> Any:
            return self.fit(*arguments, **options)

        self._loops.bind()
        object.__setattr__(self._model, "fit", fit)

    def release(self) -> None:
        """Make the model Keras's again, with the weights that it has now."""
        with contextlib.suppress(HeteroError):  # where the cluster is gone, the weights are those of the last call
            self._loops.write_back()
        for name in ("fit", *FUNCTIONS):
            vars(self._model).pop(name, None)
        self._loops.forget_functions()
        self._close()

    def fit(self, *arguments: Any, **options: Any) -> Any:
        """Call Keras's `fit`, write the weights back at its end, and before epochs end for callbacks."""
        kind = type(self._model)
        if self._released():
            return self._model.fit(*arguments, **options)
        bound = inspect.signature(kind.fit).bind(self._model, *arguments, **options)
        given = bound.arguments.get("callbacks")
        callbacks = [each for each in listed(given) if not isinstance(each, PlanEvents)]  # of an earlier call
        bound.arguments["callbacks"] = self._with_first(given, callbacks)
        self._verbose = bound.arguments.get("verbose", "auto")
        loops = self._loops
        loops.fitting, loops.looked_at, loops.steps_ahead = True, look_between_batches(callbacks), None
        try:
            with untuned_datasets():
                history = kind.fit(*bound.args, **bound.kwargs)
        except BaseException:
            loops.fitting, loops.steps_ahead = False, None
            with contextlib.suppress(HeteroError):  # a worker that died has no weights
                loops.write_back()
            raise
        loops.fitting, loops.steps_ahead = False, None
        loops.write_back()
        return history

    # the side of Keras's loops: see LoopSide

    def is_left_to_keras(self, what: str, force: bool) -> bool:
        """Return whether the model is Keras's again, is not compiled, or tests or predicts in its own way."""
        if self._released() or not self._model.compiled or (what == "predict" and self._loops.run is None):
            return True
        if what != "train" and self._by_keras(what):
            self._loops.settle()
            return True
        if getattr(self._model, f"{what}_function") is None or force:
            self._loops.settle()
            self._note_compilation()
        return False

    def calling(self, what: str, iterator: Iterator[Any]) -> contextlib.AbstractContextManager[None]:
        """Do nothing around a function."""
        return contextlib.nullcontext()

    def begin_step(self, data: Any) -> None:
        """Take note of layers that were frozen or freed meanwhile, as Keras does where it runs eagerly."""
        if self._model.run_eagerly:
            self._note_trained()

    def given(self, data: Any) -> Any:
        """Return a batch with arrays."""
        return arrays_of(data, self._own_step)

    def run_for(self, data: Any) -> Run:
        """Return the run, with a plan; it is made for the first batch."""
        if self._loops.run is None:
            if self._own_step:
                self._step = followed_step(self._model, data)  # which builds the model, too
            elif not self._model.built:
                build_with(self._model, symbolic_batch(data))
            state = random.getstate()  # which Keras draws the seeds of new layers from
            try:
                with contextlib.nullcontext() if self._step is None else self._step.alone():
                    self._begin(data)
            finally:
                random.setstate(state)
        assert self._loops.run is not None
        return self._loops.run

    def checked(self, data: Any, run: Run, predicts: bool = False) -> Batch:
        """Return a batch whose arrays fit each other; of a step of the user's own, those that it reads."""
        form = run.network.form
        if self._step is None:
            x, y, sample_weight = data if not predicts else (data[0], None, None)
            return check_batch(self._looked_up(x), y, sample_weight, form=form)
        leaves = leaves_in(data)
        read = [leaves[at] for at in self._step.read]
        return check_batch(read if len(read) > 1 else read[0], None, None, form=form)

    def counts(self, data: Any) -> Any:
        """Return the batch: metrics take it as it is."""
        return data

    def note_counted(self, finished: Sequence[Finished]) -> None:
        """Do nothing with batches that were counted."""

    def note_end(self) -> None:
        """Count one step more, as Keras does where data end that it did not know the length of, unless it takes several steps a call.

        Its compiled step counts before it finds that there is no batch.
        """
        run = self._loops.run
        if run is not None and not self._model.run_eagerly and self._model.steps_per_execution == 1:
            self._loops.drain()
            run.state = dataclasses.replace(run.state, step=run.state.step + 1)
            if self._loops.weights is not None:
                self._loops.weights.note_step()

    def _by_keras(self, what: str) -> bool:
        """Return whether the model tests or predicts in its own way, which Keras itself does."""
        return self._own_step or not getattr(type(self._model), f"{what}_step").__module__.startswith("keras.")

    def _begin(self, data: Any) -> None:
        if self._step is not None:
            extents: Extents | StepExtents = StepExtents(self._step)
            first = extents.first_shapes(data)
        else:
            read, self._looked_up = divided(self._model)
            extents = Extents(read)
            first = extents.first_shapes(self._looked_up(data[0]))
        plan = self._plan
        if self._plan_is_kept and plan is not None:
            plan = kept_plan(plan, layer_graph(extents.function(first)))
        choosing = Choosing(self._refine_s, self.measure, elastic=self.elastic)
        run = run_of(self._model, plan, self.cluster, extents, first, self._seed, choosing)
        metrics: ModelMetrics | StepMetrics
        if self._step is None:
            metrics = ModelMetrics(self._model, run.network.graph, run.network.form.outputs, run.network.objective)
        else:
            metrics = StepMetrics(self._step, self._model)
        batch = self.checked(data, run)
        samples(run.graph_of(batch.x), batch.x)  # the data are looked at before anything is measured
        differs = rows_text(self._model)
        if differs:
            say(differs, self._verbose)
        run.prepare(batch.size, self._verbose)
        loops = self._loops
        loops.run, loops.metrics, loops.weights = run, metrics, OwnWeights(run)
        self._model.predict_function = None  # Keras's own, until now
        if run.plans.controller is not None:
            run.plans.controller.steps_ahead, run.plans.controller.speaks = (lambda: loops.steps_ahead), self._verbose != 0

    def _with_first(self, given: Any, callbacks: list[Any]) -> Any:
        loops = self._loops
        first = first_callback(loops.at_epoch_begin, loops.at_epoch_end)
        own = [first, *plan_events(callbacks, lambda: self.moves, lambda: 0 if loops.run is None else loops.run.state.step)]
        if not isinstance(given, keras.callbacks.CallbackList):
            return [*own, *callbacks]
        for each in own:
            each.set_model(self._model)
            each.set_params(given.params)
        given.callbacks = [*own, *(each for each in callbacks if type(each).__qualname__ != type(first).__qualname__)]
        return given

    def _note_compilation(self) -> None:
        """Forget the run where the model was compiled again; its plan is kept, so that nothing is measured again."""
        model = self._model
        compiled = (model.optimizer, compile_loss(model), compile_metrics(model))
        if self._loops.run is not None and any(mine is not now for mine, now in zip(self._compiled, compiled, strict=True)):
            self._keep_plan()
        self._compiled = compiled

    def _note_trained(self) -> None:
        """Forget the run where layers were frozen or freed meanwhile, which Keras run eagerly takes note of."""
        trained = {id(variable) for variable in self._model.trainable_variables}
        if self._loops.run is not None and trained != self._trained:
            self._loops.settle()
            self._loops.calls_begin = True
            self._keep_plan()
        self._trained = trained

    def _keep_plan(self) -> None:
        """Forget the run, but its plan."""
        if self._loops.run is not None:
            self._plan, self._plan_is_kept = self._loops.run.plans.best_plan, True
        self._close()

    def _released(self) -> bool:
        """Return whether the cluster is closed; then the model is Keras's again."""
        if self.cluster.closed and Distribution.of(self._model) is self:
            self.release()
        return Distribution.of(self._model) is not self

    def _close(self) -> None:
        loops = self._loops
        if loops.run is not None:
            with contextlib.suppress(HeteroError):
                loops.run.plans.close()
        loops.run = loops.weights = loops.metrics = None
        loops.forget_begun()
