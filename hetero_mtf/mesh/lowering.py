"""Lowering of a Mesh-TensorFlow graph onto unequal slices.

Every operation is dispatched by its class. The operations listed in `AS_THEY_ARE` are stock
Mesh-TensorFlow and correct on unequal slices; other stock operations have their lowering here or in
`stock/`, this project's own beside their class. Every other operation raises a LayoutError
with its name, so a missing lowering cannot give wrong values.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl, is_empty
from hetero_mtf.mesh.sources import Sources
from hetero_mtf.mesh.task_order import TaskOrder

# Stock operations whose lowering only calls slicewise functions, the mesh's own collectives, or
# methods that `UnevenMeshImpl` replaces.
AS_THEY_ARE = (
    "BinaryOpWithBroadcasting",
    "AddOperation",
    "MinMaxOperation",
    "BroadcastOperation",
    "CustomGradientOperation",
    "EinsumOperation",
    "ImportOperation",
    "ImportLaidOutTensorOperation",
    "PrintOperation",
    "RandomOperation",
    "RangeOperation",
    "ScalarAddOperation",
    "ScalarMultiplyOperation",
    "ScalarSummaryOperation",
    "StopGradient",
)


class Lowering(mtf.Lowering):
    """A Mesh-TensorFlow graph as TensorFlow operations, one set a processor.

    Parameters
    ----------
    graph : mtf.Graph.
    mesh_to_impl : mesh -> `UnevenMeshImpl`.
    wanted : mtf.Tensor and mtf.Operation to compute; operations that none of them needs are left out. None for all.
    task_order : the order in which devices work on tasks; None for any.
    sources : for which layer and pass operations were built, which is then part of their names; None where it is not known.
    begun : TensorFlow device -> tensor that exists once the call before is done there; empty where calls do not overlap.

    Raises
    ------
    LayoutError
        If an operation is not supported in this layout, or a slice has not the shape that its processor should hold.

    Notes
    -----
    In all methods `operation` is an `mtf.Operation` and `tensor` an `mtf.Tensor` of the graph, `laid_out_tensor` its slices on the
    processors or a sum of them whose all-reduce is pending, and `pnum` the number of a processor, from 0, last mesh axis fastest.
    """

    def __init__(
        self,
        graph: mtf.Graph,
        mesh_to_impl: Mapping[mtf.Mesh, UnevenMeshImpl],
        wanted: Sequence[Tensor | mtf.Operation] | None = None,
        task_order: TaskOrder | None = None,
        sources: Sources | None = None,
        begun: Mapping[str, tf.Tensor] | None = None,
    ) -> None:
        self.graph = graph
        self.mesh_to_impl = dict(mesh_to_impl)
        self.tensors: dict[Tensor, Any] = {}
        self.operations: dict[mtf.Operation, Any] = {}
        self.variables: dict[mtf.Variable, Any] = {}
        self._counters: list[tuple[str, int]] = []
        self.writes: dict[mtf.Operation, list[tf.Operation]] = {}  # Update -> (processors,) write operations
        self.last_delayed: dict[mtf.Mesh, list[tf.Operation]] = {}  # mesh -> the last operations that were delayed by `after`
        self._task_order = task_order
        self._begun = begun or {}
        lowered = graph.operations if wanted is None else _needed(wanted)
        self._read = _read(lowered, wanted or ())
        self._always = _read(_needed(task_order.targets), task_order.targets) if task_order else set()
        for index, operation in enumerate(graph.operations):
            if task_order is not None:
                task_order.reach(index, mesh_to_impl)
            if wanted is None or operation in lowered:
                task = task_order.name if task_order is not None and getattr(operation, "keeps_task_order", False) else ""
                scope = sources.scope(operation) if sources is not None else ""
                with tf.name_scope(task + scope + operation.name):
                    lower_operation(operation, self)

    @functools.cached_property
    def initializer(self) -> tf.Operation:
        """The operation that sets every variable, master and slices, to its initial value."""
        masters = [master for variable in self.variables.values() for master in variable.masters()]
        with tf.control_dependencies([master.initializer for master in masters]):
            return tf.group(*(variable.copy_from(variable.variable.get_master()) for variable in self.variables.values()))

    def copy_masters_to_slices(self) -> tf.Operation:
        """Return the operation that sets all slices from the masters, as after restoring a checkpoint."""
        return tf.group(*(variable.copy_master_to_slices for variable in self.variables.values()))

    def set_tensor_lowering(self, tensor: Tensor, laid_out_tensor: Any) -> None:
        """Record the slices of a tensor, an empty one as a constant.

        Nothing is computed from empty tensors: TensorFlow divides by zero, and ends the process, where an empty tensor that is no
        constant is reshaped, transposed and summed. `UnevenMeshImpl.slicewise` does the same within an operation.
        """
        impl = self.mesh_impl(tensor)
        lazy = isinstance(laid_out_tensor, mtf.LazyAllreduceSum)
        slices = _own_slices(laid_out_tensor)
        if any(_is_computed_and_empty(piece) for piece in slices):
            known = impl.on_processors(
                lambda p: tf.zeros(slices[p].shape, slices[p].dtype) if _is_computed_and_empty(slices[p]) else slices[p]
            )
            laid_out_tensor = mtf.LazyAllreduceSum(impl, known, laid_out_tensor.mesh_axes) if lazy else known
        super().set_tensor_lowering(tensor, laid_out_tensor)

    def set_partial_sums(self, tensor: Tensor, laid_out_tensor: Any, mesh_axes: Sequence[int]) -> None:
        """Record slices that are partial sums, their all-reduce pending; without mesh axes they are the tensor's slices.

        Parameters
        ----------
        mesh_axes : the mesh axes to sum over.
        """
        pending = mtf.LazyAllreduceSum(self.mesh_impl(tensor), laid_out_tensor, mesh_axes) if mesh_axes else laid_out_tensor
        self.set_tensor_lowering(tensor, pending)

    def verify_slice_shapes(self, tensor: Tensor, laid_out_tensor: Any) -> None:
        """Check every processor's slice, not only the first one's.

        Raises
        ------
        LayoutError
            If one has not the shape its processor should hold.
        """
        impl = self.mesh_impl(tensor)
        for pnum, piece in enumerate(_own_slices(laid_out_tensor)):
            expected = impl.processor_shape(tensor.shape, pnum)
            if not piece.shape.is_compatible_with(expected):
                fault = f"{tensor.operation.name} made a slice of {piece.shape.as_list()} on processor {pnum}"
                raise LayoutError(f"{fault}, expected {expected}", "correct its output shape")

    def is_read(self, operation: mtf.Operation) -> bool:
        """Return whether another operation reads an output of `operation`."""
        return any(tensor in self._read for tensor in operation.outputs)

    def task_gate(self, operation: mtf.Operation, pnum: int) -> Any:
        """Return the context in which processor `pnum` computes its part of an operation, after the task before on its device."""
        return self._task_order.gate(operation.mesh, pnum) if self._task_order else contextlib.nullcontext()

    def after_call(self, operation: mtf.Operation, pnum: int) -> Any:
        """Return the context in which processor `pnum` reads what steps keep, after the call before is done on its device."""
        token = self._begun.get(self.mesh_impl(operation).devices[pnum])
        return tf.control_dependencies([token]) if token is not None else contextlib.nullcontext()

    def record_computed(self, operation: mtf.Operation, pnum: int, slices: Sequence[tf.Tensor]) -> None:
        """Make the next task of a processor's device wait for the slices of an operation that every step needs.

        Parameters
        ----------
        slices : (outputs,) slices of the operation's outputs.
        """
        if self._task_order:
            self._task_order.add(
                operation.mesh, pnum, [piece for tensor, piece in zip(operation.outputs, slices) if tensor in self._always]
            )

    def slices(self, tensor: Tensor) -> list[tf.Tensor]:
        """Return every processor's slice of a tensor, with all pending all-reduces done."""
        slices: list[tf.Tensor] = self.tensors[tensor].to_laid_out_tensor().tensor_list
        return slices


