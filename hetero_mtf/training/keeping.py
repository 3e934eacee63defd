"""A trainer's state in files, and under another plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras

from hetero_mtf.errors import CheckpointError
from hetero_mtf.keras_reading.private_names import Functional, input_structure
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.loss_scale import LossScale
from hetero_mtf.training.checkpoint import State, check_name, check_state, fitting_values, load_state, save_state
from hetero_mtf.training.finite import check_replacement
from hetero_mtf.training.first_use import PlannedOnUse
from hetero_mtf.training.keras_side import KerasSide, with_initial_slots
from hetero_mtf.training.loops.trainer_loops import TrainerLoops


class Kept(PlannedOnUse):
    """What of a trainer is saved, restored, and kept when its plan changes.

    Attributes
    ----------
    notes : what else `save` stores with the state, a JSON object; `restore` replaces it.
    """

    notes: Mapping[str, Any] = MappingProxyType({})
    _loops: TrainerLoops | None = None  # those of `fit`, `evaluate` and `predict`, from their first use on
    _keras: KerasSide
    _optimizer_name: str
    _step: int
    _position: Mapping[str, Any] | None
    _loss_scale: LossScale | None

    @property
    def _batches(self) -> int:
        """Number of the next batch."""
        raise NotImplementedError

    @property
    def position(self) -> Mapping[str, Any] | None:
        """The position in the data that `fit` will go on from after `restore`; None where it begins with the first epoch."""
        return self._position

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
        position = self._position
        if self._loops is not None:
            self._loops.take_over()
            position = self._loops.position or position
        values = self._engine.read()
        check_replacement(path, self._graph, values, self._step, only_finite)
        counters = self._step, self._seed, position, self._loss_scale
        save_state(path, State(self._graph.digest, self._optimizer_name, values, *counters, self.notes, self.plan_history))

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
        model = self._keras.model
        writers: dict[str, Callable[[], Any]] = {
            ".keras": lambda: model.save(name),
            ".weights.h5": lambda: model.save_weights(name),
            ".onnx": lambda: _write_onnx(model, name),
            "": lambda: model.export(name, verbose=False),
        }
        if ending not in writers:
            raise CheckpointError(f"{name} ends in {ending}", "give a name in .keras, .weights.h5 or .onnx, or a folder for a SavedModel")
        held = self._held is not None
        self._keras.write(self._engine.read() if held else self._first_values(), self._step, self._loss_scale)
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
        check_state(path, state, self._graph, self._optimizer_name)
        values = with_initial_slots(self._graph, self._rule, fitting_values(path, state, self._graph, self._rule))
        self._begin_resumed(state.plans, state.step + (0 if state.loss_scale is None else state.loss_scale.skipped))
        spans = (state.plans or self.plan_history).spans
        self._stop_exploring()  # plans that are built draw random numbers by the seed before
        self._replace_engine(self.plan, values, state.seed)
        self._step, self._position, self.notes = state.step, state.position, state.notes
        self._loss_scale = (state.loss_scale or self._loss_scale) if self._loss_scale is not None else None
        self._begin_history(spans, self._batches)

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
        spans = self.plan_history.spans
        self._replace_engine(plan, self._engine.read(), self._seed)
        self._begin_history(spans, self._batches)
        if self._rebalance is not True or (self.controller is not None and not self.controller.fits(plan)):
            self._stop_exploring()
            self.controller = None


def _write_onnx(model: Any, path: str) -> None:
    """Write a Keras model as ONNX, called before on zeros: Keras refuses one that never was."""
    inputs = input_structure(model) if isinstance(model, Functional) else model.inputs
    model(keras.tree.map_structure(lambda tensor: keras.ops.zeros((1, *tensor.shape[1:]), tensor.dtype), inputs))
    model.export(path, format="onnx", verbose=False)
