"""`hetero-mtf evaluate`: test metrics of a checkpoint."""

from __future__ import annotations

from typing import Any

import click

from hetero_mtf.commands import options as shared


@click.command()
@shared.model_options()
@shared.data_option
@click.option("--checkpoint", required=True, metavar="FILE", help="What hetero-mtf train --save wrote.")
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to compute by.  [default: the cluster's first device alone]")
@click.option("--batch-size", type=click.IntRange(1), help=f"Samples a batch.  [default: the plan's, or {shared.BATCH_SIZE}]")
def command(
    model: str,
    model_arguments: tuple[tuple[str, Any], ...],
    dtype: str,
    data: str,
    checkpoint: str,
    cluster: str,
    plan: str | None,
    batch_size: int | None,
) -> None:
    """Print the test metrics of a trained model."""
    from hetero_mtf.commands.restored import restored
    from hetero_mtf.commands.subject import load_subject

    subject = load_subject(model, model_arguments, dtype, data)
    with restored(subject.model, checkpoint, cluster, plan, batch_size, subject.loss, subject.metrics) as trainer:
        metrics = trainer.evaluate(subject.data.testing(batch_size or trainer.plan.batch_size))
    click.echo(subject.metrics_text(metrics))
