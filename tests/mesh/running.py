"""Runs pieces of Mesh-TensorFlow on local processors and returns whole arrays."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh import Lowering, UnevenMeshImpl
from hetero_mtf.mesh.compat import mtf, placement

Array = np.ndarray


def implementation(
    axes: Sequence[tuple[str, int]], layout: Mapping[str, str], sizes: Mapping[str, Sequence[int]] | None = None
) -> UnevenMeshImpl:
    """Return a mesh implementation whose processors are all on the one CPU."""
    count = int(np.prod([n for _, n in axes]))
    return UnevenMeshImpl(axes, layout, ["/device:CPU:0"] * count, sizes)


def shape(**dimensions: int) -> Any:
    """Return an mtf.Shape from names and extents."""
    return mtf.Shape([mtf.Dimension(name, n) for name, n in dimensions.items()])


def run(build: Callable[..., Sequence[Any]], inputs: Sequence[tuple[Array, Any]], impl: UnevenMeshImpl, slices: bool = False) -> list[Any]:
    """Return what `build(mesh, *tensors)` returns, as whole arrays, or as a list of slices each.

    Parameters
    ----------
    build : (mesh, *mtf.Tensor) -> list of mtf.Tensor.
    inputs : (array, mtf.Shape) pairs.
    """
    with tf.Graph().as_default():
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        tensors = [mtf.import_tf_tensor(mesh, tf.constant(array), dims) for array, dims in inputs]
        outputs = list(build(mesh, *tensors))
        lowering = Lowering(graph, {mesh: impl})
        fetches = [lowering.slices(y) if slices else lowering.export_to_tf_tensor(y) for y in outputs]
        with tf.compat.v1.Session() as session:
            return session.run(fetches)


def stock_and_uneven(build: Callable[[Any], Sequence[Any]], impls: Sequence[UnevenMeshImpl]) -> tuple[list[Array], list[list[Array]]]:
    """Return what `build(mesh)` gives on a one-processor mesh of stock Mesh-TensorFlow, and on each implementation.

    One Mesh-TensorFlow graph is lowered time and again, so variables have one initial value.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        outputs = list(build(mesh))
        stock = mtf.Lowering(graph, {mesh: placement.PlacementMeshImpl([], {}, [""])}, autostack=False)
        lowerings = []
        for number, impl in enumerate(impls):
            random.seed(0)
            with tf.compat.v1.variable_scope(f"layout_{number}"):
                lowerings.append(Lowering(graph, {mesh: impl}))
        session.run(tf.compat.v1.global_variables_initializer())
        session.run([lowering.copy_masters_to_slices() for lowering in (stock, *lowerings)])
        found = session.run([[lowering.export_to_tf_tensor(y) for y in outputs] for lowering in (stock, *lowerings)])
    return found[0], found[1:]


def quick() -> Any:
    """Return a session configuration without graph rewriting, which takes longer than these graphs run."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config


def with_gradients(build: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """Return what builds the outputs and the gradients of a fixed weighted sum of them by all inputs."""

    def both(mesh: Any, *tensors: Any) -> Sequence[Any]:
        outputs = list(build(mesh, *tensors))
        total = None
        for number, y in enumerate(outputs):
            weights = np.random.default_rng(number).normal(size=y.shape.to_integer_list).astype(y.dtype.as_numpy_dtype)
            term = mtf.reduce_sum(mtf.multiply(y, mtf.import_tf_tensor(mesh, tf.constant(weights), y.shape)))
            total = term if total is None else mtf.add(total, term)
        return [*outputs, *(g for g in mtf.gradients([total], list(tensors)) if g is not None)]

    return both
