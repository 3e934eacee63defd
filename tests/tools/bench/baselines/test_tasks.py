"""Other libraries train the same networks with the same losses."""

from __future__ import annotations

import ast
import json
import pathlib
import sys

import keras
import numpy as np
import pytest

from tools.bench.baselines import limited
from tools.bench.baselines.tasks import COMPARED, TITLES, UNET, Trained, VoxelTask, compared_task
from tools.bench.baselines.turns import loss_factor
from tools.bench.today.networks import unet3d


def test_every_network_has_a_title_and_one_of_pytorch() -> None:
    tree = ast.parse((pathlib.Path(limited.HERE) / "torch_networks.py").read_text())
    (table,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NETWORKS")
    assert isinstance(table, ast.Dict)
    assert set(COMPARED) <= {ast.literal_eval(key) for key in table.keys if key} <= set(TITLES)


@pytest.mark.slow
def test_what_others_train_is_read_off_the_model() -> None:
    model = compared_task(UNET).model
    assert Trained.of(UNET, model) == Trained(UNET, 339_569, (32, 32, 32, 1), 1, "voxels")
    inputs = keras.Input((4, 4, 3))
    classifier = keras.Model(inputs, keras.layers.Dense(5)(keras.layers.Flatten()(inputs)))
    assert Trained.of("dense", classifier) == Trained("dense", 48 * 5 + 5, (4, 4, 3), 5, "classes")


@pytest.mark.slow
def test_the_loss_of_a_map_is_the_mean_over_samples() -> None:
    task = VoxelTask(unet3d(4, 2, 1), 3)
    x, y = task.data
    loss, predicted = task.settings["loss"], np.full_like(x, 0.3)
    parts = [float(loss(y[sample : sample + 1], predicted[sample : sample + 1])) for sample in range(3)]
    assert x.shape == y.shape == (3, 4, 4, 4, 1) and set(np.unique(y)) == {0.0, 1.0}
    assert float(loss(y, predicted)) == pytest.approx(np.mean(parts), rel=1e-6)


def test_weighted_losses_of_unequal_parts_average_to_the_loss_of_the_batch() -> None:
    batches, losses = [5, 2, 1], np.random.default_rng(0).normal(size=8)
    parts = np.split(losses, np.cumsum(batches)[:-1])
    weighted = [loss_factor({"batch": len(part), "batches": batches}) * part.mean() for part in parts]
    assert np.mean(weighted) == pytest.approx(losses.mean(), rel=1e-12)


@pytest.mark.slow
def test_the_mirrored_strategy_trains_a_map() -> None:
    words = (sys.executable, "mirrored_worker.py", json.dumps({"network": UNET}))
    workers = limited.LimitedWorkers(words, [0.5, 0.5], [1, 1])
    try:
        assert workers.weights == 339_569
        before = workers.step()
        assert workers.step(3) < before
    finally:
        workers.close()
