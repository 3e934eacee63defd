"""Both halves of a batch at once give the numbers of the batch, and neither waits for the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import PlanError
from tests.program import small_nets as nets
from tests.program.oracle import assert_transparent, our_run, worst_error
from tests.program.pipelines import accumulated_run, steps_for
from tests.program.test_order import _ancestors

BATCHES = (8, 7, 3, 8, 1)  # odd ones, and one sample, which has no halves
Split = Callable[[Any, Any], hm.Plan]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    keras.config.set_floatx("float64")
    with hm.Cluster.local(["cpu:0"] * 4) as each:
        yield each


def _sgd() -> Any:
    return keras.optimizers.SGD(0.02, momentum=0.9)


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _filters(model: Any, cluster: Any) -> hm.Plan:
    return hm.Plan.filters(model, [3, 2, 1, 0], cluster, 8)


def _hybrid(model: Any, cluster: Any) -> hm.Plan:
    return hm.Plan.hybrid(model, [3, 2, 1, 0], cluster, 8)


def _batch(model: Any, cluster: Any) -> hm.Plan:
    return hm.Plan.batch(model, [4, 3, 1, 0], cluster, 8)


def _grid(model: Any, cluster: Any) -> hm.Plan:
    return hm.Plan.grid(model, [5, 3], [2, 1], cluster, 8)


SPLITS = (_filters, _hybrid, _batch, _grid)


@pytest.mark.fast("True-convs-batch")
@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.__name__[1:])
@pytest.mark.parametrize("build", [nets.convs, nets.branches, nets.rows_into_dense], ids=lambda build: build.__name__)
@pytest.mark.parametrize("weighted", [False, True])
def test_both_halves_at_once_give_the_numbers_of_the_batch(build: Any, split: Split, weighted: bool, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = build()
    plan = split(model, cluster).in_two_batches()
    assert_transparent(model, plan, cluster, _sgd, _loss, steps_for(model, BATCHES, weighted))


@pytest.mark.slow
@pytest.mark.parametrize("split", [_filters, pytest.param(_batch, marks=pytest.mark.slow)], ids=lambda split: split.__name__[1:])
def test_batch_norm_has_the_statistics_of_halves(split: Split, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = nets.norms()
    steps = steps_for(model, (8, 7, 8), weighted=False)
    losses, weights = accumulated_run(model, _sgd(), steps, 2)
    ours, trained, _ = our_run(model, split(model, cluster).in_two_batches(), cluster, _sgd(), _loss(), steps)
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8
    assert worst_error(weights, trained) <= 1e-8


def _unordered_twins(plan: hm.Plan, cluster: Any) -> tuple[int, int]:
    """Return how many convolutions a step computes but for those of kernels, and how many have a like one that may run meanwhile."""
    model = nets.convs()
    steps = steps_for(model, (8,))
    with hm.Trainer(model, plan, cluster, loss=_loss()) as trainer:
        trainer.build(steps.x[0], steps.y[0])
        operations = trainer._run.engine._tf_graph.get_operations()
    ancestors = _ancestors(operations)
    kernels = [op for op in operations if op.name.startswith("train_8/") and op.type in ("Conv2D", "Conv2DBackpropInput")]
    twins = [
        any(
            o.device == op.device and o.type == op.type and o.name not in ancestors[op.name] and op.name not in ancestors[o.name]
            for o in kernels
            if o is not op
        )
        for op in kernels
    ]
    return len(kernels), sum(twins)


@pytest.mark.slow
def test_no_half_waits_for_the_other_where_microbatches_wait_for_those_before(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    plan = hm.Plan.single(nets.convs(), 0, cluster, 8)
    kernels, twins = _unordered_twins(plan.in_two_batches(), cluster)
    assert twins == kernels > 0
    one_by_one = dataclasses.replace(plan, microbatches=2)
    kernels, twins = _unordered_twins(one_by_one, cluster)
    assert kernels > 0 and twins == 0


@pytest.mark.slow
def test_rows_of_a_half_do_not_wait_for_sums_of_the_other(cluster: Any) -> None:
    """Gradients of kernels are added to those of the half before, and wait for them; nothing else does."""
    keras.config.set_floatx("float64")
    model = nets.convs()
    steps = steps_for(model, (8,))
    with hm.Trainer(model, hm.Plan.filters(model, [3, 2, 0, 0], cluster, 8).in_two_batches(), cluster, loss=_loss()) as trainer:
        trainer.build(steps.x[0], steps.y[0])
        operations = trainer._run.engine._tf_graph.get_operations()
    ancestors = _ancestors(operations)
    convolutions = {op.name for op in operations if op.name.startswith("train_8/") and op.type == "Conv2D"}
    products = [op.name for op in operations if op.name.startswith("train_8/") and op.type == "MatMul" and "kernel_gradient" not in op.name]
    assert len(convolutions) == 8, "two layers, two processors, two halves"
    assert {len(convolutions & ancestors[name]) for name in products} == {4}, "behind the sum of a row, of its own half alone"


@pytest.mark.slow
def test_dropout_draws_for_each_half_as_for_microbatches_one_after_the_other(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    i = keras.Input((6,))
    x = keras.layers.Dropout(0.4)(keras.layers.Dense(12, activation="relu")(i))
    model = keras.Model(i, keras.layers.Dense(4)(x))
    steps = steps_for(model, (8, 7))
    halves = _filters(model, cluster).in_two_batches()
    one_by_one = dataclasses.replace(hm.Plan.single(model, 0, cluster, 8), microbatches=2)
    (losses, weights, _), (expected, trained, _) = (our_run(model, plan, cluster, _sgd(), _loss(), steps) for plan in (halves, one_by_one))
    assert np.abs(np.subtract(losses, expected)).max() <= 1e-8 and worst_error(trained, weights) <= 1e-8


def test_what_halves_cannot_be_is_refused_with_every_fault(cluster: Any) -> None:
    model = nets.convs()
    with pytest.raises(PlanError, match="microbatches: are 2, a batch of 1 samples has 1 at most"):
        hm.Plan.filters(model, [1, 1, 0, 0], cluster, 1).in_two_batches()
    stages = hm.Plan.pipeline(model, ["first", "hidden"], [[0], [1]], [[1], [1]], cluster, 8, microbatches=4)
    with pytest.raises(PlanError, match="schedule: is two_batches, which is for one stage, and there are 2"):
        stages.in_two_batches()
    again = hm.Plan.pipeline(model, ["first"], [[0, 1]], [[1, 1]], cluster, 8, microbatches=2, recompute=True)
    with pytest.raises(PlanError, match="recompute: is True, must be left out for the schedule two_batches"):
        again.in_two_batches()


def test_a_plan_in_two_batches_says_so_and_goes_through_a_file(cluster: Any, tmp_path: Any) -> None:
    plan = _filters(nets.convs(), cluster).in_two_batches()
    assert "two_batches, 2 microbatches of 4 samples" in str(plan) and plan.execution.schedule == "two_batches"
    plan.save(tmp_path / "plan.json")
    assert hm.Plan.load(tmp_path / "plan.json") == plan
