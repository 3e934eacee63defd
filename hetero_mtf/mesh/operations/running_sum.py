"""Running sums: a tensor that grows by one term a step, in place, until it begins again."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation
from hetero_mtf.mesh.operations.select import is_copied, select
from hetero_mtf.mesh.variables import SliceVariables


class RunningSum(mtf.Operation):
    """The sum of this step's term and those before it, kept in a variable.

    Parameters
    ----------
    term : mtf.Tensor.
    variables : the handles of its slices.
    name : name of the variable in `variables`.
    counts, begins : () bool tf.Tensor, whether this step has a term at all, and whether the sum begins with it.

    Notes
    -----
    Nothing is copied, but for small tensors, whose copies take less time than conditionals.
    """

    def __init__(self, term: Tensor, variables: SliceVariables, name: str, counts: tf.Tensor, begins: tf.Tensor) -> None:
        super().__init__([term], name="running_sum")
        self.variables, self.variable_name, self.counts, self.begins = variables, name, counts, begins
        self._outputs = [mtf.Tensor(self, term.shape, term.dtype)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(RunningSum)
def _lower_running_sum(operation: RunningSum, lowering: Lowering) -> None:
    impl, output = lowering.mesh_impl(operation), operation.outputs[0]
    handles = operation.variables.handles(operation.variable_name, output.shape, output.dtype, impl)
    terms = lowering.slices(operation.inputs[0])
    writes: list[Sequence[tf.Operation]] = [[] for _ in terms]

    def added(pnum: int) -> tf.Tensor:
        term, handle = terms[pnum], handles[pnum]
        if is_empty(term):
            return tf.zeros_like(term)
        add = _copied if is_copied(term) else _in_place
        total, write = add(term, handle, operation.counts, operation.begins)
        writes[pnum] = [write]
        return tf.ensure_shape(total, term.shape)

    lowering.set_tensor_lowering(output, impl.on_processors(added))
    lowering.writes[operation] = writes
    lowering.operations[operation] = [write for group in writes for write in group]


def _copied(term: tf.Tensor, handle: tf.Tensor, counts: tf.Tensor, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
    """Return the sum and the operation that keeps it, without conditionals."""
    with tf.control_dependencies([term]):
        before = tf.raw_ops.ReadVariableOp(resource=handle, dtype=term.dtype)
    total = select(counts, select(begins, term, before + term), tf.ensure_shape(before, term.shape))
    return total, tf.raw_ops.AssignVariableOp(resource=handle, value=total)


def _in_place(term: tf.Tensor, handle: tf.Tensor, counts: tf.Tensor, begins: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
    """Return the sum and the operation that keeps it; the first term is taken over as it is, the others are added in place."""

    def begin() -> tf.Tensor:
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=handle, value=term)]):
            return tf.constant(True)

    def add() -> tf.Tensor:
        with tf.control_dependencies([tf.raw_ops.AssignAddVariableOp(resource=handle, value=term)]):
            return tf.constant(True)

    grown = tf.cond(counts, lambda: tf.cond(begins, begin, add), lambda: tf.constant(False))
    with tf.control_dependencies([grown]):
        total = tf.raw_ops.ReadVariableOp(resource=handle, dtype=term.dtype)
    return total, grown.op
