"""BatchTrainer: trains, tests and predicts batch by batch, and keeps its state in files."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras

from hetero_mtf.data.checked_batch import Batch, add_class_weight, check_batch, check_class_weight
from hetero_mtf.errors import CheckpointError
from hetero_mtf.keras_reading.private_names import Functional, input_structure
from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.loop import Refinement
from hetero_mtf.program.batch_arrays import BatchArrays, Result
from hetero_mtf.program.loss_scale import LossScale
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training.checkpoint import State, check_name, check_state, fitting_values, load_state, save_state
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.replay import Replay
from hetero_mtf.training.copying import clone
from hetero_mtf.training.finite import check_replacement
from hetero_mtf.training.keras_side import with_initial_slots, write_weights
from hetero_mtf.training.run.run import Run
from hetero_mtf.training.trained import Trained, trained


class BatchTrainer:
    """Trains a network batch by batch.

    Parameters
    ----------
    run : the training that it takes steps of.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def step(self) -> int:
        """Number of steps taken; those that updated nothing, as a gradient overflowed in float16, do not count."""
        return self._run.state.step

    @property
    def loss_scale(self) -> LossScale | None:
        """The loss scale of the next step, and how many steps updated nothing; None where losses are not scaled."""
        return self._run.state.loss_scale

    @property
    def position(self) -> Mapping[str, Any] | None:
        """The position in the data that training will go on from after `restore`; None where it begins with the first epoch."""
        return self._run.state.position

    @property
    def notes(self) -> Mapping[str, Any]:
        """What else `save` stores with the state, a JSON object; `restore` replaces it."""
        return self._run.state.notes

    @notes.setter
    def notes(self, notes: Mapping[str, Any]) -> None:
        self._run.state = dataclasses.replace(self._run.state, notes=notes)

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._run.plans.plan

    @property
    def best_plan(self) -> Plan:
        """The plan with the shortest measured step so far; the one in force where no others were tried."""
        return self._run.plans.best_plan

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves to other plans while training, as these were tried or devices had changed."""
        return self._run.plans.moves

    @property
    def plan_history(self) -> PlanHistory:
        """The plans so far, each with the step that it began at: what `measure` takes to repeat them.

        Raises
        ------
        PlanError
            If there is no plan yet.
        """
        return self._run.plans.history

    @property
    def refinement(self) -> Refinement | None:
        """By which the plan was chosen; None where a plan was given, and where training steps choose it."""
        return self._run.plans.refinement

    @property
    def controller(self) -> Controller | Replay | None:
        """What says under which plan each step is taken; None where that is always the same one."""
        return self._run.plans.controller

    @property
    def nodes(self) -> int:
        """Number of nodes in the TensorFlow graph so far."""
        return self._run.engine.nodes

    @property
    def fed_wait_s(self) -> float:
        """Seconds for which steps under the present plan have waited until their batch was where devices read it."""
        return self._run.engine.fed_wait_s

    def prepare(self, batch_size: int, verbose: str | int = "auto") -> Plan:
        """Return the plan in force; where there is none yet, choose one now rather than with the first batch.

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
        return self._run.prepare(batch_size, verbose)

    def build(self, x: Any, y: Any) -> None:
        """Build the graph for batches of this form now, not with the first of them.

        Parameters
        ----------
        x, y : (batch, ...) samples and targets, several packed as the model's inputs and outputs.
        """
        self._run.build(self._checked(x, y))

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Take one step and return this batch's mean loss before it, all outputs' and regularization included.

        Without a flush it is that of the last batch that reached the last stage; NaN for none. A loss that is NaN or infinite is
        returned like any other, as in Keras; `fit` raises.

        Parameters
        ----------
        x, y : (batch, ...) samples and targets; any batch size. Several are packed as the model's inputs and outputs: lists, or
            dicts by their names.
        sample_weight : (batch,) weights, or (batch, ...) with one for each value of the loss, or None; for several outputs (batch,) weights
            for all, or packed as these.
        class_weight : class number -> weight, of samples or their pixels, of one output.
        return_dict : whether to return a dict, of the losses and this batch's metrics by name; else the loss alone.

        Raises
        ------
        DataError
            If they do not fit the network, its loss or each other.
        WorkerError
            If a worker dies.
        """
        batch, keras_side = self._checked(x, y, sample_weight), self._run.keras_side
        if class_weight is not None:
            batch = add_class_weight(batch, check_class_weight(class_weight), form=self._run.network.form)
        if return_dict:
            keras_side.reset_metrics()
        finished = self._run.advance(self._run.feed(batch), return_dict and keras_side.has_metrics)
        shown = [self._shown(*each) for each in finished]
        logs = {**shown[-1].losses, **shown[-1].metrics} if shown else {"loss": math.nan}
        return logs if return_dict else logs["loss"]

    def drain(self) -> list[float]:
        """Train until no batch is in flight, as batches are without a flush; return the losses. What reads weights does so first."""
        return [self._shown(*each).losses["loss"] for each in self._run.engine.drain(False)]

    def wait(self) -> None:
        """Return when all steps that were begun are done; without a flush, one may run on after `train_on_batch`."""
        self._run.engine.wait()

    def trace_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> StepTrace:
        """Take one step and return the compute, communication and idle seconds of each device.

        A traced step takes a little longer. The first step builds the graph; trace a later one.

        Parameters
        ----------
        x, y, sample_weight : as for `train_on_batch`.
        """
        return self._run.advance_traced(self._run.feed(self._checked(x, y, sample_weight)))

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """Return a batch's mean loss, regularization included, changing nothing.

        Parameters
        ----------
        x, y, sample_weight, return_dict : as for `train_on_batch`.
        """
        keras_side = self._run.keras_side
        keras_side.reset_metrics()
        feed = self._run.feed(self._checked(x, y, sample_weight))
        tested = self._shown(feed, self._run.test(feed, keras_side.has_metrics))
        return {**tested.losses, **tested.metrics} if return_dict else tested.losses["loss"]

    def predict_on_batch(self, x: Any) -> Any:
        """Return the network's outputs for a batch, several packed as the model's outputs.

        Parameters
        ----------
        x : (batch, ...) samples, several packed as the model's inputs.
        """
        return self._run.network.form.outputs.pack(self._run.predict(self._checked(x, None)))

    def save(self, path: str | os.PathLike[str], only_finite: bool = False) -> None:
        """Write all state to a file that loads under any plan for this network; in a callback of `fit`, with what callbacks changed.

        The optimizer's settings are not part of it: give them again to restore it, also a learning rate that a callback had set.

        Parameters
        ----------
        path : path of the file to write or replace.
        only_finite : whether to refuse weights and slots that are NaN or infinite also where no finite state would be replaced.

        Raises
        ------
        CheckpointError
            If it cannot be written, or has the name of a Keras file, which it is not: `export` writes one. An older file stays as
            it was.
        NotFiniteError
            If weights or slots are NaN or infinite and the file holds a state that is finite, which stays.
        """
        check_name(path)
        run = self._run
        if run.watcher is not None:
            run.watcher.take_over()
        values = run.values()
        check_replacement(path, run.network.graph, values, run.state.step, only_finite)
        save_state(path, run.saved(values))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the trained network in a form of Keras, by the ending of the path; what is read from it predicts the same.

        Parameters
        ----------
        path : `*.keras` for the whole model, compiled, with the state of its optimizer; `*.weights.h5` for its weights; `*.onnx` for ONNX,
            for which Keras needs the packages tf2onnx and onnx; a name without an ending for the folder of a SavedModel.

        Raises
        ------
        CheckpointError
            If it has another ending, or Keras cannot write it.
        """
        name = os.fspath(path)
        ending = next((end for end in (".keras", ".weights.h5", ".onnx") if name.endswith(end)), os.path.splitext(name)[1])
        run = self._run
        model = run.keras_side.model
        writers: dict[str, Callable[[], Any]] = {
            ".keras": lambda: model.save(name),
            ".weights.h5": lambda: model.save_weights(name),
            ".onnx": lambda: _write_onnx(model, name),
            "": lambda: model.export(name, verbose=False),
        }
        if ending not in writers:
            raise CheckpointError(f"{name} ends in {ending}", "give a name in .keras, .weights.h5 or .onnx, or a folder for a SavedModel")
        run.keras_side.write(run.values(), run.state.step, run.state.loss_scale)
        try:
            writers[ending]()
        except ImportError as fault:
            raise CheckpointError(
                f"{name} cannot be written without a package ({' '.join(str(fault).split())[:200]})", "install it: pip install tf2onnx onnx"
            ) from fault
        except (OSError, ValueError, TypeError, RuntimeError, NotImplementedError) as fault:
            raise CheckpointError(f"{name} cannot be written ({' '.join(str(fault).split())[:200]})", "check the path") from fault

    def restore(self, path: str | os.PathLike[str], state: State | None = None) -> None:
        """Take over the state in a file written by `save`, under whatever plan is in force here.

        Where there is none yet and `measure` is "steps", training goes on under the plan that was in force when the state was saved, and
        tries others. `plan_history` has the plans of the steps before from the file.

        Slots that this trainer's optimizer does not keep, such as the momentum of SGD where it has none here, are left out.

        Parameters
        ----------
        path : path of the file.
        state : the state in it, where `load_state` has read it already; None reads it.

        Raises
        ------
        CheckpointError
            If it cannot be read, is of another network or optimizer, or lacks slots that the optimizer needs to go on; nothing
            is changed then.
        """
        state = state or load_state(path)
        network = self._run.network
        check_state(path, state, network.graph, network.optimizer_name)
        values = with_initial_slots(network.graph, network.rule, fitting_values(path, state, network.graph, network.rule))
        self._run.resume(state, values)

    def replan(self, plan: Plan) -> None:
        """Go on under another plan, with all weights, slots and counters as they are; it is not rebalanced unless that was asked for.

        Parameters
        ----------
        plan : a plan for this network and cluster.

        Raises
        ------
        PlanError
            If the plan is for another network or cluster, or cannot be honoured; the old plan stays in force then.
        """
        self._run.plans.replan(plan, self._run.state.batches)

    def placement(self) -> dict[str, dict[str, list[tuple[str, tuple[int, ...]]]]]:
        """Return {layer name: {variable name: [(device name, slice shape), ...]}}, read off the built graph."""
        return self._run.engine.placement()

    def to_keras(self) -> Any:
        """Return a Keras model equal in structure, with the trained weights."""
        network = self._run.network
        model = clone(network.model)
        if self._run.plans.has_plan:
            write_weights(model, network.graph, self._run.values())
        return model

    def close(self) -> None:
        """Free the trainer's variables on the cluster; closing twice is harmless."""
        self._run.plans.close()

    def _checked(self, x: Any, y: Any, sample_weight: Any = None) -> Batch:
        return check_batch(x, y, sample_weight, form=self._run.network.form)

    def _shown(self, feed: BatchArrays, step_result: Result) -> Trained:
        return trained(self._run.network.objective, self._run.keras_side, feed, step_result)


def _write_onnx(model: Any, path: str) -> None:
    """Write a Keras model as ONNX, called before on zeros: Keras refuses one that never was."""
    inputs = input_structure(model) if isinstance(model, Functional) else model.inputs
    model(keras.tree.map_structure(lambda tensor: keras.ops.zeros((1, *tensor.shape[1:]), tensor.dtype), inputs))
    model.export(path, format="onnx", verbose=False)
