"""Probes: one layer on one device, repeated back to back in a loop inside TensorFlow's runtime.

The layer is built by the same builder and operations that train it. The loop's length is fed, so a
window of any length is one session call and its launch overhead is left out of the measurement.

Batch norm runs in another form where its batch is split: own statistics, an exchange, normalisation. It is built in that form
by a second processor on the same device, which has none of the samples: it computes nothing of their size, and the exchange stays within
the device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.calibration.points import Point
from hetero_mtf.calibration.work import repeated_on
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.graph.variable_keys import slot_key, variable_key
from hetero_mtf.keras_reading.traced_calls.present_tensors import present_tensors
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.variables import Parameter, SliceVariables
from hetero_mtf.planning.layout.records import AXIS, LayerLayout, Stage
from hetero_mtf.program.builder import Builder
from hetero_mtf.program.ops.value import Slabs, Value
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.program.updates import updates

PROBED = ("forward", "step", "update")
_Work = Callable[["_Network"], list[Any]]


@dataclasses.dataclass(frozen=True)
class Probe:
    """A layer on a device, ready to be timed.

    Parameters
    ----------
    point : what it measures.
    repeats : placeholder of the number of repetitions.
    passes : pass -> () tensor that, fetched, has repeated it so often; "step" is forward and backward together.
    setup : operations that fill its variables and inputs, to run once.
    teardown : operations that free them, to run at the end: a server keeps them when the session is closed.
    """

    point: Point
    repeats: tf.Tensor
    passes: dict[str, tf.Tensor]
    setup: list[tf.Operation]
    teardown: list[tf.Operation]


def build_probe(
    point: Point, device: str, dtype: str, rule: UpdateRule, container: str, number: int, wanted: Collection[str] = PROBED
) -> Probe:
    """Return the probe of a point, added to the current TensorFlow graph.

    Parameters
    ----------
    point : layer, units and samples.
    device : TensorFlow device string.
    dtype : dtype of the network.
    container : resource container.
    number : number of the probe, which keeps the variables of probes apart.
    wanted : of the passes in `PROBED`, those that are timed.
    """
    repeats = tf.compat.v1.placeholder(tf.int32, ())
    variables = SliceVariables(container)
    bench = _Bench(point, device, dtype, rule, variables, f"probe{number}")
    setup = bench.setup()
    with present_tensors():
        work = {"forward": _forward, "step": _step, **({"update": _update} if point.updates else {})}
        passes = {name: bench.loop(repeats, each) for name, each in work.items() if name in wanted}
    return Probe(point, repeats, passes, setup, bench.teardown())


@dataclasses.dataclass(frozen=True)
class _Network:
    """A probe's layer inside one repetition, before it is lowered.

    Parameters
    ----------
    builder : what built it.
    inputs : tensors that training needs the gradients of, besides the weights.
    output, dy : the layer's output and the gradient that reaches it.
    trained : the weights that train.
    gradients : (trained,) gradients of these, read from the device.
    slots : (trained, slots) the optimizer's slots.
    """

    builder: Builder
    inputs: list[Any]
    output: Any
    dy: Any
    trained: list[Parameter]
    gradients: list[Any]
    slots: list[list[Parameter]]
    rule: UpdateRule


class _Bench:
    """What the loops of a probe share: the layer as a network, its stage and the tensors kept on the device."""

    def __init__(self, point: Point, device: str, dtype: str, rule: UpdateRule, variables: SliceVariables, scope: str) -> None:
        self.point, self.device, self.rule, self.variables, self.scope = point, device, rule, variables, scope
        self.batch = point.samples
        self.dtype = tf.as_dtype(dtype)
        dtypes = point.input_dtypes or (dtype,) * len(point.input_shapes)
        sources = [
            Layer(f"input{i}", "InputLayer", {"shape": list(shape), "dtype": own}, (), shape)
            for i, (shape, own) in enumerate(zip(point.input_shapes, dtypes))
        ]
        self.graph = LayerGraph((*sources, point.probe), dtype)
        layouts = tuple(_layout(point, self.batch, i, layer) for i, layer in enumerate(self.graph.layers))
        self.processors = max((len(parts) for entry in layouts for parts, _ in entry.parts), default=1)
        self.stage = Stage(tuple(range(len(layouts))), (0,) * self.processors, ((AXIS, self.processors),), layouts)
        self._tensors: dict[str, tuple[tf.Tensor, list[int]]] = {}
        self._dtypes: dict[str, tf.DType] = {}

    def _tensor(self, name: str, shape: Sequence[int], dtype: tf.DType | None = None) -> tf.Tensor:
        """Return the handle of a tensor kept on the device."""
        self._dtypes[name] = dtype or self.dtype
        with tf.device(self.device):
            handle = tf.raw_ops.VarHandleOp(
                dtype=self._dtypes[name], shape=list(shape), shared_name=f"{self.scope}/{name}", container=self.variables.container
            )
        self._tensors[name] = handle, list(shape)
        return handle

    def setup(self) -> list[tf.Operation]:
        """Return the operations that fill inputs, output gradient, weights and slots."""
        index = len(self.graph.layers) - 1
        for number, shape in enumerate(self.point.input_shapes):
            self._tensor(f"x{number}", (self.batch, *shape), tf.as_dtype(self.graph.layers[number].dtype(self.graph.dtype)))
        self._tensor("dy", (self.batch, *self.point.probe.output_shape), tf.as_dtype(self.point.probe.dtype(self.graph.dtype)))
        held = tf.as_dtype(self.point.probe.variable_dtype or self.graph.dtype)
        for variable in self.point.probe.variables:
            key = variable_key(index, variable.name)
            slots = {slot_key(key, slot): self.rule.slot_shape(slot, variable.shape) for slot in self.rule.slots}
            for name, extents in {key: variable.shape, f"{key}/gradient": variable.shape, **slots}.items():
                for processor in range(self.processors):
                    self._tensor(_held_name(name, processor), extents, held)
        with tf.device(self.device):
            return [
                tf.raw_ops.AssignVariableOp(resource=handle, value=_filling(name, shape, self._dtypes[name]))
                for name, (handle, shape) in self._tensors.items()
            ]

    def teardown(self) -> list[tf.Operation]:
        """Return the operations that free what `setup` fills."""
        with tf.device(self.device):
            return [tf.raw_ops.DestroyResourceOp(resource=handle) for handle, _ in self._tensors.values()]

    def read(self, name: str) -> tf.Tensor:
        """Return the value of a tensor kept on the device."""
        handle, shape = self._tensors[name]
        return tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=handle, dtype=self._dtypes[name]), shape)

    def loop(self, repeats: tf.Tensor, work: _Work) -> tf.Tensor:
        """Return a tensor that, fetched, has done `work` so many times, one after another."""

        def body(count: tf.Tensor) -> tf.Tensor:
            with tf.device(self.device), tf.control_dependencies([count]):
                done = self._once(work)
            with tf.device(self.device), tf.control_dependencies(done):
                return count + 1

        return repeated_on(self.device, repeats, body)

    def _once(self, work: _Work) -> list[Any]:
        """Build one repetition and return the operations and tensors that complete it."""
        mesh_graph = mtf.Graph()
        mesh = mtf.Mesh(mesh_graph, "probe")
        variables = _Named(self.variables.container, self.scope)
        builder = Builder(self.graph, self.stage, mesh, variables, [tf.zeros([self.batch])], True, 0, tf.constant(0))
        wanted = work(self._network(builder, mesh))
        impl = UnevenMeshImpl(self.stage.axes, builder.axes, [self.device] * self.processors, builder.sizes)
        lowering = Lowering(mesh_graph, {mesh: impl})
        if work is _update:  # the second processor has copies of all weights, which another device would update
            return [op for item in wanted for op in lowering.writes[item][0]]
        return [op for item in wanted for op in (lowering.operations[item] if isinstance(item, mtf.Operation) else lowering.slices(item))]

    def _network(self, builder: Builder, mesh: Any) -> _Network:
        builder.index = len(self.graph.layers) - 1
        batch = builder.batch_dimension()
        inputs = [self._input(builder, batch, number, shape) for number, shape in enumerate(self.point.input_shapes)]
        if self.point.along is not None:
            values = dict(enumerate(inputs))
            builder.build(values)
            output = values[builder.index].tensor
        else:
            output = builder.build_layer(builder.index, inputs).tensor
        dy = self._import(mesh, "dy", output.shape)
        names = {variable.name for variable in self.point.probe.variables if variable.trainable}
        trained = [parameter for (_, name), parameter in builder.parameters.items() if name in names]
        gradients = [self._import(mesh, f"{p.variable_name}/gradient", p.value.shape) for p in trained]
        slots = [
            [
                Parameter(
                    mesh,
                    builder.variables,
                    slot_key(p.variable_name, slot),
                    self.rule.slot_dimensions(slot, p, tuple(p.value.shape.to_integer_list)),
                    p.value.dtype,
                )
                for slot in self.rule.slots
            ]
            for p in trained
        ]
        sources = [value.tensor for value in inputs if value.tensor.dtype.is_floating] if self.point.input_gradient else []
        return _Network(builder, sources, output, dy, trained, gradients, slots, self.rule)

    def _import(self, mesh: Any, name: str, shape: Any) -> Any:
        return mtf.import_tf_tensor(mesh, tf.reshape(self.read(name), shape.to_integer_list), shape)

    def _input(self, builder: Builder, batch: Any, number: int, shape: Sequence[int]) -> Value:
        *space, channels = shape
        dimensions = [batch, *(mtf.Dimension(f"space{i}", n) for i, n in enumerate(space))]
        along = self.point.along
        if along is not None and shape[along] > 1:
            dimensions[1 + along] = builder.dimension_in(Slabs.of_sizes(along, AXIS, (shape[along], 0)), shape[along])
        return Value(
            mtf.import_tf_tensor(builder.mesh, self.read(f"x{number}"), mtf.Shape([*dimensions, mtf.Dimension(f"layer{number}", channels)]))
        )


class _Named(SliceVariables):
    """Slice variables whose names on the server begin with the probe's scope."""

    def __init__(self, container: str, scope: str) -> None:
        super().__init__(container)
        self._scope = scope

    def _handle(self, name: str, shape: Any, dtype: tf.DType, impl: UnevenMeshImpl, pnum: int) -> tf.Tensor:
        with tf.device(impl.devices[pnum]):
            return tf.raw_ops.VarHandleOp(
                dtype=dtype,
                shape=impl.processor_shape(shape, pnum),
                shared_name=f"{self._scope}/{_held_name(name, pnum)}",
                container=self.container,
            )


