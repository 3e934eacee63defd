"""The trainer of a run, with a plan, where its training begins or goes on; imported after TensorFlow is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.options.shared import BATCH_SIZE
from hetero_mtf.commands.options.volume_options import default_batch_size
from hetero_mtf.commands.workload.first_plan import Prepared
from hetero_mtf.commands.workload.run_settings import ChosenRun
from hetero_mtf.errors import PlanError
from hetero_mtf.file_kind import CHECKPOINT, file_kind
from hetero_mtf.planning.exploration.plan_history import PlanHistory
from hetero_mtf.planning.names import MEASURES
from hetero_mtf.training.checkpoint import State, load_state
from hetero_mtf.training.control.rebalance_request import can_rebalance
from hetero_mtf.training.trainer import Trainer


@contextlib.contextmanager
def begun_trainer(request: TrainRequest, run: ChosenRun, prepared: Prepared | None, live: Any) -> Iterator[Trainer]:
    """Yield the trainer of a run.

    Parameters
    ----------
    request, run : the options, and what is trained with.
    prepared : the plan; None where the trainer finds its plans, by --measure.
    live : the cluster.

    Raises
    ------
    HeteroError
        If there is no plan that can be trained by, or the state that training goes on from cannot be read, or does not fit.
    """
    workload, state = run.workload, None if request.resume is None else load_state(request.resume)
    settings: dict[str, Any] = {"loss": workload.loss, "metrics": workload.metrics, "seed": request.seed}
    settings["elastic"] = request.elastic
    if prepared is not None:
        size = prepared.plan.batch_size
        settings |= {"plan": prepared.plan, "profile": prepared.profile, "rebalance": _rebalances(request, prepared)}
    else:
        measure = request.measure if request.measure in MEASURES else repeated_plans(request.measure)
        size = _batch_size(request, measure, state)
        settings |= {"measure": measure, "rebalance": request.rebalance}
    optimizer = run.make_optimizer(request.epochs * -(-workload.data.counts["train"] // size))
    with Trainer(workload.model, cluster=live, optimizer=optimizer, **settings) as trainer:
        if prepared is None and _last_size(state) != size:
            trainer.prepare(size)
        if state is not None:
            trainer.restore(str(request.resume), state)
        state = None  # whose weights are not needed any more
        yield trainer


def repeated_plans(path: str) -> PlanHistory:
    """Return the plans of an earlier training, which are to be repeated.

    Parameters
    ----------
    path : path of a file of plans, or of a state.

    Raises
    ------
    HeteroError
        If it is neither, or a state without plans.
    """
    if file_kind(path) != CHECKPOINT:
        return PlanHistory.load(path)
    plans = load_state(path).plans
    if plans is None:
        raise PlanError(f"{path} was saved without its plans, by an earlier version", "give a file that a later training saved")
    return plans


def _batch_size(request: TrainRequest, measure: str | PlanHistory, state: State | None) -> int:
    """Return the samples a step: those of the plans to repeat, else those asked for, of the state, or the default."""
    if isinstance(measure, PlanHistory):
        size = measure.spans[0].plan.batch_size
        if request.batch_size not in (None, size):
            asked = f"the plans of {request.measure} are for batches of {size} and --batch-size is {request.batch_size}"
            raise PlanError(asked, "leave the option out")
        return size
    return request.batch_size or _last_size(state) or default_batch_size(request.data) or BATCH_SIZE


def _last_size(state: State | None) -> int | None:
    """Return the samples of a step of the plan that a state was saved under; None where that is not known."""
    return None if state is None or state.plans is None else state.plans.spans[-1].plan.batch_size


def _rebalances(request: TrainRequest, prepared: Prepared) -> bool:
    """Return whether to rebalance: where that is asked for, and by default where the plan is the best of all strategies."""
    if request.rebalance is None:
        free = request.strategy == "auto" and request.collective is None
        return free and prepared.profile is not None and can_rebalance(prepared.plan, prepared.profile)
    return request.rebalance
