"""A trainer that stands where a checkpoint was made, for computing without training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from hetero_mtf.commands.options.requests import EvaluateRequest, PredictRequest
from hetero_mtf.commands.options.shared import BATCH_SIZE
from hetero_mtf.commands.workload.opened_cluster import open_cluster
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.checkpoint import State
from hetero_mtf.training.trainer import Trainer


@contextlib.contextmanager
def restored(
    request: EvaluateRequest | PredictRequest, model: Any, state: State, batch_size: int | None, loss: Any, metrics: Sequence[Any] = ()
) -> Iterator[Trainer]:
    """Yield a trainer with a checkpoint's weights, on a cluster of its own.

    Parameters
    ----------
    request : names the checkpoint, the cluster and the plan; without a plan the cluster's first device computes alone.
    model : Keras model of the structure the checkpoint was made with.
    state : the state in the checkpoint, see `load_state`.
    batch_size : samples a batch where there is no plan, None for the default.
    loss, metrics : as for `Trainer`.

    Raises
    ------
    HeteroError
        If a file cannot be read, or does not fit the model or the cluster.
    """
    plan = None if request.plan is None else Plan.load(request.plan)
    with open_cluster(request.cluster) as live:
        plan = plan or Plan.single(layer_graph(model), 0, live, batch_size or BATCH_SIZE)
        with Trainer(model, plan, live, optimizer=state.optimizer.lower(), loss=loss, metrics=metrics) as trainer:
            trainer.restore(request.checkpoint, state)
            yield trainer