def _needed(targets: Sequence[Tensor | mtf.Operation]) -> set[mtf.Operation]:
    """Return the operations that tensors and operations depend on, their own included."""
    needed: set[mtf.Operation] = set()
    waiting = [item if isinstance(item, mtf.Operation) else item.operation for item in targets]
    while waiting:
        operation = waiting.pop()
        if operation not in needed:
            needed.add(operation)
            other = getattr(operation, "needs", None)
            waiting += [*(tensor.operation for tensor in operation.inputs), *([other] if other is not None else [])]
    return needed


def _read(operations: Iterable[mtf.Operation], targets: Sequence[Tensor | mtf.Operation]) -> set[Tensor]:
    """Return the tensors that are read by operations or wanted themselves."""
    return {tensor for operation in operations for tensor in operation.inputs} | {t for t in targets if isinstance(t, mtf.Tensor)}


def _own_slices(lowered: Any) -> list[tf.Tensor]:
    """Return the slices of a lowered tensor; of a pending sum each processor's partial sums."""
    laid_out = lowered.laid_out_input if isinstance(lowered, mtf.LazyAllreduceSum) else lowered
    slices: list[tf.Tensor] = laid_out.to_laid_out_tensor().tensor_list
    return slices


def _is_computed_and_empty(piece: tf.Tensor) -> bool:
    return is_empty(piece) and piece.op.type != "Const"


