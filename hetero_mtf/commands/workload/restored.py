"""A trainer that stands where a checkpoint was made, for computing without training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hetero_mtf.commands.options.shared import BATCH_SIZE, open_cluster

if TYPE_CHECKING:
    from hetero_mtf.training.trainer import Trainer


@contextlib.contextmanager
def restored(
    model: Any, checkpoint: str, cluster: str, plan_file: str | None, batch_size: int | None, loss: Any, metrics: Sequence[Any] = ()
) -> Iterator[Trainer]:
    """Yield a trainer with a checkpoint's weights, on a cluster of its own.

    Parameters
    ----------
    model : Keras model of the structure the checkpoint was made with.
    checkpoint : path of the checkpoint.
    cluster : the cluster as the command line says it.
    plan_file : path of a plan; None for the cluster's first device alone.
    batch_size : samples a batch where there is no plan, None for the default.
    loss, metrics : as for `Trainer`.

    Raises
    ------
    HeteroError
        If a file cannot be read, or does not fit the model or the cluster.
    """
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.training.checkpoint import load_state
    from hetero_mtf.training.trainer import Trainer

    optimizer = load_state(checkpoint).optimizer
    plan = None if plan_file is None else Plan.load(plan_file)
    with open_cluster(cluster) as live:
        plan = plan or Plan.single(model, 0, live, batch_size or BATCH_SIZE)
        with Trainer(model, plan, live, optimizer=optimizer.lower(), loss=loss, metrics=metrics) as trainer:
            trainer.restore(checkpoint)
            yield trainer
