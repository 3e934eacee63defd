"""Programs: one network built on one mesh for one batch size, to train, to test, or to predict."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.mesh.collectives import Collectives
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.operations import mixing
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.variables import Parameter, SliceVariables
from hetero_mtf.planning.records import Stage
from hetero_mtf.program import losses
from hetero_mtf.program.builder import Builder, variable_key
from hetero_mtf.program.feed import Target
from hetero_mtf.program.objective import Objective
from hetero_mtf.program.optimizers import UpdateRule, updates
from hetero_mtf.program.value import Value


@dataclasses.dataclass(frozen=True)
class Setting:
    """What all programs of one trainer share.

    Parameters
    ----------
    graph : the network.
    stage : layouts and mesh axes.
    devices : (processors,) TensorFlow device strings.
    variables : the slices of the weights and slots.
    objective : the loss of each output.
    rule : the optimizer's update rule.
    seed : seed of dropout.
    mixing : (processors,) weights of the copies of the weights in butterfly mixing; empty where gradients are all-reduced.
    collectives : how all-reduces are made.
    """

    graph: LayerGraph
    stage: Stage
    devices: tuple[str, ...]
    variables: SliceVariables
    objective: Objective
    rule: UpdateRule
    seed: int
    mixing: tuple[int, ...] = ()
    collectives: Collectives = Collectives()


@dataclasses.dataclass(frozen=True)
class End:
    """What the loss of one output is fed with.

    Parameters
    ----------
    y, weight : placeholders of its targets (batch, ...) and sample weights (batch,).
    scale : placeholder of the () factor on the weighted sum of losses.
    """

    y: tf.Tensor
    weight: tf.Tensor
    scale: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Program:
    """Placeholders to feed and tensors to fetch.

    Parameters
    ----------
    x : (inputs,) placeholders of the batch.
    ends : (outputs,) placeholders of targets, sample weights and scale; None for an output without a loss, and to predict.
    step : placeholder of the step's number.
    scalars : placeholders of the optimizer's scalars.
    loss : () the loss, regularization included.
    parts : the () loss of each output that has one.
    outputs : (outputs,) predictions (batch, ...).
    train : operation that updates all variables; None unless it trains.
    nodes : number of nodes that the program added to the TensorFlow graph.
    """

    x: tuple[tf.Tensor, ...]
    ends: tuple[End | None, ...]
    step: tf.Tensor
    scalars: Mapping[str, tf.Tensor]
    loss: tf.Tensor | None
    parts: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]
    train: tf.Operation | None
    nodes: int


def build_program(setting: Setting, mode: str, batch: int, targets: Sequence[Target | None], phase: int = 0) -> Program:
    """Return the program of a mode, added to the current TensorFlow graph.

    Parameters
    ----------
    mode : "train", "test" or "predict".
    batch : samples in the batch.
    targets : (outputs,) form of each output's targets, None for one without; empty to predict.
    phase : which partners mix in this program, from 0; of butterfly mixing only.
    """
    before = len(tf.compat.v1.get_default_graph().get_operations())
    dtype = tf.as_dtype(setting.graph.dtype)
    with tf.name_scope(f"{mode}_{batch}"):
        layers = setting.graph.layers
        x = tuple(_placeholder(dtype, (batch, *layers[index].output_shape)) for index in setting.graph.inputs)
        step = _placeholder(tf.int32, ())
        mesh_graph = mtf.Graph()
        mesh = mtf.Mesh(mesh_graph, "mesh")
        builder = Builder(setting.graph, setting.stage, mesh, setting.variables, x, mode == "train", setting.seed, step, setting.mixing)
        values = builder.build()
        ends = _Ends(setting, builder, values, batch, targets) if mode != "predict" else None
        trained = ends.train(phase) if ends is not None and mode == "train" else []
        impl = UnevenMeshImpl(setting.stage.axes, builder.axes, setting.devices, builder.sizes, setting.collectives)
        lowering = Lowering(mesh_graph, {mesh: impl})
        shapes = [(batch, *layers[index].output_shape) for index in setting.graph.outputs]
        outputs = tuple(_first_slice(lowering, value.tensor, shape) for value, shape in zip(values, shapes))
        loss = _first_slice(lowering, ends.loss, ()) if ends is not None else None
        parts = tuple(_first_slice(lowering, part, ()) for part in ends.parts) if ends is not None else ()
        train = tf.group(*(write for update in trained for write in lowering.operations[update])) if mode == "train" else None
    nodes = len(tf.compat.v1.get_default_graph().get_operations()) - before
    if ends is None:
        return Program(x, (), step, {}, None, (), outputs, None, nodes)
    return Program(x, tuple(ends.ends), step, ends.scalars, loss, parts, outputs, train, nodes)


def _placeholder(dtype: tf.DType, shape: Sequence[int]) -> tf.Tensor:
    return tf.compat.v1.placeholder(dtype, shape)


def _first_slice(lowering: Lowering, tensor: Any, shape: Sequence[int]) -> tf.Tensor:
    """Return a whole tensor from the first processor."""
    value = lowering.export_to_tf_tensor(tensor)
    with tf.device(value.device):
        return tf.reshape(value, shape)


class _Ends:
    """What follows the network's outputs: losses, gradients, updates."""

    def __init__(self, setting: Setting, builder: Builder, outputs: Sequence[Value], batch: int, targets: Sequence[Target | None]) -> None:
        self.setting, self.builder = setting, builder
        self.ends: list[End | None] = []
        self.parts: list[Any] = []
        self.scalars: dict[str, tf.Tensor] = {}
        terms = []
        for part, output, target in zip(setting.objective, outputs, targets):
            end = None if part is None or target is None else self._end(batch, target)
            self.ends.append(end)
            if part is not None and end is not None:
                self.parts.append(losses.weighted_loss(part.loss, output, end.y, end.weight, end.scale))
                terms.append(self.parts[-1] if part.weight == 1.0 else mtf.multiply(self.parts[-1], part.weight))
        self._data_loss = functools.reduce(mtf.add, terms)
        self._penalties = self._penalty()
        self.loss = self._data_loss if self._penalties is None else mtf.add(self._penalties, self._data_loss)

    def _end(self, batch: int, target: Target) -> End:
        shape, dtype = target
        y = _placeholder(tf.as_dtype(dtype), (batch, *shape))
        return End(y, _placeholder(self.builder.dtype, (batch,)), _placeholder(self.builder.dtype, ()))

    def _penalty(self) -> Any | None:
        """Return the sum of the L2 penalties of all trainable variables, None if there is none."""
        total = None
        for (index, name), parameter in self.builder.parameters.items():
            factor = self.setting.graph.layers[index].attributes.get(f"{name}_l2", 0.0)
            if factor and self._trainable(index, name):
                term = _square_penalty(parameter.value, factor)
                total = term if total is None else mtf.add(total, term)
        return total

    def _trainable(self, index: int, name: str) -> bool:
        return any(v.trainable for v in self.setting.graph.layers[index].variables if v.name == name)

    def train(self, phase: int) -> list[Any]:
        """Return the update operations of one step.

        Parameters
        ----------
        phase : as in `build_program`.
        """
        trained = {key: p for key, p in self.builder.parameters.items() if self._trainable(*key)}
        rule = self.setting.rule
        self.scalars = {name: _placeholder(self.builder.dtype, ()) for name in rule.scalars(0, 0.0)}
        slots = [[self._slot(key, p, slot) for slot in rule.slots] for key, p in trained.items()]
        parameters, samples = list(trained.values()), self.setting.mixing
        if not trained:
            return list(self.builder.updates)
        gradients = self._own_gradients(parameters) if samples else mtf.gradients([self.loss], [p.value for p in parameters])
        # As in Keras, a variable that no loss depends on stays as it is, weight decay or not.
        reached = [at for at, gradient in enumerate(gradients) if gradient is not None]
        parameters, gradients = [parameters[at] for at in reached], [gradients[at] for at in reached]
        found = updates(rule, parameters, gradients, [slots[at] for at in reached], self.scalars)
        mixed = [mixing.Mix(p, update, samples, phase) for p, update in zip(parameters, found)] if samples else found
        return [*self.builder.updates, *mixed]

    def _own_gradients(self, parameters: Sequence[Parameter]) -> list[Any]:
        """Return the gradients of each processor's own mean loss, penalties included; None where nothing depends on a variable."""
        values = [p.value for p in parameters]
        own = self.builder.batch_sizes
        factors = [sum(own) / n if n else 0.0 for n in own]
        parts = [None if g is None else mixing.OwnPart(g, factors).outputs[0] for g in mtf.gradients([self._data_loss], values)]
        penalties = mtf.gradients([self._penalties], values) if self._penalties is not None else [None] * len(values)
        both = [[term for term in terms if term is not None] for terms in zip(parts, penalties)]
        return [functools.reduce(mtf.add, terms) if terms else None for terms in both]

    def _slot(self, key: tuple[int, str], parameter: Parameter, slot: str) -> Parameter:
        name = slot_key(variable_key(*key), slot)
        return Parameter(parameter.mesh, self.setting.variables, name, parameter.value.shape, parameter.value.dtype)


def slot_key(variable: str, slot: str) -> str:
    """Return the name under which an optimizer's slot of a variable is held."""
    return f"{variable}/{slot}"


def _square_penalty(value: Any, factor: float) -> Any:
    """Return the scalar factor * sum(value^2) over all slices, the factor as Keras casts it to the dtype (through float32)."""
    return compute("penalty", lambda piece: tf.cast(factor, piece.dtype) * tf.reduce_sum(tf.square(piece)), [value], mtf.Shape([]))
