"""Variables held as slices, read once a step, and written only after they were read.

In stock Mesh-TensorFlow every consumer of a variable reads it again, unordered with the assign, so
that a gradient may use the updated weights. Here one `ReadVariableOp` per slice and lowering serves
all consumers, and every write waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl, is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation


class SliceVariables:
    """The resource handles of all slices of named variables, shared by all programs that name them.

    Parameters
    ----------
    container : resource container on every server, so that several trainers do not share variables.
    """

    def __init__(self, container: str) -> None:
        self.container = container
        self._handles: dict[str, list[tf.Tensor]] = {}
        self._laid_out: dict[str, tuple[mtf.Shape, UnevenMeshImpl, tf.DType]] = {}

    def handles(self, name: str, shape: mtf.Shape, dtype: tf.DType, impl: UnevenMeshImpl) -> list[tf.Tensor]:
        """Return the (processors,) handles of a variable's slices, created on first use.

        Raises
        ------
        LayoutError
            If the variable exists with another shape or layout.
        """
        if name not in self._handles:
            self._handles[name] = [self._handle(name, shape, dtype, impl, pnum) for pnum in range(impl.size)]
            self._laid_out[name] = shape, impl, dtype
        known, laid_out, _ = self._laid_out[name]
        if [laid_out.processor_shape(known, p) for p in range(laid_out.size)] != [impl.processor_shape(shape, p) for p in range(impl.size)]:
            raise LayoutError(f"variable {name} exists as {known} and is asked for as {shape} in other slices", "use one layout for it")
        return self._handles[name]

    def recreate_handles(self) -> None:
        """Create the handles of all variables in the present TensorFlow graph; they name the same slices as before."""
        for name, (shape, impl, dtype) in self._laid_out.items():
            self._handles[name] = [self._handle(name, shape, dtype, impl, pnum) for pnum in range(impl.size)]

    def _handle(self, name: str, shape: mtf.Shape, dtype: tf.DType, impl: UnevenMeshImpl, pnum: int) -> tf.Tensor:
        with tf.device(impl.devices[pnum]):
            return tf.raw_ops.VarHandleOp(
                dtype=dtype,
                shape=impl.processor_shape(shape, pnum),
                shared_name=f"{name}/{pnum}",
                container=self.container,
                name=f"{name}/slice_{pnum}".replace(":", "_"),
            )

    def names(self) -> list[str]:
        """Return the names of all variables, in the order of creation."""
        return list(self._handles)

    def layout(self, name: str) -> tuple[mtf.Shape, UnevenMeshImpl, tf.DType, list[tf.Tensor]]:
        """Return the whole shape (mtf.Shape), mesh implementation, dtype and handles of a variable."""
        return (*self._laid_out[name], self._handles[name])


class Parameter(mtf.Operation):
    """The value of a sliced variable at the start of the step; `outputs[0]` is its snapshot.

    Parameters
    ----------
    mesh : mtf.Mesh.
    variables : the handles of its slices.
    name : name of the variable in `variables`.
    shape : mtf.Shape of the whole variable.
    """

    def __init__(self, mesh: mtf.Mesh, variables: SliceVariables, name: str, shape: mtf.Shape, dtype: tf.DType) -> None:
        super().__init__([], mesh=mesh, name=name)
        self.variables = variables
        self.variable_name = name
        self._outputs = [mtf.Tensor(self, shape, dtype)]

    @property
    def value(self) -> Tensor:
        """The snapshot, an mtf.Tensor."""
        return self._outputs[0]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(Parameter)
def _lower_parameter(operation: Parameter, lowering: Lowering) -> None:
    impl, value = lowering.mesh_impl(operation), operation.value
    handles = operation.variables.handles(operation.variable_name, value.shape, value.dtype, impl)

    def read(pnum: int) -> tf.Tensor:
        with lowering.after_call(operation, pnum):
            snapshot = tf.raw_ops.ReadVariableOp(resource=handles[pnum], dtype=value.dtype)
        return tf.ensure_shape(snapshot, impl.processor_shape(value.shape, pnum)) if snapshot.shape.rank is None else snapshot

    lowering.set_tensor_lowering(value, impl.on_processors(read))


class Update(mtf.Operation):
    """Writes to the slices of variables, each write after the snapshots of all of them.

    Parameters
    ----------
    parameters : (parameters,) `Parameter`, the variables that are written.
    inputs : (inputs,) mtf.Tensor that the writes use, laid out as the parameters.
    write : (handles, snapshots, inputs) -> list of tf.Operation, called once per processor with its
        slices of the parameters and inputs, under control dependencies on the snapshots.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        inputs: Sequence[Tensor],
        write: Callable[[Sequence[tf.Tensor], Sequence[tf.Tensor], Sequence[tf.Tensor]], Sequence[tf.Operation]],
        name: str,
    ) -> None:
        super().__init__([*(p.value for p in parameters), *inputs], mesh=parameters[0].mesh, name=name)
        self.parameters = list(parameters)
        self.write = write
        self.active: tf.Tensor | None = None  # () bool, whether the step writes; None for always
        self.is_guarded = False

    def skip_where(self, count: Tensor) -> None:
        """Let it write nothing in steps in which a number is not 0.

        Parameters
        ----------
        count : () mtf.Tensor of the same mesh, the same on all its processors.
        """
        self._inputs.append(count)
        self.is_guarded = True

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(Update)
def _lower_update(operation: Update, lowering: Lowering) -> None:
    impl = lowering.mesh_impl(operation)
    count = len(operation.parameters)
    slices = [lowering.slices(tensor) for tensor in operation.inputs]
    handles = [p.variables.handles(p.variable_name, p.value.shape, p.value.dtype, impl) for p in operation.parameters]
    writes: list[Sequence[tf.Operation]] = []
    for pnum, device in enumerate(impl.devices):
        own = [pieces[pnum] for pieces in slices]
        with tf.device(device), tf.control_dependencies(own[:count]):
            own_handles = [group[pnum] for group in handles]
            writes.append([] if is_empty(own[0]) else _written(operation, own_handles, own[:count], own[count:]))
    lowering.writes[operation] = writes
    lowering.operations[operation] = [write for group in writes for write in group]


def _written(
    operation: Update, handles: Sequence[tf.Tensor], snapshots: Sequence[tf.Tensor], inputs: Sequence[tf.Tensor]
) -> Sequence[tf.Operation]:
    active = operation.active
    if operation.is_guarded:
        *inputs, count = inputs
        active = tf.equal(count, 0) if active is None else tf.logical_and(active, tf.equal(count, 0))
    if active is None:
        return operation.write(handles, snapshots, inputs)

    def write() -> tf.Tensor:
        with tf.control_dependencies(operation.write(handles, snapshots, inputs)):
            return tf.constant(True)

    return [tf.cond(active, write, lambda: tf.constant(False)).op]


def assign(parameter: Parameter, value: Tensor) -> Update:
    """Return the update that replaces a variable's value after its snapshot was taken."""

    def write(handles: Sequence[tf.Tensor], _: Sequence[tf.Tensor], inputs: Sequence[tf.Tensor]) -> Sequence[tf.Operation]:
        return [tf.raw_ops.AssignVariableOp(resource=handles[0], value=inputs[0])]

    return Update([parameter], [value], write, f"{parameter.name}_assign")
