"""Image classification tasks drawn from a seed, of the shape of MNIST and of CIFAR-10: for where their files are not at hand.

Each class has a few small patterns. An image shows one pattern of its class, anywhere, with a random contrast, on a background of
smooth spots, with noise on every pixel. No pixel alone tells the class, so that a linear model is clearly worse than a convolutional one.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.ndimage

from hetero_mtf.data.dataset import Dataset

CLASSES = 10
BLOCK = 500  # images drawn at once, from a seed of their own
WIDTHS = (1.5, 3.0)  # of the details and of the coarse parts of a pattern, pixels
PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)  # of linear models, relative to the mean of the variances
CHOOSING = 0.2  # of the samples to train on choose among the penalties
Array = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class ImageTask:
    """How the images of a task are drawn.

    Parameters
    ----------
    number : tells the task's random numbers from those of other tasks.
    size, channels : of an image, pixels a side.
    pattern : pixels a side of a pattern.
    variants : patterns of a class.
    reach : pixels that a pattern is off the centre at most, along each axis.
    contrast : least and largest standard deviation of a pattern.
    spots : standard deviation of the background.
    noise : standard deviation of the noise of a pixel.
    """

    number: int
    size: int
    channels: int
    pattern: int
    variants: int
    reach: int
    contrast: tuple[float, float]
    spots: float
    noise: float


TASKS = {
    "mnist": ImageTask(1, size=28, channels=1, pattern=18, variants=2, reach=4, contrast=(0.15, 0.35), spots=0.05, noise=0.15),
    "cifar10": ImageTask(2, size=32, channels=3, pattern=20, variants=3, reach=7, contrast=(0.2, 0.4), spots=0.08, noise=0.15),
}


def image_task(kind: str, train: int, test: int, seed: int = 0) -> Dataset:
    """Return a generated data set of ten classes; its first images are the same however many are drawn.

    Parameters
    ----------
    kind : "mnist" for images of 28x28x1, "cifar10" for 32x32x3.
    train, test : number of images to train on and to test on.
    seed : of the patterns and of all images.

    Raises
    ------
    ValueError
        If the kind is unknown or a number is below one.

    Examples
    --------
    >>> task = image_task("cifar10", train=20, test=10)
    >>> task.x_train.shape, task.x_test.dtype, task.classes, bool(0 <= task.x_train.min() <= task.x_train.max() <= 1)
    ((20, 32, 32, 3), dtype('float32'), 10, True)
    """
    if kind not in TASKS:
        raise ValueError(f"there is no generated task {kind!r}; use one of {', '.join(TASKS)}")
    if train < 1 or test < 1:
        raise ValueError(f"{train} images to train on and {test} to test on were asked for; ask for one of each at least")
    task = TASKS[kind]
    patterns = _patterns(task, np.random.default_rng((seed, task.number)))
    parts = [_drawn(task, patterns, count, (seed, task.number, part)) for part, count in ((1, train), (2, test))]
    return Dataset(f"generated:{kind}:{seed}", *parts[0], *parts[1], classes=CLASSES)


def linear_accuracy(dataset: Dataset) -> float:
    """Return the test accuracy of a ridge classifier: least squares on one-hot labels, its penalty chosen on samples held out.

    Parameters
    ----------
    dataset : with class numbers as labels.

    Notes
    -----
    O(samples * pixels^2 + pixels^3). It is refitted to all samples to train on once the penalty is chosen.
    """
    x = dataset.x_train.reshape(len(dataset.x_train), -1).astype(np.float32)
    mean = x.mean(axis=0)
    x, tested = x - mean, dataset.x_test.reshape(len(dataset.x_test), -1).astype(np.float32) - mean
    y = np.eye(dataset.classes, dtype=np.float32)[dataset.y_train]
    middle = y.mean(axis=0)
    y = y - middle
    kept = max(1, round((1 - CHOOSING) * len(x)))
    squares, products = x[:kept].T @ x[:kept], x[:kept].T @ y[:kept]

    def correct(penalty: float, images: Array, labels: npt.NDArray[np.int64]) -> float:
        ridge = penalty * float(np.trace(squares)) / len(squares) + 1e-6
        weights = scipy.linalg.solve(squares + ridge * np.eye(len(squares), dtype=np.float32), products, assume_a="pos")
        return float(np.mean(np.argmax(images @ weights + middle, axis=1) == labels))

    chosen = max(PENALTIES, key=lambda penalty: correct(penalty, x[kept:], dataset.y_train[kept:])) if kept < len(x) else PENALTIES[-1]
    squares, products = squares + x[kept:].T @ x[kept:], products + x[kept:].T @ y[kept:]
    return correct(chosen, tested, dataset.y_test)


def _patterns(task: ImageTask, rng: np.random.Generator) -> Array:
    """Return (classes, variants, side, side, channels) patterns of mean zero and deviation one, on a canvas that any shift stays in."""
    shape = (CLASSES, task.variants, task.pattern, task.pattern, task.channels)
    smooth = sum(_unit(scipy.ndimage.gaussian_filter(rng.standard_normal(shape), (0, 0, width, width, 0))) for width in WIDTHS)
    smooth = _unit(smooth)
    margin = (task.size - task.pattern) // 2 + task.reach
    padding = ((0, 0), (0, 0), (margin, margin), (margin, margin), (0, 0))
    return np.pad(smooth, padding).astype(np.float32)


def _unit(patterns: Array) -> Array:
    """Return patterns of mean zero and deviation one."""
    centred = patterns - patterns.mean(axis=(2, 3, 4), keepdims=True)
    return centred / centred.std(axis=(2, 3, 4), keepdims=True)


def _drawn(task: ImageTask, patterns: Array, count: int, seeds: tuple[int, ...]) -> tuple[Array, npt.NDArray[np.int64]]:
    images = np.empty((count, task.size, task.size, task.channels), np.float32)
    labels = np.empty(count, np.int64)
    for start in range(0, count, BLOCK):
        x, y = _block(task, patterns, np.random.default_rng((*seeds, start // BLOCK)))
        size = min(BLOCK, count - start)
        images[start : start + size], labels[start : start + size] = x[:size], y[:size]
    return images, labels


def _block(task: ImageTask, patterns: Array, rng: np.random.Generator) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the images and labels of one block."""
    labels = rng.integers(0, CLASSES, BLOCK)
    variants = rng.integers(0, task.variants, BLOCK)
    shifts = rng.integers(0, 2 * task.reach + 1, (2, BLOCK))
    windows = np.lib.stride_tricks.sliding_window_view(patterns, (task.size, task.size), axis=(2, 3))
    shown = windows[labels, variants, shifts[0], shifts[1]].transpose(0, 2, 3, 1)  # (images, height, width, channels)
    contrast = rng.uniform(*task.contrast, (BLOCK, 1, 1, 1)).astype(np.float32)
    coarse = rng.standard_normal((BLOCK, task.size // 4, task.size // 4, task.channels), dtype=np.float32)
    spots = task.spots * np.repeat(np.repeat(coarse, 4, axis=1), 4, axis=2)
    noise = task.noise * rng.standard_normal(shown.shape, dtype=np.float32)
    return np.clip(0.5 + contrast * shown + spots + noise, 0, 1), labels
