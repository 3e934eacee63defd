"""Butterfly mixing: every processor trains its own copy of the weights, and pairs of copies are averaged after each step.

Not synchronous: the copies differ, so training is not numerically equivalent to one device. In step t processor i updates its copy by the
gradient of its own samples' mean loss, then sets it to the average of its new weights and those of processor i XOR 2^(t mod k),
each weighted by its samples, k = ceil(log2(processors)). A processor without such a partner, or where neither has samples, keeps its
own. After k steps the updates of each processor have reached all. Each processor sends its weights once per step, where an all-reduce of
gradients sends about twice as much. Slots, such as velocities, stay with their copy; batch statistics are taken over the whole
batch. Weights that are read are the average of all copies, weighted by samples.

References
----------
Zhao, Canny, "Butterfly mixing: accelerating incremental-update algorithms on clusters", SDM 2013. Weighting by samples and the
fold for processor counts that are no power of two are this project's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.variables import Parameter, Update


@dataclasses.dataclass(frozen=True)
class Mixing:
    """Which variables processors hold copies of that differ.

    Parameters
    ----------
    samples : (processors,) weights of the copies; empty where gradients are all-reduced and all copies are the same.
    layers : indices of the layers whose variables, with their slots, are mixed: those that split the batch.
    """

    samples: tuple[int, ...] = ()
    layers: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.samples)

    def of(self, layer: int) -> tuple[int, ...]:
        """Return the weights of the copies of a layer's variables, empty where all are the same."""
        return self.samples if layer in self.layers else ()


NOT_MIXED = Mixing()


def rounds(processors: int) -> int:
    """Return the number of steps after which all processors are mixed with each other: ceil(log2(processors)), at least 1.

    >>> [rounds(p) for p in (1, 2, 3, 4, 5, 8)]
    [1, 1, 2, 2, 3, 3]
    """
    return max(1, (processors - 1).bit_length())


def partner(processor: int, processors: int, phase: int) -> int | None:
    """Return the partner of a processor in a phase, None if it has none.

    >>> [partner(i, 3, 1) for i in range(3)]
    [2, None, 0]
    """
    other = processor ^ (1 << phase)
    return other if other < processors else None


class OwnPart(mtf.Operation):
    """Each processor's partial sum over the batch, times a factor of its own, without the all-reduce.

    Parameters
    ----------
    total : a sum over a laid-out batch whose all-reduce is pending.
    factors : (processors,) factors.
    """

    def __init__(self, total: Tensor, factors: Sequence[float]) -> None:
        super().__init__([total], name="own_part")
        self.factors = list(factors)
        self._outputs = [mtf.Tensor(self, total.shape, total.dtype)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(OwnPart)
def _lower_own_part(operation: OwnPart, lowering: Lowering) -> None:
    impl, total = lowering.mesh_impl(operation), lowering.tensors[operation.inputs[0]]
    if not isinstance(total, mtf.LazyAllreduceSum):
        raise LayoutError(
            f"{operation.inputs[0].name} is no sum over the batch alone, so butterfly mixing cannot leave out its all-reduce",
            "use gradient_sync=all_reduce"
        )
    pieces = total.laid_out_input.tensor_list
    scaled = impl.on_processors(lambda p: pieces[p] * tf.constant(operation.factors[p], pieces[p].dtype))
    lowering.set_tensor_lowering(operation.outputs[0], scaled)


class Mix(mtf.Operation):
    """Averages the copies of a variable between partners, after an update of them.

    Parameters
    ----------
    parameter : the variable, whole on every processor.
    update : the operation that updates the copies first.
    samples : (processors,) weights of the copies.
    phase : number of the phase, from 0, which determines the partners.
    """

    def __init__(self, parameter: Parameter, update: Update, samples: Sequence[int], phase: int) -> None:
        super().__init__([], mesh=parameter.mesh, name=f"{parameter.name}_mix")
        self.parameter, self.update, self.samples, self.phase = parameter, update, list(samples), phase

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(Mix)
def _lower_mix(operation: Mix, lowering: Lowering) -> None:
    impl, value = lowering.mesh_impl(operation), operation.parameter.value
    handles = operation.parameter.variables.handles(operation.parameter.variable_name, value.shape, value.dtype, impl)
    updated = []
    for p, device in enumerate(impl.devices):
        with tf.device(device), tf.control_dependencies(lowering.writes[operation.update][p]):
            updated.append(tf.raw_ops.ReadVariableOp(resource=handles[p], dtype=value.dtype))
    writes = []
    for p, device in enumerate(impl.devices):
        other = partner(p, impl.size, operation.phase)
        if other is None or not operation.samples[p] + operation.samples[other]:
            writes += lowering.writes[operation.update][p]
            continue
        weight = operation.samples[p] / (operation.samples[p] + operation.samples[other])
        with tf.device(device):
            mixed = updated[p] * tf.constant(weight, value.dtype) + updated[other] * tf.constant(1.0 - weight, value.dtype)
            writes.append(tf.raw_ops.AssignVariableOp(resource=handles[p], value=mixed))
    lowering.operations[operation] = writes


def average(value: Tensor, samples: Sequence[int], batch: mtf.Dimension) -> Tensor:
    """Return the average of all processors' copies of a variable, weighted by samples.

    Parameters
    ----------
    value : snapshot of a variable that is whole on every processor.
    samples : (processors,) weights.
    batch : the laid-out batch dimension, whose mesh axis the copies lie along.
    """
    total = sum(samples)

    def weighted(p: Processor, copy: tf.Tensor) -> tf.Tensor:
        return copy * tf.constant(samples[p.pnum] / total, copy.dtype)

    return Local("average", weighted, [value], [(value.shape, value.dtype)], summed=[batch]).outputs[0]
