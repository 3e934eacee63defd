"""All-reduce by NVIDIA's NCCL, which TensorFlow supports between GPUs of one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.python.framework import kernels
from tensorflow.python.ops import nccl_ops

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.collectives.placement import Combine, on

_TYPES = (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)


def nccl_lack(devices: Sequence[str], combine: Combine, dtype: tf.DType) -> str:
    """Return why NCCL cannot combine tensors of these processors, "" if it can.

    Parameters
    ----------
    devices : (processors,) device strings.
    combine : function of two tensors.
    dtype : type of the tensors.
    """
    specs = [tf.DeviceSpec.from_string(device) for device in devices]
    if any(spec.device_type != "GPU" for spec in specs):
        return f"of {', '.join(devices)} not all are GPUs"
    if len({(spec.job, spec.replica, spec.task) for spec in specs}) > 1:
        return f"{', '.join(devices)} are in several processes"
    if len({spec.device_index for spec in specs}) < len(specs):
        return f"{', '.join(devices)} are not all different GPUs"
    if combine not in _functions():
        return f"it cannot combine by {getattr(combine, '__name__', combine)}"
    if dtype not in _TYPES:
        return f"it cannot combine {dtype.name}"
    return "" if kernels.get_registered_kernels_for_op("NcclAllReduce").kernel else "this TensorFlow is built without it"


def nccl(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine) -> list[tf.Tensor]:
    """Return the combination of all tensors, on every processor, by NCCL.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    devices : (processors,) device strings, different GPUs of one process.
    combine : tf.add, tf.multiply, tf.maximum or tf.minimum.

    Raises
    ------
    LayoutError
        If NCCL cannot be used among these processors.

    Notes
    -----
    An NCCL call blocks until all processors make it, so every result waits for all calls: fetching one runs all.
    """
    lack = nccl_lack(devices, combine, tensors[0].dtype)
    if lack:
        raise LayoutError(f"an all-reduce cannot be made by nccl, {lack}", "choose ring, butterfly or halving_doubling for it")
    placed = [on(device, tf.identity, tensor) for tensor, device in zip(tensors, devices)]
    results = _functions()[combine](placed)
    with tf.control_dependencies(results):
        return [on(device, tf.identity, result) for result, device in zip(results, devices)]


def _functions() -> dict[Combine, Callable[[list[tf.Tensor]], list[tf.Tensor]]]:
    return {tf.add: nccl_ops.all_sum, tf.multiply: nccl_ops.all_prod, tf.maximum: nccl_ops.all_max, tf.minimum: nccl_ops.all_min}
