"""NCCL: who may use it, and, where there are GPUs, the same sums as ours."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.collectives import all_reduce
from hetero_mtf.mesh.collectives.nccl import nccl_lack
from hetero_mtf.planning.layout.records import CollectiveRule

GPUS = [f"/device:GPU:{p}" for p in range(4)]
NCCL, BUTTERFLY = CollectiveRule("all_reduce", "nccl"), CollectiveRule("all_reduce", "butterfly")


@pytest.mark.parametrize(
    ("devices", "combine", "dtype", "lack"),
    [
        (["/device:GPU:0", "/device:CPU:0"], tf.add, tf.float32, "of /device:GPU:0, /device:CPU:0 not all are GPUs"),
        (["/device:GPU:0", "/device:GPU:0"], tf.add, tf.float32, "/device:GPU:0, /device:GPU:0 are not all different GPUs"),
        ([f"/job:worker/task:{p}/device:GPU:0" for p in range(2)], tf.add, tf.float32, ".*task:1/device:GPU:0 are in several processes"),
        (GPUS, tf.subtract, tf.float32, "it cannot combine by subtract"),
        (GPUS, tf.add, tf.bool, "it cannot combine bool"),
    ],
)
def test_what_nccl_cannot_do_is_said_and_refused(devices: list[str], combine: object, dtype: tf.DType, lack: str) -> None:
    with tf.Graph().as_default():
        tensors = []
        for device in devices:
            with tf.device(device):
                tensors.append(tf.compat.v1.placeholder(dtype, [3]))
        with pytest.raises(LayoutError, match=f"an all-reduce cannot be made by nccl, {lack}; choose ring, butterfly or halving_doubling"):
            all_reduce(tensors, devices, combine, NCCL)  # type: ignore[arg-type]


@pytest.mark.skipif(bool(nccl_lack(GPUS, tf.add, tf.float32)), reason="this TensorFlow is built without NCCL")
@pytest.mark.parametrize("rule", [None, NCCL], ids=["default", "by name"])
def test_gpus_of_one_process_use_it_and_every_result_waits_for_all_calls(rule: CollectiveRule | None) -> None:
    with tf.Graph().as_default():
        tensors = []
        for device in GPUS:
            with tf.device(device):
                tensors.append(tf.compat.v1.placeholder(tf.float32, [3]))
        results = all_reduce(tensors, GPUS, tf.add, rule)
        calls = [op for op in tensors[0].graph.get_operations() if op.type == "NcclAllReduce"]
        assert [op.device for op in calls] == GPUS and [result.device for result in results] == GPUS
        for result in results:
            assert {*result.op.control_inputs, *(tensor.op for tensor in result.op.inputs)} == set(calls)


@pytest.mark.skipif(len(tf.config.list_physical_devices("GPU")) < 2, reason="there are not two GPUs")
@pytest.mark.parametrize("combine", [tf.add, tf.maximum, tf.minimum], ids=["sum", "maximum", "minimum"])
def test_nccl_gives_the_same_bits_everywhere_and_what_ours_gives(combine: object) -> None:
    devices = [f"/device:GPU:{p}" for p in range(len(tf.config.list_physical_devices("GPU")))]
    arrays = [np.random.default_rng(p).normal(size=1001).astype("float32") for p in range(len(devices))]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = []
        for device, array in zip(devices, arrays):
            with tf.device(device):
                tensors.append(tf.constant(array))
        theirs, ours = session.run([all_reduce(tensors, devices, combine, rule) for rule in (NCCL, BUTTERFLY)])  # type: ignore[arg-type]
        one = session.run(all_reduce(tensors, devices, combine, NCCL)[0])  # type: ignore[arg-type]  # fetching one must not hang
    assert {result.tobytes() for result in theirs} == {one.tobytes()}
    np.testing.assert_allclose(theirs[0], ours[0], rtol=1e-5, atol=1e-6)