def lower(graph: mtf.Graph, mesh_to_impl: Mapping[mtf.Mesh, UnevenMeshImpl]) -> Lowering:
    """Return a Mesh-TensorFlow graph lowered onto unequal slices, in the present `tf.Graph`.

    Parameters
    ----------
    graph : mtf.Graph.
    mesh_to_impl : mesh -> `UnevenMeshImpl`, for every mesh of the graph.

    Returns
    -------
    Lowering
        `export_to_tf_tensor(tensor)` and `lowered_operation(operation)` return what a
        `tf.compat.v1.Session` runs, `initializer` what it runs first.

    Raises
    ------
    LayoutError
        If there is no `tf.Graph` to lower into, a mesh has no `UnevenMeshImpl`, or an operation
        is not supported in this layout.
    """
    if tf.executing_eagerly() or tf.compat.v1.get_default_graph().building_function:
        where = "eagerly" if tf.executing_eagerly() else "in a tf.function"
        raise LayoutError(f"a Mesh-TensorFlow graph cannot be lowered {where}", "build and lower it within tf.Graph().as_default()")
    for mesh in dict.fromkeys(operation.mesh for operation in graph.operations):
        impl = mesh_to_impl.get(mesh)
        if not isinstance(impl, UnevenMeshImpl):
            fault = f"mesh {mesh._name} is to be lowered by {type(impl).__name__ if impl else 'nothing'}"
            raise LayoutError(fault, "give an UnevenMeshImpl for it")
    return Lowering(graph, mesh_to_impl)


@functools.singledispatch
def lower_operation(operation: mtf.Operation, lowering: Lowering) -> None:
    """Lower one operation; the default serves stock operations known to be correct on unequal slices.

    Raises
    ------
    LayoutError
        For every other operation.
    """
    name = type(operation).__name__
    if name not in AS_THEY_ARE or not type(operation).__module__.startswith("mesh_tensorflow"):
        remedy = "use mtf.slicewise or other operations of Mesh-TensorFlow"
        raise LayoutError(f"operation {operation.name} ({name}) is not supported on unequal slices", remedy)
    operation.lower(lowering)


@lower_operation.register(mtf.Constant)
def _lower_constant(operation: mtf.Operation, lowering: Lowering) -> None:
    """Fill every slice with the value, or slice an array, which Mesh-TensorFlow accepts too."""
    impl, output = lowering.mesh_impl(operation), operation.outputs[0]
    if np.ndim(operation._value):
        full_tensor = tf.constant(operation._value, output.dtype, output.shape.to_integer_list)
        lowering.set_tensor_lowering(output, impl.LaidOutTensor(impl.make_slices(full_tensor, output.shape)))
        return
    lowering.set_tensor_lowering(
        output,
        impl.on_processors(lambda pnum: tf.fill(impl.processor_shape(output.shape, pnum), tf.constant(operation._value, output.dtype))),
    )


