"""Mesh-TensorFlow's variables as slices that are read once per step and written after that.

A variable consists of a master, a whole TensorFlow variable that initializers and checkpoints use,
and a slice on every processor, which training uses. Because masters are whole, initial values do
not depend on the layout.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl, is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation

tf1 = tf.compat.v1


class LaidOutVariable:
    """The slices of one variable: one snapshot per slice and step, and copies from and to the master.

    Parameters
    ----------
    variable : mtf.Variable.
    impl : implementation of the mesh that holds its slices.
    """

    def __init__(self, variable: mtf.Variable, impl: UnevenMeshImpl) -> None:
        self.variable = variable
        self.impl = impl
        self.slices = impl.on_processors(self._make_slice).tensor_list
        self.laid_out_tensor = impl.on_processors(
            lambda pnum: tf.raw_ops.ReadVariableOp(resource=self.slices[pnum].handle, dtype=variable.slice_dtype)
        )
        self.copy_master_to_slices = self.copy_from(variable.get_master())
        self.copy_slices_to_master = self._copy_to_master()

    def _make_slice(self, pnum: int) -> Any:
        return tf1.get_variable(
            f"{self.variable.name}_slice_{pnum}",
            self.impl.processor_shape(self.variable.shape, pnum),
            dtype=self.variable.slice_dtype,
            initializer=tf1.zeros_initializer(),
            collections=[],
            trainable=False,
            use_resource=True,
        )

    def copy_from(self, full_value: tf.Tensor) -> tf.Operation:
        """Return the operation that sets the slices from a whole value."""
        pieces = self.impl.make_slices(tf.convert_to_tensor(full_value), self.variable.shape)
        return tf.group(*(tf1.assign(piece, tf.cast(value, self.variable.slice_dtype)).op for piece, value in zip(self.slices, pieces)))

    def _copy_to_master(self) -> Any:
        dtype = self.variable.master_dtype
        pieces = self.impl.on_processors(lambda pnum: tf.cast(self.laid_out_tensor.tensor_list[pnum], dtype)).tensor_list
        return tf.group(self.variable.assign_to_master(self.impl.combine_slices(pieces, self.variable.shape)))

    def masters(self) -> list[Any]:
        """Return the TensorFlow variables that hold the whole values."""
        stacked = isinstance(self.variable, mtf.StackedVariable)
        return list(self.variable._masters) if stacked else [self.variable._master]


@lower_operation.register(mtf.Variable)
def _lower_variable(operation: mtf.Operation, lowering: Lowering) -> None:
    impl = lowering.mesh_impl(operation)
    with tf.control_dependencies(None):
        variable = LaidOutVariable(operation, impl)
        lowering.variables[operation] = variable
        _set_value(operation.outputs[0], variable, lowering)


@lower_operation.register(mtf.ReadVariable)
def _lower_read(operation: mtf.Operation, lowering: Lowering) -> None:
    """Set the value to that of the start of the step, which is read once for all operations."""
    _set_value(operation.outputs[0], lowering.variables[operation._var], lowering)


def _set_value(tensor: Tensor, variable: LaidOutVariable, lowering: Lowering) -> None:
    snapshots = variable.laid_out_tensor.tensor_list
    cast = variable.impl.on_processors(lambda pnum: tf.cast(snapshots[pnum], tensor.dtype))
    lowering.set_tensor_lowering(tensor, cast)


@lower_operation.register(mtf.Assign)
def _lower_assign(operation: mtf.Operation, lowering: Lowering) -> None:
    """Write every slice after its snapshot is taken."""
    impl = lowering.mesh_impl(operation)
    writes = []
    for variable, value in zip(operation.variables, operation.inputs):
        if variable not in lowering.variables or value.shape != variable.shape:
            fault = f"operation {operation.name} (Assign) gives {variable.name} of {variable.shape} a value of {value.shape}"
            raise LayoutError(fault, "reshape the value (mtf.reshape) to the variable's shape")
        laid_out, pieces = lowering.variables[variable], lowering.slices(value)
        for pnum, device in enumerate(impl.devices):
            snapshot = laid_out.laid_out_tensor.tensor_list[pnum]
            if is_empty(snapshot):
                continue
            with tf.device(device), tf.control_dependencies([snapshot]):
                writes.append(operation.assign_fn(variable, laid_out.slices[pnum], pieces[pnum]))
    lowering.operations[operation] = tf.group(*writes)


@lower_operation.register(mtf.Depend)
def _lower_depend(operation: mtf.Operation, lowering: Lowering) -> None:
    """Pass a tensor on after others, or after operations, on every processor."""
    impl = lowering.mesh_impl(operation)
    before: list[tf.Operation] = []
    for dependency in operation._dependencies:
        if dependency in lowering.operations:
            before.append(lowering.operations[dependency])
            continue
        for tensor in dependency.outputs if isinstance(dependency, mtf.Operation) else [dependency]:
            before += lowering.slices(tensor)
    slices = lowering.slices(operation.inputs[0])
    with tf.control_dependencies(tf.nest.flatten(before)):
        lowering.set_tensor_lowering(operation.outputs[0], impl.on_processors(lambda pnum: tf.identity(slices[pnum])))
