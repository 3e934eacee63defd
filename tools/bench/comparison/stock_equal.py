"""The baseline: the same network in stock Mesh-TensorFlow, split equally on `PlacementMeshImpl`.

Columns and rows alternate as in our plan, so both send the same tensors; only the sizes, the
operations and the all-reduce are Mesh-TensorFlow's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf, placement


class StockEqual:
    """Same-padded 3x3 convolutions with relu, mean over space, a dense layer; SGD with momentum.

    Parameters
    ----------
    cluster : live cluster; all its devices take an equal part.
    shape : (height, width, channels) of a sample.
    filters : filters of each convolution, an even number of layers.
    classes : outputs of the dense layer.
    batch : samples per step.
    """

    def __init__(self, cluster: Any, shape: tuple[int, int, int], filters: tuple[int, ...], classes: int, batch: int) -> None:
        count = len(cluster.devices)
        devices = [device.tf_device for device in cluster.devices]
        self._container = cluster.container("stock")
        graph = tf.Graph()
        with graph.as_default(), graph.container(self._container.name), tf.device(devices[0]):
            self._x = tf.compat.v1.placeholder(tf.float32, (batch, *shape))
            self._y = tf.compat.v1.placeholder(tf.int32, (batch,))
            mesh_graph = mtf.Graph()
            mesh = mtf.Mesh(mesh_graph, "mesh")
            with tf.compat.v1.variable_scope("stock", use_resource=True):
                loss = _loss(mesh, self._x, self._y, filters, classes)
                gradients = mtf.gradients([loss], [v.outputs[0] for v in mesh_graph.trainable_variables])
                applied = mtf.optimize.MomentumOptimizer(learning_rate=0.01, momentum=0.9).apply_grads(
                    gradients, mesh_graph.trainable_variables
                )
                layout = mtf.LayoutRules([(f"split{i}", "devices") for i in range(len(filters))])
                impl = placement.PlacementMeshImpl(mtf.Shape([mtf.Dimension("devices", count)]), layout, devices)
                lowering = mtf.Lowering(mesh_graph, {mesh: impl}, autostack=False)
                self._train = tf.group(*(lowering.lowered_operation(op) for op in applied))
                self._loss = lowering.export_to_tf_tensor(loss)
                start = [tf.compat.v1.global_variables_initializer(), lowering.copy_masters_to_slices()]
            slices = [v for laid_out in lowering.variables.values() for v in laid_out.laid_out_tensor.all_slices]
            start.insert(1, tf.group(*(v.initializer for v in slices)))
        self._session = cluster.session(graph)
        for operation in start:
            self._session.run(operation)

    def step(self, x: np.ndarray, y: np.ndarray) -> float:
        """Take one step and return its loss."""
        loss, _ = self._session.run([self._loss, self._train], {self._x: x, self._y: y})
        return float(loss)

    def close(self) -> None:
        """Release what it holds on the cluster."""
        self._session.close()
        self._container.release()


def _loss(mesh: Any, x: tf.Tensor, y: tf.Tensor, filters: tuple[int, ...], classes: int) -> Any:
    batch, height, width, channels = (mtf.Dimension(name, int(n)) for name, n in zip(("batch", "height", "width", "whole_in"), x.shape))
    value = mtf.import_tf_tensor(mesh, x, mtf.Shape([batch, height, width, channels]))
    for index, count in enumerate(filters):
        column = index % 2 == 0
        output = mtf.Dimension(f"split{index}" if column else f"whole{index}", count)
        value = mtf.relu(mtf.layers.conv2d(value, output, [3, 3], (1, 1), "SAME", name=f"conv{index}"))
    pooled = mtf.reduce_mean(value, output_shape=mtf.Shape([batch, value.shape.dims[-1]]))
    dimension = mtf.Dimension("classes", classes)
    logits = mtf.layers.dense(pooled, dimension, name="head")
    labels = mtf.one_hot(mtf.import_tf_tensor(mesh, y, mtf.Shape([batch])), dimension)
    return mtf.reduce_mean(mtf.layers.softmax_cross_entropy_with_logits(logits, labels, dimension))
