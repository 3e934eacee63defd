"""Placeholders that a program is fed through, and their parts for microbatches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.mesh.batch_parts import BatchArray, Fed
from hetero_mtf.program.batch_arrays import Target
from hetero_mtf.program.context import ProgramContext


@dataclasses.dataclass(frozen=True)
class LossInputs:
    """The inputs of the loss of one output.

    Parameters
    ----------
    y, weight : its targets (batch, ...) and sample weights (batch,) or (batch, ...), or their parts of a microbatch.
    scale : placeholder of the () factor on the weighted sum of losses.
    """

    y: Fed
    weight: Fed
    scale: tf.Tensor


@dataclasses.dataclass(frozen=True)
class ProgramInputs:
    """The inputs of one batch, or of a microbatch of it.

    Parameters
    ----------
    x : (inputs,) samples (batch, ...).
    loss_inputs : (outputs,) targets, sample weights and scale; None for an output without a loss, and to predict.
    """

    x: tuple[Fed, ...]
    loss_inputs: tuple[LossInputs | None, ...]

    @property
    def fed(self) -> tuple[Fed, ...]:
        """What a batch's arrays go into, in the order of `fed_arrays`: samples, and targets and weights of the outputs that have a loss."""
        return (*self.x, *(array for each in self.loss_inputs if each is not None for array in (each.y, each.weight)))

    def microbatches(self, sizes: Sequence[int]) -> list[ProgramInputs]:
        """Return the parts of the batch, in order.

        Parameters
        ----------
        sizes : (microbatches,) samples of each.
        """
        if len(sizes) == 1:
            return [self]
        x = zip(*(_cut(tensor, sizes) for tensor in self.x))
        loss_inputs = zip(*(_split(output_inputs, sizes) for output_inputs in self.loss_inputs))
        return [ProgramInputs(*part) for part in zip(x, loss_inputs)]


def _split(output_inputs: LossInputs | None, sizes: Sequence[int]) -> Sequence[LossInputs | None]:
    if output_inputs is None:
        return [None] * len(sizes)
    return [
        LossInputs(y, weight, output_inputs.scale) for y, weight in zip(_cut(output_inputs.y, sizes), _cut(output_inputs.weight, sizes))
    ]


def _cut(tensor: Fed, sizes: Sequence[int]) -> Sequence[Fed]:
    if isinstance(tensor, BatchArray):
        return tensor.cut(sizes)
    with tf.device(tensor.device):
        return tf.split(tensor, list(sizes))


def partly_read(inputs: ProgramInputs, arrays: Sequence[BatchArray | None]) -> ProgramInputs:
    """Return inputs of which devices read some arrays.

    Parameters
    ----------
    inputs : placeholders.
    arrays : those that devices read, in the order of `ProgramInputs.fed`; None for the others.
    """
    pieces = iter([fed if array is None else array for fed, array in zip(inputs.fed, arrays, strict=True)])
    x = tuple(next(pieces) for _ in inputs.x)
    loss_inputs = (None if each is None else LossInputs(next(pieces), next(pieces), each.scale) for each in inputs.loss_inputs)
    return ProgramInputs(x, tuple(loss_inputs))


def placeholders(context: ProgramContext, batch: int, targets: Sequence[Target | None]) -> ProgramInputs:
    """Return placeholders for a batch, on the hosts of the stages that read them.

    Parameters
    ----------
    context : the network and its losses.
    batch : samples in the batch.
    targets : (outputs,) form of each output's targets, None for one without; empty to predict.
    """
    dtype, graph, x, loss_inputs = tf.as_dtype(context.graph.dtype), context.graph, [], []
    for index in graph.inputs:
        with tf.device(_host(context, index)):
            x.append(_samples(graph, index, batch))
    for index, part, target in zip(graph.outputs, context.objective, targets or [None] * len(graph.outputs)):
        with tf.device(_host(context, index)):
            loss_inputs.append(None if part is None or target is None else _loss_inputs(dtype, batch, target))
    return ProgramInputs(tuple(x), tuple(loss_inputs))


def stage_placeholders(context: ProgramContext, stage: int, batch: int) -> list[tf.Tensor]:
    """Return placeholders of all model inputs on the host of a stage.

    Parameters
    ----------
    context : the network and its stages.
    stage : index of the stage.
    batch : samples in the batch.
    """
    with tf.device(host_of(context.stages[stage].devices[0])):
        return [_samples(context.graph, index, batch) for index in context.graph.inputs]


def _samples(graph: LayerGraph, index: int, batch: int) -> tf.Tensor:
    layer = graph.layers[index]
    return placeholder(tf.as_dtype(layer.dtype(graph.dtype)), (batch, *layer.output_shape))


def _host(context: ProgramContext, layer: int) -> str:
    """Return the CPU of the host of the first device of the stage that holds a layer."""
    return host_of(next(placed.devices[0] for placed in context.stages if layer in placed.stage.layers))


def host_of(device: str) -> str:
    """Return the CPU of a device's host.

    Parameters
    ----------
    device : TensorFlow device string.
    """
    return str(tf.DeviceSpec.from_string(device).replace(device_type="CPU", device_index=0).to_string())


def _loss_inputs(dtype: tf.DType, batch: int, target: Target) -> LossInputs:
    shape, kind, weights = target
    return LossInputs(placeholder(tf.as_dtype(kind), (batch, *shape)), placeholder(dtype, (batch, *weights)), placeholder(dtype, ()))


def placeholder(dtype: tf.DType, shape: Sequence[int]) -> tf.Tensor:
    """Return a placeholder."""
    return tf.compat.v1.placeholder(dtype, shape)
