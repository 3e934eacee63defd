"""Options of what watches a training: early stopping, the best epoch, kept states, logs, and the samples to validate on."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from hetero_mtf.commands.options.shared import Command, FiniteRange
from hetero_mtf.commands.options.typed import taken_fields

_STOP = "Stop where this metric, such as val_loss, does not improve any more, in the direction that Keras infers."
_PATIENCE = "Epochs without a better value before --early-stopping stops.  [default: 0, as in Keras]"
_RESTORE = "End with the weights of the best epoch where --early-stopping is given, else with the last.  [default: the best]"
_BEST = "Save the state of the best epoch by this metric as STATE-best.npz beside --save, the model as MODEL-best.keras beside --output."
_KEEP = "Keep the newest states, numbered by their step, beside --save: STATE-step24.npz; with --save-every those, else one an epoch."
_LOGS = "Folder for epochs.csv, epochs.jsonl and, with tensorboard installed, event files: metrics, learning rate, samples/s."
_SPLIT = "Part of the training samples to validate on, the last of them as in Keras; of volumes --validation-fraction.  [default: none]"


@dataclasses.dataclass(frozen=True)
class CallbackOptions:
    """The options by their names; None for what is not given."""

    early_stopping: str | None = None
    patience: int | None = None
    restore_best_weights: bool | None = None
    best: str | None = None
    keep: int | None = None
    log_dir: str | None = None
    validation_split: float | None = None

    @classmethod
    def taken(cls, given: dict[str, Any]) -> CallbackOptions:
        """Take these options out of all that were given, and return them.

        Parameters
        ----------
        given : name -> value; changed.
        """
        return cls(**taken_fields(cls, given))

    def check(self, save: str | None, output: str | None, volumes: bool) -> None:
        """Refuse options that do not go together.

        Parameters
        ----------
        save, output : --save and --output.
        volumes : whether the data are volumes.

        Raises
        ------
        click.UsageError
            If one lacks what it goes with.
        """
        if self.early_stopping is None:
            for name, value in (("--patience", self.patience), ("--restore-best-weights", self.restore_best_weights)):
                if value is not None:
                    raise click.UsageError(f"{name} goes with --early-stopping METRIC; name the metric, or leave it out")
        if self.best is not None and save is None and output is None:
            raise click.UsageError("--best needs --save FILE or --output FILE.keras, beside which the best epoch is saved")
        if self.keep is not None and save is None:
            raise click.UsageError("--keep needs --save FILE, beside which the states are kept")
        if self.validation_split is not None and volumes:
            raise click.UsageError("--validation-split does not go with --data nifti:TABLE; write --validation-fraction")


def callback_options(command: Command) -> Command:
    """Add --validation-split, --early-stopping, --patience, --restore-best-weights, --best, --keep and --log-dir."""
    part = FiniteRange(0, 1, min_open=True, max_open=True)
    for option in reversed(
        (
            click.option("--validation-split", type=part, metavar="FRACTION", help=_SPLIT),
            click.option("--early-stopping", metavar="METRIC", help=_STOP),
            click.option("--patience", type=click.IntRange(0), metavar="EPOCHS", help=_PATIENCE),
            click.option("--restore-best-weights/--no-restore-best-weights", default=None, show_default=False, help=_RESTORE),
            click.option("--best", metavar="METRIC", help=_BEST),
            click.option("--keep", type=click.IntRange(1), metavar="COUNT", help=_KEEP),
            click.option("--log-dir", metavar="DIR", help=_LOGS),
        )
    ):
        command = option(command)
    return command