@lower_operation.register(mtf.ReshapeOperation)
def _lower_reshape(operation: mtf.Operation, lowering: Lowering) -> None:
    """Reshape or rename: keep slices that stay in place on each mesh axis; gather and split again the others."""
    impl = lowering.mesh_impl(operation)
    old, new = operation.inputs[0].shape, operation.outputs[0].shape
    slices = lowering.tensors[operation.inputs[0]]
    staying_axes = {axis for axis in range(impl.ndims) if _stays(impl, old, new, axis)}
    for axis, source, target in _exchanges(impl, old, new, staying_axes):
        slices = impl.exchange(slices, axis, split_axis=target, concat_axis=source, sizes=impl.sizes_of(new.dims[target]))
        staying_axes.add(axis)
    for axis, place in enumerate(impl.tensor_layout(old).mesh_axis_to_tensor_axis(impl.ndims)):
        if place is not None and axis not in staying_axes:
            slices = impl.allconcat(slices, axis, place)
    cuts = [
        (axis, place)
        for axis, place in enumerate(impl.tensor_layout(new).mesh_axis_to_tensor_axis(impl.ndims))
        if place is not None and axis not in staying_axes
    ]
    before, after = (impl.tensor_layout(shape).mesh_axis_to_tensor_axis(impl.ndims) for shape in (old, new))
    if old.to_integer_list != new.to_integer_list or any(before[axis] != after[axis] for axis in staying_axes):
        slices = _reshape_slices(impl, slices, new, dict(cuts))
    for axis, place in cuts:
        slices = impl.allsplit(slices, axis, place, sizes=impl.sizes_of(new.dims[place]))
    lowering.set_tensor_lowering(operation.outputs[0], slices)


def _exchanges(impl: UnevenMeshImpl, old: mtf.Shape, new: mtf.Shape, staying_axes: set[int]) -> list[tuple[int, int, int]]:
    """Return (mesh axis, old tensor axis, new tensor axis) of each resharding from one tensor dimension to another that an all-to-all does.

    The shape must be unchanged, and neither dimension may lie on another mesh axis, before or after.
    """
    if old.to_integer_list != new.to_integer_list:
        return []
    before, after = (impl.tensor_layout(shape).tensor_axis_to_mesh_axis for shape in (old, new))
    exchanges = []
    for axis in range(impl.ndims):
        if axis in staying_axes or axis not in before or axis not in after:
            continue
        source, target = before.index(axis), after.index(axis)
        if source != target and before[target] is None and after[source] is None:
            exchanges.append((axis, source, target))
    return exchanges


def _reshape_slices(impl: UnevenMeshImpl, slices: Any, new: mtf.Shape, cuts: Mapping[int, int]) -> Any:
    """Reshape every slice to its part of `new`, unsplit along the dimensions that are split afterwards."""
    lazy, pieces = isinstance(slices, mtf.LazyAllreduceSum), _own_slices(slices)

    def local(pnum: int) -> tf.Tensor:
        target = impl.processor_shape(new, pnum)
        for place in cuts.values():
            target[place] = new.dims[place].size
        return tf.reshape(pieces[pnum], target)

    reshaped = impl.on_processors(local)
    return mtf.LazyAllreduceSum(impl, reshaped, slices.mesh_axes) if lazy else reshaped


def _stays(impl: UnevenMeshImpl, old: mtf.Shape, new: mtf.Shape, axis: int) -> bool:
    """Return whether the slices along a mesh axis hold the same elements before and after."""
    before, after = (impl.tensor_layout(shape).mesh_axis_to_tensor_axis(impl.ndims)[axis] for shape in (old, new))
    if before is None or after is None:
        return before is after
    left = [_size(shape.dims[:place]) for shape, place in ((old, before), (new, after))]
    boundaries = []
    for shape, place in ((old, before), (new, after)):
        inner = _size(shape.dims[place + 1 :])
        boundaries.append([n * inner for n in impl.sizes_of(shape.dims[place])])
    return left[0] == left[1] and boundaries[0] == boundaries[1]


def _size(dimensions: Iterable[mtf.Dimension]) -> int:
    return math.prod(dimension.size for dimension in dimensions)