def _layout(point: Point, batch: int, index: int, layer: Layer) -> LayerLayout:
    """Return the layout of a layer of a probe: in slabs and split batches a second processor on the device has nothing."""
    along = point.along
    if point.shares_batch:
        return LayerLayout(index, layer.name, "batch", samples=(batch, 0))
    if along is not None and layer.output_shape[along] > 1:
        return LayerLayout(index, layer.name, "space", slabs=(layer.output_shape[along], 0), dimension=along)
    return LayerLayout(index, layer.name, "replicated")


def _held_name(name: str, processor: int) -> str:
    """Return the name of a processor's copy of a variable: processors have their own, as each writes its copy."""
    return f"{name}/{processor}" if processor else name


def _filling(name: str, shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
    """Return values to start with: positive where they stand for a variance, small elsewhere, zero where they are whole numbers."""
    if not dtype.is_floating:
        return tf.zeros(shape, dtype)
    if "variance" in name or "velocity" in name:
        return tf.ones(shape, dtype)
    return tf.random.stateless_normal(shape, [1, 2], stddev=0.05, dtype=dtype)


def _forward(network: _Network) -> list[Any]:
    return [network.output]


def _step(network: _Network) -> list[Any]:
    """Forward and backward: gradients of the inputs and of the weights that train, and batch statistics."""
    wanted = [*network.inputs, *(parameter.value for parameter in network.trained)]
    differentiable = bool(wanted) and network.output.dtype.is_floating
    gradients = mtf.gradients([network.output], wanted, grad_ys=[network.dy]) if differentiable else []
    return [network.output, *(tensor for tensor in gradients if tensor is not None), *network.builder.updates]


def _update(network: _Network) -> list[Any]:
    """The optimizer's update of all weights; the numbers do not matter but must not grow."""
    numbers = {name: 1e-6 if name.endswith("learning_rate") else 0.5 for name in network.rule.scalars(0, 0.0)}
    scalars = {name: tf.constant(number, tf.as_dtype(network.builder.graph.dtype)) for name, number in numbers.items()}
    return list(updates(network.rule, network.trained, network.gradients, network.slots, scalars))
