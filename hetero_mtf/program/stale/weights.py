"""The weights that the passes of a stage read, where they are not simply those that are present."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from hetero_mtf.graph.variable_keys import VariableKey, variable_key
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.history import History, HistoryWrite
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.running_sum import RunningSum
from hetero_mtf.mesh.operations.select import is_copied, select
from hetero_mtf.mesh.variables import Parameter
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.slots import slot_parameter
from hetero_mtf.program.stale.stage_inputs import StageInputs

MakeHistory = Callable[[str, Tensor, int], History]


class ForwardWeights:
    """The weights of a stage's forward pass: those present or of the version before, predicted for the time of the update if asked.

    Parameters
    ----------
    context : the optimizer's rule, and the options.
    inputs : the stage's placeholders.
    history : (name, tensor like its own, length) -> history on the stage's mesh.
    steps_kept : for how many steps they are kept for the backward pass; 0 for none.

    Attributes
    ----------
    read : key of a trainable variable -> what the pass reads.
    slots : key and name of a slot -> its snapshot, shared with the update.
    operations : all operations that read weights, as opposed to those of layers.
    """

    def __init__(self, context: ProgramContext, inputs: StageInputs, history: MakeHistory, steps_kept: int) -> None:
        self._context, self._inputs, self._history, self._steps_kept = context, inputs, history, steps_kept
        self.read: dict[VariableKey, Tensor] = {}
        self.slots: dict[tuple[VariableKey, str], Parameter] = {}
        self.operations: set[mtf.Operation] = set()
        self._histories: dict[VariableKey, History] = {}
        self._previous: list[tuple[History, Tensor]] = []

    def __call__(self, key: VariableKey, parameter: Parameter) -> Tensor:
        """Return what the forward pass reads of a variable."""
        if not self._context.is_trainable(*key):
            return parameter.value
        if key not in self.read:
            start = len(parameter.graph.operations)
            self.read[key] = self._versioned(key, parameter)
            if self._steps_kept:
                self._histories[key] = self._history(f"kept/{variable_key(*key)}", parameter.value, self._steps_kept)
            self.operations.update(parameter.graph.operations[start:])
        return self.read[key]

    def of_backward(self, key: VariableKey, parameter: Parameter) -> Tensor:
        """Return what the forward pass of the batch read whose backward pass this step takes."""
        history = self._histories.get(key)
        if history is None:
            return parameter.value
        if not history.reads:
            self.operations.add(history.read(self._steps_kept).operation)
        return history.reads[0].outputs[0]

    def writes(self) -> list[HistoryWrite]:
        """Return the operations that keep weights for later steps."""
        read_writes = [history.write(self.read[key]) for key, history in self._histories.items()]
        return [*read_writes, *(history.write(value) for history, value in self._previous)]

    def _versioned(self, key: VariableKey, parameter: Parameter) -> Tensor:
        inputs = self._inputs
        present = self._predicted(key, parameter, inputs.distance, inputs.forward_scalars)
        if inputs.previous is None:
            return present
        history = self._history(f"previous/{variable_key(*key)}", parameter.value, 1)
        before = history.read(1)
        one = None if inputs.distance is None else tf.ones_like(inputs.distance)
        used = _chosen("version", inputs.previous, before, present)
        self._previous.append((history, _chosen("held", inputs.update, self._predicted(key, parameter, one, inputs.scalars), before)))
        return used

    def _predicted(self, key: VariableKey, parameter: Parameter, distance: tf.Tensor | None, scalars: Mapping[str, tf.Tensor]) -> Tensor:
        """Return a variable moved on by the optimizer's momentum, for a number of updates."""
        if distance is None:
            return parameter.value
        rule = self._context.rule
        slots = [self._slot(key, parameter, name) for name in rule.slots]

        def move(_: Processor, weight: tf.Tensor, *slot_values: tf.Tensor) -> tf.Tensor:
            return weight + distance * rule.expected_change(slot_values, scalars)

        return _local("predict", move, [parameter.value, *(slot.value for slot in slots)])

    def _slot(self, key: VariableKey, parameter: Parameter, name: str) -> Parameter:
        return slot_parameter(self._context, self.slots, key, parameter, name)


class Accumulation:
    """Gradients of a stage added up over the batches, or microbatches, of an update.

    Parameters
    ----------
    context : where the sums are kept.
    inputs : the stage's placeholders.

    Attributes
    ----------
    updates : operations that keep the sums.
    """

    def __init__(self, context: ProgramContext, inputs: StageInputs) -> None:
        self._context, self._inputs = context, inputs
        self.updates: list[RunningSum] = []

    def __call__(self, gradients: Mapping[VariableKey, Tensor]) -> dict[VariableKey, Tensor]:
        """Return the gradients of the update.

        Parameters
        ----------
        gradients : those of this step.
        """
        return {key: self._added(key, gradient) for key, gradient in gradients.items()}

    def _added(self, key: VariableKey, gradient: Tensor) -> Tensor:
        active, share = self._inputs.active, self._inputs.share
        assert active is not None
        running = RunningSum(gradient, self._context.sums, f"sum/{variable_key(*key)}", active.backward, active.begins)
        self.updates.append(running)
        if share is None:
            return running.outputs[0]

        def mean(_: Processor, total: tf.Tensor) -> tf.Tensor:
            return total * share if is_copied(total) else tf.cond(active.update, lambda: total * share, lambda: total)

        return _local("mean", mean, [running.outputs[0]])


def _chosen(name: str, condition: tf.Tensor, one: Tensor, other: Tensor) -> Tensor:
    return _local(name, lambda _, a, b: select(condition, a, b), [one, other])


def _local(name: str, function: Callable[..., tf.Tensor], inputs: list[Tensor]) -> Tensor:
    return Local(name, function, inputs, [(inputs[0].shape, inputs[0].dtype)]).outputs[0]
