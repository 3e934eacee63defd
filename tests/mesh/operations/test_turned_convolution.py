"""Gradients of convolutions by the kernel turned round are TensorFlow's own, whatever the window, padding and channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.operations.convolution.conv import Direct
from hetero_mtf.mesh.operations.convolution.turned_convolution import TENSORFLOW, KernelForm, kernel_form
from hetero_mtf.mesh.operations.local import Processor

CPU, GPU = "/job:worker/task:1/device:CPU:0", "/job:worker/task:1/device:GPU:0"


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("window", [(3, 3, 3), (4, 1, 2), (1, 1, 1)])
@pytest.mark.parametrize("channels", [(5, 2), (5, 4), (4, 5), (18, 17)])
def test_the_gradient_of_a_kernel_is_that_of_tensorflow(channels: tuple[int, int], window: Sequence[int], padding: str) -> None:
    rng, extents = np.random.default_rng(3), (6, 5, 7)
    x, shape = rng.normal(size=(2, *extents, channels[0])), [*window, *channels]
    made = extents if padding == "SAME" else [n - k + 1 for n, k in zip(extents, window)]
    dy = rng.normal(size=(2, *made, channels[1]))
    direct = Direct(3, [1] * 3, padding)
    assert kernel_form(shape, CPU, tf.float64) == KernelForm(channels[0] > channels[1], max(window) > 1 and channels in ((5, 4), (4, 5)))
    got, wanted = (
        direct.kernel_gradient(Processor(0, (shape,), ([0] * 5,), device), tf.constant(x), tf.constant(dy)).numpy() for device in (CPU, GPU)
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_it_is_left_to_tensorflow_where_that_is_as_fast() -> None:
    for shape in ((3, 3, 3, 32, 32), (3, 3, 3, 1, 16), (3, 3, 64, 16)):
        assert kernel_form(shape, CPU, tf.float32) == TENSORFLOW
    assert kernel_form((3, 3, 3, 64, 16), CPU, tf.float32) == KernelForm(over_output=True, padded=False)
    assert kernel_form((3, 3, 3, 64, 16), CPU, tf.bfloat16) == TENSORFLOW
    assert kernel_form((3, 3, 3, 64, 16), GPU, tf.float32) == kernel_form((3, 3, 3, 64, 16), "", tf.float32) == TENSORFLOW
