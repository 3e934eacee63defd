"""Generated image tasks: shapes, seeds, and that a linear model is well below a network and above chance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from hetero_mtf.data.dataset import Dataset
from tools.generated.tasks import BLOCK, CLASSES, PENALTIES, TASKS, image_task, linear_accuracy

SHAPES = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}


@pytest.mark.parametrize("kind", TASKS)
def test_a_task_has_the_shape_and_range_of_the_data_set_that_it_stands_for(kind: str) -> None:
    task = image_task(kind, train=300, test=200)
    assert task.sample_shape == SHAPES[kind] and task.classes == CLASSES and task.counts == {"train": 300, "test": 200}
    assert task.x_train.dtype == task.x_test.dtype == np.float32
    assert 0 <= task.x_train.min() < 0.1 and 0.9 < task.x_train.max() <= 1 and 0.4 < task.x_train.mean() < 0.6
    assert set(task.y_train) == set(task.y_test) == set(range(CLASSES))


def test_a_seed_gives_the_same_images_and_another_one_others() -> None:
    first, again, other = (image_task("mnist", 40, 20, seed) for seed in (3, 3, 4))
    assert np.array_equal(first.x_train, again.x_train) and np.array_equal(first.y_test, again.y_test)
    assert not np.array_equal(first.x_train, other.x_train)
    assert not np.array_equal(first.x_train[:20], first.x_test)


def test_the_first_images_are_the_same_however_many_are_drawn() -> None:
    few, many = image_task("mnist", 5, 5), image_task("mnist", BLOCK + 5, 7)
    assert np.array_equal(few.x_train, many.x_train[:5]) and np.array_equal(few.y_test, many.y_test[:5])


@pytest.mark.slow
@pytest.mark.fast("mnist")
@pytest.mark.parametrize("kind", TASKS)
def test_a_linear_model_is_above_chance_and_leaves_much_to_learn(kind: str) -> None:
    assert 0.2 < linear_accuracy(image_task(kind, train=1000, test=500)) < 0.7


@pytest.mark.slow
def test_the_linear_model_is_a_ridge_classifier() -> None:
    task = image_task("mnist", train=600, test=300)
    flat = [x.reshape(len(x), -1) for x in (task.x_train, task.x_test)]
    scale = float(np.var(flat[0], axis=0).sum()) * len(flat[0]) / flat[0].shape[1]
    models = [RidgeClassifier(alpha=part * scale).fit(flat[0], task.y_train) for part in PENALTIES]
    assert linear_accuracy(task) == pytest.approx(max(model.score(flat[1], task.y_test) for model in models), abs=0.05)


def test_a_task_that_is_linear_is_solved() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (np.eye(3)[y] + 0.05 * rng.normal(size=(60, 3))).astype("float32").reshape(60, 1, 3, 1)
    assert linear_accuracy(Dataset("linear", x[:40], y[:40], x[40:], y[40:], classes=3)) == 1.0


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="generated task 'imagenet'; use one of mnist, cifar10"):
        image_task("imagenet", 1, 1)
    with pytest.raises(ValueError, match="0 images to train on"):
        image_task("mnist", 0, 1)
