"""No operation computes on an empty slice, in any session: TensorFlow divides by zero there, which ends the process."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering
from tests.mesh.running import implementation, shape
from tests.mesh.without_folding import FAMILIES, check

SUMS = ("einsum", "einsum: all dimensions in one", "gather: bool", "reduce_sum", "reduce_max")


@pytest.mark.slow
def test_sums_and_maxima_of_empty_slices_survive_a_session_without_constant_folding() -> None:
    check("without folding", "stock", *SUMS)


# The other pairs of a configuration and a family are those in which the tests beside this one run.
PAIRS = [
    ("without folding", "stock"), ("without folding", "layers"), ("without folding", "own"), ("rewriting", "stock"), ("library's", "own")
]  # fmt: skip
PARTS = [(configuration, FAMILIES[family][0][part::3], family) for configuration, family in PAIRS for part in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("configuration, names, family", PARTS, ids=[f"{part[2]}, {part[0]}, {i % 3}" for i, part in enumerate(PARTS)])
def test_every_operation_survives_empty_slices_in_sessions_of_any_configuration(configuration: str, names: list[str], family: str) -> None:
    check(configuration, family, *names)


@pytest.mark.parametrize("reduction, nothing", [(mtf.reduce_sum, 0), (mtf.reduce_max, -np.inf), (mtf.reduce_min, np.inf)])
def test_a_reduction_of_an_empty_slice_is_a_constant_that_changes_nothing(reduction: object, nothing: float) -> None:
    dims = shape(a=2, c=3)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        x = mtf.import_tf_tensor(mesh, tf.constant([[1.0, -2.0, 3.0], [-4.0, -5.0, -6.0]]), dims)
        y = reduction(x, reduced_dim=dims.dims[1])  # type: ignore[operator]
        owed: list[tf.Tensor] = []
        impl = implementation([("p", 3)], {"c": "p"}, {"c": (0, 1, 2)})
        reduced = impl.allreduce
        impl.allreduce = lambda x, *rest: owed.extend(x.tensor_list) or reduced(x, *rest)  # what each processor has of its own
        lowering = Lowering(graph, {mesh: impl})
        whole = session.run(lowering.export_to_tf_tensor(y))
        assert owed[0].op.type in ("Const", "Fill")
        np.testing.assert_array_equal(session.run(owed[0]), [nothing, nothing])
    expected = {0: [2, -15], -np.inf: [3, -4], np.inf: [-2, -6]}[nothing]
    np.testing.assert_array_equal(whole, expected)
