"""Slabs of a spatial dimension, of any thickness, give one device's numbers."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.cases import first_fast
from tests.program.oracle import Steps, our_run, worst_error
from tests.program.slab_nets import Drawn


@pytest.mark.parametrize("seed", first_fast(range(300), 8))
def test_slabs_drawn_at_random_give_the_numbers_of_one_device(seed: int) -> None:
    keras.config.set_floatx("float64")
    check(Drawn(seed))


def check(drawn: Drawn) -> None:
    """Train five steps in slabs and on one device, in float64, and compare losses and weights."""
    rng = np.random.default_rng(0)
    model = drawn.model
    shape = model.output_shape[1:-1]
    x = rng.normal(size=(drawn.batch, *model.input_shape[1:]))
    batches = Steps([x] * 5, [rng.integers(0, 3, (drawn.batch, *shape))] * 5, [None] * 5)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=drawn.logits)
    with hm.Cluster.local(["cpu:0"] * drawn.devices) as cluster:
        plan = drawn.plan(cluster)
        losses, weights, _ = our_run(model, plan, cluster, keras.optimizers.SGD(0.01, momentum=0.9), loss, batches)
        single = hm.Plan.single(model, 0, cluster, drawn.batch)
        expected_losses, expected, _ = our_run(model, single, cluster, keras.optimizers.SGD(0.01, momentum=0.9), loss, batches)
    assert np.all(np.isfinite(expected_losses))
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-8, atol=1e-8, err_msg=str(plan.stages))
    assert worst_error(expected, weights) <= 1e-8, plan.stages
