"""Layers of `mtf.layers` give, on unequal slices, the values and gradients of Mesh-TensorFlow's own one-processor mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from tests.mesh.running import implementation, stock_and_uneven

layers = mtf.layers
BATCH, LENGTH, H, W = (mtf.Dimension(*pair) for pair in (("batch", 4), ("length", 4), ("h", 4), ("w", 6)))
IO, SPLIT, MORE = mtf.Dimension("io", 3), mtf.Dimension("split", 5), mtf.Dimension("more", 4)  # split lies on the mesh
HEADS, KEYS, BLOCKS = mtf.Dimension("split", 5), mtf.Dimension("keys", 2), mtf.Dimension("split", 5)
DTYPE = mtf.VariableDType(tf.float64, tf.float64, tf.float64)
LAYOUTS = {
    "uneven": implementation([("p", 3)], {"split": "p"}, {"split": (3, 0, 2)}),
    "2x2": implementation([("q", 2), ("p", 2)], {"batch": "q", "split": "p"}, {"batch": (1, 3), "split": (4, 1)}),
}


def _input(mesh: Any, *dimensions: Any) -> Any:
    extents = [d.size for d in dimensions]
    values = np.random.default_rng(len(extents)).normal(size=extents)
    return mtf.import_tf_tensor(mesh, tf.constant(values), list(dimensions))


def _words(mesh: Any) -> Any:
    return mtf.import_tf_tensor(mesh, tf.constant([4, 0, 2, 2]), [BATCH])


def _reversible(x: Any) -> Any:
    def residual(y: Any) -> Any:
        return layers.dense(layers.dense(y, SPLIT, [IO], activation=mtf.relu, variable_dtype=DTYPE), IO, [SPLIT], variable_dtype=DTYPE)

    state = (x, None, x, None)
    for number in range(2):
        with tf.compat.v1.variable_scope(f"residual_{number}"):
            state = layers.reversible_half_residual_and_swap(*state, residual)
    return state[0] + state[2]


Build = Callable[[Any, Callable[..., Any]], Any]
LAYERS: dict[str, Build] = {
    "dense": lambda m, x: layers.dense(x(BATCH, IO), SPLIT, [IO], activation=mtf.relu, variable_dtype=DTYPE),
    "dense: rows": lambda m, x: layers.dense(x(BATCH, SPLIT), IO, [SPLIT], variable_dtype=DTYPE),
    "dense: two new dimensions": lambda m, x: layers.dense(x(BATCH, IO), [SPLIT, MORE], [IO], variable_dtype=DTYPE),
    "dense_product": lambda m, x: layers.dense_product(x(BATCH, IO), [IO], [SPLIT], ["linear", "sigmoid"], variable_dtype=DTYPE),
    "dense_relu_dense": lambda m, x: layers.dense_relu_dense(x(BATCH, IO), SPLIT, is_training=True),
    "conv1d": lambda m, x: layers.conv1d(x(BATCH, LENGTH, IO), SPLIT),
    "separable_conv1d": lambda m, x: layers.separable_conv1d(x(BATCH, LENGTH, IO), SPLIT),
    "conv2d": lambda m, x: layers.conv2d(x(BATCH, H, W, IO), SPLIT),
    "conv2d: rows": lambda m, x: layers.conv2d(x(BATCH, H, W, SPLIT), IO, strides=(2, 3)),
    "conv2d_with_blocks": lambda m, x: layers.conv2d_with_blocks(x(BATCH, BLOCKS, H, W, IO), MORE, h_blocks_dim=BLOCKS),
    "conv2d_transpose": lambda m, x: layers.conv2d_transpose(x(BATCH, H, W, IO), SPLIT),
    "conv2d_transpose_with_blocks": lambda m, x: layers.conv2d_transpose_with_blocks(x(BATCH, BLOCKS, H, W, IO), MORE, h_blocks_dim=BLOCKS),
    "conv3d": lambda m, x: layers.conv3d(x(BATCH, KEYS, H, W, IO), SPLIT),
    "conv3d_transpose": lambda m, x: layers.conv3d_transpose(x(BATCH, KEYS, H, W, SPLIT), MORE),
    "layer_norm": lambda m, x: layers.layer_norm(x(BATCH, SPLIT), SPLIT),
    "batch_norm": lambda m, x: layers.batch_norm(x(BATCH, SPLIT), True, 0.9, name="norm")[0],
    "batch_norm: not training": lambda m, x: layers.batch_norm(x(BATCH, SPLIT), False, 0.9, name="norm")[0],
    "softmax_cross_entropy_with_logits": lambda m, x: layers.softmax_cross_entropy_with_logits(
        x(BATCH, SPLIT), mtf.one_hot(_words(m), SPLIT, dtype=tf.float64), SPLIT
    ),
    "sigmoid_cross_entropy_with_logits": lambda m, x: layers.sigmoid_cross_entropy_with_logits(
        x(BATCH, SPLIT), mtf.one_hot(_words(m), SPLIT, dtype=tf.float64)
    ),
    "embedding": lambda m, x: layers.embedding(_words(m), SPLIT, IO, DTYPE),
    "embedding: of slices": lambda m, x: layers.embedding(_words(m), mtf.Dimension("vocabulary", 7), SPLIT, DTYPE),
    "multihead_attention": lambda m, x: layers.multihead_attention(x(BATCH, LENGTH, IO), None, None, KEYS, HEADS, is_training=True),
    "masked_local_attention_1d": lambda m, x: layers.masked_local_attention_1d(x(BATCH, LENGTH, IO), KEYS, HEADS, True, window_size=2),
    "reversible_half_residual_and_swap": lambda m, x: _reversible(x(BATCH, IO)),
    "clip_activation_gradient": lambda m, x: layers.clip_activation_gradient(x(BATCH, SPLIT), 0.1),
    "compress_mean": lambda m, x: layers.compress_mean(x(BATCH, LENGTH, SPLIT), LENGTH, 2),
    "corr": lambda m, x: layers.corr(x(BATCH, IO), IO),
}


@pytest.mark.fast("dense_relu_dense-uneven")
@pytest.mark.parametrize("name, layout", [(name, list(LAYOUTS)[i % 2]) for i, name in enumerate(LAYERS)], ids=str)
def test_a_layer_gives_what_one_processor_gives(name: str, layout: str) -> None:
    _compare(name, {layout: LAYOUTS[layout]})


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_what_one_processor_gives_on_every_layout(name: str) -> None:
    _compare(name, LAYOUTS)


def _compare(name: str, layouts: dict[str, Any]) -> None:
    def build(mesh: Any) -> list[Any]:
        given: list[Any] = []

        def take(*dimensions: Any) -> Any:
            given.append(_input(mesh, *dimensions))
            return given[-1]

        y = LAYERS[name](mesh, take)
        over = [*given, *(v.value for v in mesh.graph.trainable_variables)]
        return [y, *(g for g in mtf.gradients([mtf.reduce_sum(mtf.sin(y))], over) if g is not None)]

    expected, found = stock_and_uneven(build, list(layouts.values()))
    for layout, arrays in zip(layouts, found):
        for array, reference in zip(arrays, expected, strict=True):
            assert array.dtype == reference.dtype
            np.testing.assert_allclose(array, reference, rtol=1e-10, atol=1e-10, err_msg=layout)
