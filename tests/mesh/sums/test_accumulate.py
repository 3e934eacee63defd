"""Sums over microbatches stay owed until they are read, unless a term is complete already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh import Lowering
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.local import Local
from hetero_mtf.mesh.sums.accumulate import accumulate
from tests.mesh.running import implementation, quick, shape

PIECES = shape(b=5, c=3)
SIZES = (3, 0, 2)


def _term(mesh: Any, value: np.ndarray) -> Any:
    """Return the sum over the laid-out first dimension, its all-reduce owed."""
    x = mtf.import_tf_tensor(mesh, tf.constant(value), PIECES)
    return Local("sum", lambda _, v: tf.reduce_sum(v, 0), [x], [(shape(c=3), x.dtype)], summed=PIECES.dims[:1]).outputs[0]


@pytest.mark.parametrize("complete", [False, True], ids=["owed", "one complete"])
def test_a_sum_of_terms_is_right_and_owed_once_where_both_are(complete: bool) -> None:
    values = np.random.default_rng(0).normal(size=(2, 5, 3))
    with tf.Graph().as_default(), tf.compat.v1.Session(config=quick()) as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        terms = [_term(mesh, value) for value in values]
        read = Local("read", lambda _, v: 2.0 * v, [terms[0]], [(shape(c=3), terms[0].dtype)]).outputs[0] if complete else None
        total = accumulate(*terms)
        lowering = Lowering(graph, {mesh: implementation([("p", 3)], {"b": "p"}, {"b": SIZES})})
        assert isinstance(lowering.tensors[total], mtf.LazyAllreduceSum) is not complete
        for piece in session.run(lowering.slices(total)):
            np.testing.assert_allclose(piece, values.sum((0, 1)), rtol=1e-12)
        assert read is None or session.run(lowering.slices(read)[0]) == pytest.approx(2 * values[0].sum(0))
