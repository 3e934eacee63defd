"""Train a network on CIFAR-10 over unequal devices: one command, from the files to the test accuracy and the speed-up.

Without --data a task of the shape of CIFAR-10 is generated (tools/generated/tasks.py), which is said, with the test accuracy of a linear
model on it. Options that are not listed here go to `hetero-mtf train`. All that is written is in --folder.

    python -m tools.train_cifar [--data cifar10:DIR] [--model resnet18] [--cluster emulate:1.0,0.5] [--epochs 5] [--quick]

DIR holds data_batch_1 to data_batch_5 and test_batch, as the archive cifar-10-python.tar.gz has them (or .bin files of
cifar-10-binary.tar.gz), itself or in the sub-folder that the archive makes.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

import click
import numpy as np

from hetero_mtf.commands.process.two_devices import unequal_pair
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.data.named import load
from hetero_mtf.errors import HeteroError
from tools.results.training_run import FURTHER, LOGS, MODEL, STATE, check_further, run_command, saving, unless_given
from tools.results.training_summary import summary_text, training_summary

ROOT = pathlib.Path(__file__).resolve().parents[1]
PREDICTED_AT_ONCE = 256
MODELS = {
    "paper_a": ("paper_a.py:cifar",),
    "resnet18": ("residual.py:resnet18",),
    "vgg11": ("vgg.py:vgg11",),
    "small": ("residual.py:residual", "convolutions=9"),
}
QUICK: dict[str, Any] = {
    "model": "vgg11",
    "epochs": 2,
    "batch_size": 32,
    "learning_rate": 0.0005,
    "train_samples": 2000,
    "test_samples": 1000,
    "budget": 15.0,
}


@dataclasses.dataclass(frozen=True)
class CifarTraining:
    """What is trained.

    Parameters
    ----------
    data : name of the data set; None for the generated task.
    model : of `MODELS`.
    cluster : devices, as --cluster of `hetero-mtf train`; None for two unequal ones of this machine.
    strategy, epochs, batch_size, optimizer, learning_rate, budget, seed : as there.
    train_samples, test_samples : of the generated task.
    folder : where everything is written.
    further : options for `hetero-mtf train`.
    """

    data: str | None
    model: str
    cluster: str | None
    strategy: str
    epochs: int
    batch_size: int
    optimizer: str
    learning_rate: float
    budget: float
    seed: int
    train_samples: int
    test_samples: int
    folder: pathlib.Path
    further: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The command that trains, without the data set and the files that it writes."""
        place, *arguments = MODELS[self.model]
        model = ["--model", os.path.relpath(ROOT / "models" / place), *(word for pair in arguments for word in ("--model-arg", pair))]
        how = ["--strategy", self.strategy, "--epochs", self.epochs, "--batch-size", self.batch_size, "--seed", self.seed]
        how += ["--optimizer", self.optimizer, "--learning-rate", self.learning_rate, "--budget", self.budget]
        return ["train", *model, "--cluster", self.cluster or unequal_pair(), *map(str, how), "--no-rebalance", "--compare"]


def train(training: CifarTraining) -> str:
    """Train, and return the summary.

    Raises
    ------
    HeteroError
        If the data set cannot be read.
    SystemExit
        If the training fails.
    """
    saved = saving(training.folder)
    if training.data is None:
        name, data, beside = generated(training)
    else:
        name, data, beside = training.data, load(training.data), ()
    run_command(*training.command, "--data", name, *saved, *training.further)
    accuracy = test_accuracy(training.folder / MODEL, data)
    return summary_text(training_summary(training.folder / STATE, training.folder / LOGS, accuracy, beside))


def generated(training: CifarTraining) -> tuple[str, Dataset, tuple[tuple[str, str], ...]]:
    """Return the name of the generated task's file, the task and a row on a linear model; say that it is not CIFAR-10."""
    from tools.generated.tasks import image_task, linear_accuracy

    data = image_task("cifar10", training.train_samples, training.test_samples)
    linear = linear_accuracy(data)
    click.echo(
        f"No --data was given, so this is not CIFAR-10 but a generated task of its shape (32x32x3, 10 classes, {len(data.x_train)} images "
        f"to train on, {len(data.x_test)} to test on), of which a linear model gets {linear:.3f} of the test images right."
    )
    path = training.folder / "generated.npz"
    np.savez(path, x_train=data.x_train, y_train=data.y_train, x_test=data.x_test, y_test=data.y_test)
    return f"npz:{path}", data, (("linear model", f"{linear:.3f}, its test accuracy"),)


def test_accuracy(model: pathlib.Path, data: Dataset) -> float:
    """Return the test accuracy of a saved Keras model, as Keras computes it on one device."""
    import keras

    network = keras.models.load_model(model, compile=False)
    logits = network.predict(data.x_test, batch_size=PREDICTED_AT_ONCE, verbose=0)
    return float(np.mean(np.argmax(logits, axis=1) == data.y_test))


@click.command(help=__doc__, context_settings=FURTHER)
@click.option("--data", help="cifar10:DIR, or npz:FILE with images of 32x32x3.  [default: a generated task]")
@click.option("--model", type=click.Choice(list(MODELS)), default="paper_a", help="The network, of models/; small has 9 convolutions.")
@click.option("--cluster", help="The devices.  [default: a GPU and the CPU, or two emulated devices of unequal speed]")
@click.option("--strategy", default="auto", help="How to split.")
@click.option("--epochs", type=click.IntRange(1), default=5, help="Epochs.")
@click.option("--batch-size", type=click.IntRange(1), default=64, help="Samples/step.")
@click.option("--optimizer", default="adam", help="Optimizer.")
@click.option("--learning-rate", type=float, default=0.001, help="Learning rate.")
@click.option("--budget", type=float, default=60.0, help="Seconds that measuring the devices may take.")
@click.option("--seed", default=0, help="Of the initial weights and the order of samples.")
@click.option("--train-samples", type=click.IntRange(1), default=10000, help="Images of the generated task to train on.")
@click.option("--test-samples", type=click.IntRange(1), default=2000, help="Images of the generated task to test on.")
@click.option(
    "--folder", type=click.Path(path_type=pathlib.Path, file_okay=False), default="runs/cifar", help="Where everything is written."
)
@click.option("--quick", is_flag=True, help="VGG-11 on few images, some 3 minutes on two cores; options that are given win.")
@click.argument("further", nargs=-1, type=click.UNPROCESSED)
def main(quick: bool, further: tuple[str, ...], **options: Any) -> None:
    """Train and print the summary."""
    check_further(further)
    data = options["data"]
    if data is not None and ":" not in data:
        raise click.UsageError(
            f"--data {data} names no data set; write cifar10:DIR, where DIR holds data_batch_1 to data_batch_5 and test_batch"
        )
    if quick:
        options |= unless_given(QUICK)
        further = ("--no-refine", *further)
    try:
        text = train(CifarTraining(**options, further=further))
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    click.echo(f"\n{text}")


if __name__ == "__main__":
    main()
