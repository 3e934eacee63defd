"""`hetero-mtf evaluate`: metrics of a checkpoint on samples it was not trained on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.volumes import SIZES, VolumeOptions, default_batch_size, is_volumes, reading_options

if TYPE_CHECKING:
    from hetero_mtf.commands.workload.workload import Workload
    from hetero_mtf.report.scores import Scores

PARTS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True)
class EvaluateRequest:
    """The options of the command, by their names on the command line."""

    model: str | None
    model_arguments: tuple[tuple[str, Any], ...]
    dtype: str | None
    data: str
    checkpoint: str
    cluster: str = "local"
    plan: str | None = None
    batch_size: int | None = None
    part: str = "test"
    positive: str | None = None
    json: str | None = None
    loss: str | None = None
    metrics: tuple[str, ...] = ()
    volumes: VolumeOptions = VolumeOptions()

    def __post_init__(self) -> None:
        self.volumes.check_data(self.data)
        if is_volumes(self.data):
            if self.loss is not None or self.metrics:
                raise click.UsageError("--loss and --metrics do not go with --data nifti:TABLE, of which the scores are printed")
            return
        if self.model is None:
            raise click.UsageError("--model is missing; only what was trained on nifti:TABLE is stored with its model")
        for name in ("positive", "json"):
            if getattr(self, name) is not None:
                raise click.UsageError(f"--{name} goes with --data nifti:TABLE only")
        if self.part == "validation":
            raise click.UsageError("--part validation goes with --data nifti:TABLE only")


@click.command()
@shared.model_options(required=False, dtype=None)
@shared.data_option
@click.option("--checkpoint", required=True, metavar="FILE", help="What hetero-mtf train --save wrote.")
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to compute by.  [default: the cluster's first device alone]")
@click.option("--batch-size", type=click.IntRange(1), help=f"Samples a batch.  [default: the plan's, or {SIZES}]")
@click.option("--part", type=click.Choice(PARTS), default="test", help="The samples to look at.")
@shared.objective_options
@click.option("--positive", metavar="CLASS", help="Volumes: the class that sensitivity is of.  [default: the one named as worse]")
@click.option("--json", metavar="FILE", help="Volumes: where to write the scores.")
@reading_options
def command(**options: Any) -> None:
    """Print the test metrics of a trained model.

    Of volumes (--data nifti:TABLE): accuracy, balanced accuracy, sensitivity, specificity and the area under the ROC curve, each with
    its confidence interval, over the test part of the split that is stored with the checkpoint. So are the model, the classes and
    the preprocessing, so --model need not be given.
    """
    asked = EvaluateRequest(volumes=VolumeOptions.taken(options), **options)
    from hetero_mtf.commands.process.command_files import evaluate_files
    from hetero_mtf.commands.process.files import check_files

    check_files(evaluate_files(asked))
    if is_volumes(asked.data):
        evaluate_volumes(asked)
        return
    from hetero_mtf.commands.workload.restored import restored
    from hetero_mtf.commands.workload.workload import load_workload

    subject = load_workload(asked.model or "", asked.model_arguments, asked.dtype or "float32", asked.data)
    subject = subject.choosing(shared.ObjectiveChoice(asked.loss, asked.metrics))
    click.echo(subject.loss_text)
    with restored(subject.model, asked.checkpoint, asked.cluster, asked.plan, asked.batch_size, subject.loss, subject.metrics) as trainer:
        with subject.data.testing(asked.batch_size or trainer.plan.batch_size, asked.part) as source:
            metrics = trainer.evaluate(source)
    click.echo(subject.metrics_text(metrics, asked.part))


def evaluate_volumes(asked: EvaluateRequest) -> Scores:
    """Print and return the scores of a trained network over a part of the volumes it was trained with.

    Parameters
    ----------
    asked : what the command line says.

    Raises
    ------
    HeteroError
        If something cannot be read or does not fit.
    """
    from hetero_mtf.commands.mri.volumes import ModelOrigin, trained_workload
    from hetero_mtf.commands.workload.stored import load_stored
    from hetero_mtf.json_file import write_json

    made = ModelOrigin(asked.model, asked.model_arguments, asked.dtype)
    if asked.positive is not None:
        load_stored(asked.checkpoint).check_classes((asked.positive,), "--positive")
    subject = trained_workload(made, asked.data, asked.volumes, asked.checkpoint)
    for line in subject.data.lines:
        click.echo(line)
    found = _scores(asked, subject)
    click.echo(f"\n{found.table().text()}\n\n{found.confusion_table().text()}")
    if asked.json is not None:
        write_json(asked.json, {"kind": "scores", "version": 1, "checkpoint": asked.checkpoint, "part": asked.part, **found.document()})
        click.echo(f"saved {asked.json}")
    return found


def _scores(asked: EvaluateRequest, subject: Workload) -> Scores:
    from hetero_mtf.commands.mri.predictions import predicted
    from hetero_mtf.commands.workload.restored import restored
    from hetero_mtf.data.volumes.volume_data import VolumeData

    data = subject.data
    assert isinstance(data, VolumeData)
    chosen = data.part(asked.part)
    size = asked.batch_size or (default_batch_size(asked.data) if asked.plan is None else None)
    with restored(subject.model, asked.checkpoint, asked.cluster, asked.plan, size, subject.loss) as trainer:
        found = predicted(trainer, subject.graph, chosen, data.cache, data.workers, (asked.part,) * len(chosen.scans))
    return found.scores(positive=asked.positive)
