"""A 3-D residual network with self-attention gives one device's numbers under every kind of plan."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from models.resattnet3d import resattnet, resattnet_small
from tests.program.oracle import Steps, expected_placement, keras_run, our_run, worst_error
from tests.program.pipelines import Pipe, accumulated_run
from tests.program.small_nets import _scatter
from tools.generated.profiles import Figures, Interconnect, generated_profile

BATCH = 7
SIZE = 8  # of a volume
BATCHES = (BATCH, BATCH, 3, BATCH, 2)  # short ones among them
Planner = Callable[[keras.Model, Any], hm.Plan]


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[int, Any]]:
    made = {count: hm.Cluster.local(["cpu:0"] * count) for count in (1, 2, 3, 4, 6)}
    yield made
    for cluster in made.values():
        cluster.close()


def small() -> keras.Model:
    """One block in each of two stages and attention, of odd widths."""
    return _scatter(resattnet_small(SIZE, width=7, classes=3))


def deeper() -> keras.Model:
    """Two blocks in each of two stages, attention in both."""
    return _scatter(resattnet((2, 2), SIZE, 6, 1, 3, (1, 2), 1, "deeper"))


def reduced() -> keras.Model:
    """Queries and keys of fewer channels than values, which only whole layers take."""
    return _scatter(resattnet((1, 2), SIZE, 6, 1, 3, (2,), 4, "reduced"))


@functools.cache
def _on_one_device(build: Callable[[], keras.Model]) -> tuple[keras.Model, Steps, list[float], list[np.ndarray]]:
    keras.config.set_floatx("float64")
    model = build()
    rng = np.random.default_rng(5)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in BATCHES]
    steps = Steps(x, [rng.integers(0, 3, n) for n in BATCHES], [None] * len(BATCHES))
    return model, steps, *keras_run(model, _optimizer(), _loss(), steps)


def _optimizer() -> Any:
    return keras.optimizers.SGD(0.01, momentum=0.9)


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _by_layers(bytes_per_s: float) -> Planner:
    """Return what plans by the layout program, for three unequal devices that are supposed and links of a speed."""

    def plan(model: keras.Model, cluster: Any) -> hm.Plan:
        figures = [Figures(1e8 / slower, 1e9 / slower, start_s=0.0, tile=1) for slower in (1, 2, 2.5)]
        network = Interconnect(near_latency_s=1e-7, near_bytes_per_s=bytes_per_s)
        made = hm.plan(generated_profile(layer_graph(model), figures, BATCH, network), strategy="layers")
        assert len(made.stages[0].devices) == 3
        return dataclasses.replace(hm.Plan.single(model, 0, cluster, BATCH), strategy="layers", stages=made.stages)

    return plan


PLANS: dict[str, tuple[int, Planner]] = {
    "uneven filters": (3, lambda model, cluster: hm.Plan.filters(model, [5, 3, 1], cluster, BATCH)),
    "layers, fast links": (3, _by_layers(1e9)),
    "a grid": (4, lambda model, cluster: hm.Plan.grid(model, [3, 1], [2, 1], cluster, BATCH)),
    "one device": (1, lambda model, cluster: hm.Plan.single(model, 0, cluster, BATCH)),
    "gathered filters, one device without": (3, lambda model, cluster: hm.Plan.filters(model, [4, 0, 3], cluster, BATCH, pairing="gather")),
    "equal filters": (2, lambda model, cluster: hm.Plan.equal(model, cluster, BATCH)),
    "uneven batches": (3, lambda model, cluster: hm.Plan.batch(model, [4, 2, 1], cluster, BATCH)),
    "a hybrid": (2, lambda model, cluster: hm.Plan.hybrid(model, [2, 1], cluster, BATCH)),
    "layers, slow links": (3, _by_layers(1e7)),
}
FAST, SLOW = list(PLANS)[:1], list(PLANS)[1:]


def _check(build: Callable[[], keras.Model], name: str, clusters: dict[int, Any]) -> hm.Plan:
    model, steps, losses, weights = _on_one_device(build)
    keras.config.set_floatx("float64")
    devices, planner = PLANS[name]
    plan = planner(model, clusters[devices])
    ours, trained, placement = our_run(model, plan, clusters[devices], _optimizer(), _loss(), steps)
    assert placement == expected_placement(layer_graph(model), plan)
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (losses, ours)
    assert worst_error(weights, trained) <= 1e-8
    return plan


def _layouts(plan: hm.Plan) -> dict[str, str]:
    return {entry.name: entry.layout for stage in plan.stages for entry in stage.layouts}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_attention_in_a_network_of_volumes_gives_one_devices_numbers(name: str, clusters: dict[int, Any]) -> None:
    found = _layouts(_check(small, name, clusters))
    assert found["attention2_attention"] == found["attention2_weight"] == "split"


@pytest.mark.slow
def test_a_device_without_channels_of_the_attention_has_no_softmax(clusters: dict[int, Any]) -> None:
    model = small()
    plan = hm.Plan.filters(model, [5, 3, 1], clusters[3], BATCH)
    stage, channels = plan.stages[0], {entry.name: sum(entry.sizes) for entry in plan.stages[0].layouts}["attention2_attention"]
    without = [dataclasses.replace(entry, sizes=(channels - 4, 0, 4)) if sum(entry.sizes) == channels else entry for entry in stage.layouts]
    for layouts, devices in ((stage.layouts, 3), (tuple(without), 2)):
        laid_out = dataclasses.replace(plan, stages=(dataclasses.replace(stage, layouts=layouts),))
        with hm.Trainer(model, laid_out, clusters[3], loss=_loss()) as trainer:
            trainer.predict(np.zeros((BATCH, *model.input_shape[1:])))
            assert sum(op.type == "Softmax" for op in trainer._run.engine._tf_graph.get_operations()) == devices


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_attention_gives_one_devices_numbers_under_every_other_plan(name: str, clusters: dict[int, Any]) -> None:
    _check(small, name, clusters)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("build", [deeper, reduced])
def test_deeper_networks_with_attention_give_one_devices_numbers(
    build: Callable[[], keras.Model], name: str, clusters: dict[int, Any]
) -> None:
    _check(build, name, clusters)


INSIDE = Pipe(("start", "block1_1_conv2", "attention2_query"), ((0, 1), (2,), (3, 4, 5)), ((3, 1), (1,), (1, 2, 1)), ("filters",), 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "pipe",
    [
        INSIDE,
        dataclasses.replace(INSIDE, splits=("batch", "filters", "batch"), recompute=True),
        Pipe(("start", "block2_1_conv1", "attention2_attention"), INSIDE.devices, INSIDE.shares, microbatches=2, schedule="fill_drain"),
    ],
    ids=["groups of unequal devices", "batches, recomputed", "a cut through the attention"],
)
def test_a_pipeline_of_groups_gives_the_numbers_of_the_same_microbatches_on_one_device(pipe: Pipe, clusters: dict[int, Any]) -> None:
    model, steps, _, _ = _on_one_device(small)
    keras.config.set_floatx("float64")
    losses, weights = accumulated_run(model, _optimizer(), steps, pipe.microbatches)
    plan = pipe.plan(model, clusters[6], BATCH)
    ours, trained, placement = our_run(model, plan, clusters[6], _optimizer(), _loss(), steps)
    assert placement == expected_placement(layer_graph(model), plan)
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (losses, ours)
    assert worst_error(weights, trained) <= 1e-8


@pytest.mark.slow
def test_training_with_attention_goes_on_from_a_checkpoint_under_another_plan(clusters: dict[int, Any], tmp_path: Any) -> None:
    model, steps, losses, weights = _on_one_device(small)
    keras.config.set_floatx("float64")
    cluster = clusters[2]
    with hm.Trainer(model, hm.Plan.equal(model, cluster, BATCH), cluster, optimizer=_optimizer(), loss=_loss()) as trainer:
        first = [trainer.train_on_batch(x, y) for x, y in zip(steps.x[:2], steps.y[:2])]
        trainer.save(tmp_path / "state")
    with hm.Trainer(model, hm.Plan.batch(model, [2, 1], cluster, BATCH), cluster, optimizer=_optimizer(), loss=_loss()) as trainer:
        trainer.restore(tmp_path / "state")
        rest = [trainer.train_on_batch(x, y) for x, y in zip(steps.x[2:], steps.y[2:])]
        assert np.abs(np.subtract(losses, first + rest)).max() <= 1e-8
        trained = trainer.to_keras()
    assert worst_error(weights, trained.get_weights()) <= 1e-8
    trained.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(steps.x[0], verbose=0), trained.predict(steps.x[0], verbose=0))
