"""Accuracy after some epochs: one training, and the table of several."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tools.bench.comparison.measured import arrangement_text
from tools.results.publication import table_row
from tools.results.records import Column, Row

ACCURACY_COLUMNS = (
    Column("task", "task"),
    Column("arrangement", "arrangement"),
    Column("batch", "batch"),
    Column("epochs", "epochs"),
    Column("accuracy", "test accuracy", ".1%"),
    Column("accuracies", "by seed", ".1%"),
    Column("loss", "training loss", ".4f"),
    Column("linear", "best linear model", ".1%"),
)


@dataclasses.dataclass(frozen=True)
class Learning:
    """How long a network learns.

    Parameters
    ----------
    train, test : samples.
    batch : samples per step.
    epochs : passes over the training samples.
    """

    train: int
    test: int
    batch: int
    epochs: int


BRIEF = Learning(1200, 300, 50, 8)  # the least by which `small_network` is better than a linear model


def small_network(size: int = 32) -> Any:
    """Return an AlexNet-like network of few filters for images of ten classes.

    Parameters
    ----------
    size : height and width of an image, pixels.
    """
    from models.alexnet import alexnet

    return alexnet(size, (16, 24, 32, 24, 24), 48, classes=10)


def settings() -> dict[str, Any]:
    """Return the optimizer and the loss of the accuracies."""
    import keras

    optimizer = keras.optimizers.SGD(0.003, momentum=0.9)
    return {"optimizer": optimizer, "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}


def learnt(
    model: Any, plan: Any, cluster: Any, settings: Mapping[str, Any], dataset: Any, learning: Learning, seed: int
) -> dict[str, float]:
    """Return the accuracy on the test samples, the last training loss and the seconds of a training.

    Parameters
    ----------
    settings : optimizer and loss.
    dataset : samples and labels.
    learning : how long.
    seed : of dropout and of the order of samples.
    """
    import hetero_mtf as hm

    start_s = time.perf_counter()
    with hm.Trainer(model, plan, cluster, **settings, metrics=["accuracy"], seed=seed) as trainer:
        sizes = {"epochs": learning.epochs, "batch_size": learning.batch, "verbose": 0}
        history = trainer.fit(dataset.x_train, dataset.y_train, **sizes)
        scores = trainer.evaluate(dataset.x_test, dataset.y_test, batch_size=learning.batch)
    seconds = time.perf_counter() - start_s
    return {"accuracy": float(scores["accuracy"]), "loss": float(history.history["loss"][-1]), "train_s": seconds}


def accuracy_rows(subject: Any, learning: Learning, case: Mapping[str, Any], cells: Mapping[str, Any] = MappingProxyType({})) -> list[Row]:
    """Return a row for each arrangement, means over seeds.

    Parameters
    ----------
    subject : the task (`papers.tasks.Subject`).
    case : linear, and scores: arrangement -> `learnt` of each seed.
    cells : further entries of each row.
    """
    scores: Mapping[str, Sequence[Mapping[str, float]]] = case["scores"]
    rows = []
    for name, runs in scores.items():
        accuracies = [run["accuracy"] for run in runs]
        figures = {
            "accuracy": statistics.fmean(accuracies),
            "accuracies": accuracies if len(accuracies) > 1 else None,
            "loss": statistics.fmean(run["loss"] for run in runs),
            "linear": case["linear"],
        }
        sizes = {"batch": learning.batch, "epochs": learning.epochs}
        rows.append(table_row({**cells, "task": subject.name, "arrangement": arrangement_text(name), **sizes, **figures}))
    return rows
