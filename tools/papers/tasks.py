"""What the papers' networks learn: the user's files, or a generated task of the same shape, and how hard it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.papers.learning import Learning

GENERATED = "no files were given, so the task is generated: images of the same shape, of ten drawn patterns with shifts and noise"


@dataclasses.dataclass(frozen=True)
class Subject:
    """A task.

    Parameters
    ----------
    name : what tables call it.
    dataset : standardised samples and labels (`hetero_mtf.data.dataset.Dataset`).
    linear : test accuracy of the best linear model.
    note : where it comes from, and how hard it is.
    """

    name: str
    dataset: Any
    linear: float
    note: str


def subject_of(kind: str, named: Sequence[str], learning: Learning, seed: int = 0) -> Subject:
    """Return the task of a kind: from the user's files where they are named, else generated.

    Parameters
    ----------
    kind : "mnist" or "cifar10".
    named : such as "mnist:DIR"; of other kinds they are ignored.
    learning : how many samples are used.
    seed : of the generated task, and of the choice of samples.

    Raises
    ------
    DataError
        If files are missing or damaged.
    """
    from hetero_mtf.data import named as data_sets
    from tools.generated.tasks import image_task, linear_accuracy

    given = next((name for name in named if name.partition(":")[0] == kind), None)
    if given is None:
        dataset, name = image_task(kind, learning.train, learning.test, seed), f"generated, of the shape of {kind}"
    else:
        dataset, name = _subset(data_sets.load(given), learning, seed), kind
    dataset = standardised(dataset)
    linear = linear_accuracy(dataset)
    used = f"{len(dataset.x_train)} samples to train and {len(dataset.x_test)} to test"
    origin = GENERATED if given is None else f"a subset of {kind}"
    return Subject(name, dataset, linear, f"{kind}: {origin}; {used}; the best linear model reaches {linear:.1%}.")


def standardised(dataset: Any) -> Any:
    """Return a data set with inputs of mean 0 and deviation 1 over the training samples, by channel."""
    axes = tuple(range(dataset.x_train.ndim - 1))
    mean, deviation = dataset.x_train.mean(axes), dataset.x_train.std(axes) + 1e-7
    scaled = {part: ((getattr(dataset, part) - mean) / deviation).astype("float32") for part in ("x_train", "x_test")}
    return dataclasses.replace(dataset, **scaled)


def _subset(dataset: Any, learning: Learning, seed: int) -> Any:
    """Return some samples of a data set, drawn by the seed."""
    rng = np.random.default_rng(seed)
    parts: dict[str, Any] = {}
    for part, count in (("train", learning.train), ("test", learning.test)):
        x, y = getattr(dataset, f"x_{part}"), getattr(dataset, f"y_{part}")
        drawn = rng.permutation(len(x))[:count]
        parts |= {f"x_{part}": x[drawn], f"y_{part}": y[drawn]}
    return dataclasses.replace(dataset, **parts)
