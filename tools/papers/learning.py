"""Accuracy after some epochs: one training, and the table of several."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
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
    Column("seeds", "seeds"),
    Column("accuracy", "test accuracy", ".1%"),
    Column("interval", "95 % interval, points", ".1f"),
    Column("difference", "less one device, points", "+.1f"),
    Column("difference_interval", "95 % interval of pairs, points", ".1f"),
    Column("exact", "one seed in float64", ".1%"),
    Column("accuracies", "by seed", ".1%"),
    Column("plateau", "over the last 3 epochs, points", ".1f"),
    Column("loss", "training loss", ".4f"),
    Column("linear", "best linear model", ".1%"),
)
LAST = 3  # epochs over which the accuracy should not change any more
LEVEL = 0.95


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


def settings(steps: int = 0) -> dict[str, Any]:
    """Return the optimizer and the loss of the accuracies.

    Parameters
    ----------
    steps : of the training; with them the learning rate falls to 0 by a cosine, so that the last epochs change little.
    """
    import keras

    rate = keras.optimizers.schedules.CosineDecay(0.005, steps) if steps else 0.003
    optimizer = keras.optimizers.SGD(rate, momentum=0.9)
    return {"optimizer": optimizer, "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}


def learnt(
    model: Any, plan: Any, cluster: Any, settings: Mapping[str, Any], dataset: Any, learning: Learning, seed: int
) -> dict[str, Any]:
    """Return the accuracies on the test samples after each of the last epochs, the last training loss and the seconds of a training.

    Parameters
    ----------
    settings : optimizer and loss.
    dataset : samples and labels.
    learning : how long.
    seed : of dropout and of the order of samples.
    """
    import hetero_mtf as hm

    start_s = time.perf_counter()
    after = list(range(max(1, learning.epochs - LAST + 1), learning.epochs + 1))  # epochs, from 1
    with hm.Trainer(model, plan, cluster, **settings, metrics=["accuracy"], seed=seed) as trainer:
        sizes = {"epochs": learning.epochs, "batch_size": learning.batch, "verbose": 0}
        tested = {"validation_data": (dataset.x_test, dataset.y_test), "validation_freq": after}
        history = trainer.fit(dataset.x_train, dataset.y_train, **sizes, **tested).history
    last = [float(value) for value in history["val_accuracy"]]
    return {"accuracy": last[-1], "last": last, "loss": float(history["loss"][-1]), "train_s": time.perf_counter() - start_s}


def scores_of(
    case: Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]],
    title: str,
    names: Sequence[str],
    exact: Sequence[str],
    seeds: int,
    train: Callable[[str, int], Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the scores of arrangements over seeds; each training is a case of its own, which a later run finds.

    Parameters
    ----------
    case : as `Experiment.case`.
    title : of the cases.
    names : of the arrangements.
    exact : those that are trained once more in float64, where arrangements that are equivalent have to be equal.
    seeds : number of seeds.
    train : returns what `learnt` does for an arrangement and a seed, in the present precision of Keras.

    Returns
    -------
    {"scores": {arrangement: [...]}, "exact": {arrangement: {...}}}
    """
    from tools.papers.experiment import float64

    def trained(name: str, seed: int) -> dict[str, Any]:
        return case(f"{title}, {name}, seed {seed}", lambda: dict(train(name, seed)))

    def trained_exactly(name: str) -> dict[str, Any]:
        with float64():
            return dict(train(name, 0))

    scores: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seed in range(seeds):
        for name in names:
            scores[name].append(trained(name, seed))
    return {
        "scores": scores,
        "exact": {name: case(f"{title}, {name}, float64", lambda: trained_exactly(name)) for name in exact},  # noqa: B023
    }


def interval(values: Sequence[float]) -> float | None:
    """Return half the width of the interval of a mean at `LEVEL`, by Student's t; None of a single value.

    Parameters
    ----------
    values : independent.

    Examples
    --------
    >>> round(interval([1.0, 2.0, 3.0]), 2)
    2.48
    """
    from scipy import stats

    if len(values) < 2:
        return None
    return float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5)


def accuracy_rows(subject: Any, learning: Learning, case: Mapping[str, Any], cells: Mapping[str, Any] = MappingProxyType({})) -> list[Row]:
    """Return a row for each arrangement, means over seeds; the first arrangement is one device.

    Parameters
    ----------
    subject : the task (`papers.tasks.Subject`).
    case : linear, what `scores_of` returns.
    cells : further entries of each row.
    """
    scores: Mapping[str, Sequence[Mapping[str, Any]]] = case["scores"]
    alone = [run["accuracy"] for run in next(iter(scores.values()))]
    rows = []
    for number, (name, runs) in enumerate(scores.items()):
        own = [run["accuracy"] for run in runs]
        pairs = [100 * (value - one) for value, one in zip(own, alone)]
        width = interval(own)
        figures = {
            "accuracy": statistics.fmean(own),
            "interval": None if width is None else 100 * width,
            "difference": statistics.fmean(pairs) if number else None,
            "difference_interval": interval(pairs) if number else None,
            "exact": case.get("exact", {}).get(name, {}).get("accuracy"),
            "accuracies": own if len(own) > 1 else None,
            "plateau": statistics.fmean(100 * (max(run["last"]) - min(run["last"])) for run in runs) if "last" in runs[0] else None,
            "loss": statistics.fmean(run["loss"] for run in runs),
            "linear": case["linear"],
        }
        sizes = {"batch": learning.batch, "epochs": learning.epochs, "seeds": len(runs)}
        rows.append(table_row({**cells, "task": subject.name, "arrangement": arrangement_text(name), **sizes, **figures}))
    return rows
