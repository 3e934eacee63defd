"""`refine`: a plan and a profile corrected by what steps take on a live cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.layers.fallback.keras_call_kind import layers_that_add_losses
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import check_profile
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from hetero_mtf.planning.refinement.loop import Refinement, Refiner
from hetero_mtf.program.objective import read_objective, timed_objective
from hetero_mtf.program.optimizer_reading import read_optimizer
from hetero_mtf.program.plan_checks import check_cluster, check_plan
from hetero_mtf.training.plan_runner import EngineRunner


def refine(
    plan: Plan | None,
    profile: Profile,
    model: Any,
    cluster: Any,
    *,
    loss: Any,
    loss_weights: Any = None,
    optimizer: Any = "sgd",
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
) -> Refinement:
    """Return the plan with the best measured step, and the profile corrected by what its steps took.

    Steps of the given plan, of the best single device, and of every plan that is predicted to be as fast within the error of
    predictions are run and traced, on a batch of random numbers and copies of the weights: the model is not changed. Factors of
    layers, links and launch overhead are estimated from them, and all strategies are solved again, until no plan promises to be a
    per cent faster or the time is spent.

    Parameters
    ----------
    plan : the plan to begin with; None for that of strategy "auto".
    profile : Profile of the network, cluster and batch size; corrections in it are a start.
    model : Keras model.
    cluster : live cluster.
    loss, loss_weights, optimizer : as for `Trainer`.
    time_limit_s : seconds after which no further plan is started, 0 or more. The given plan is always run, and from the default on one
        device too.
    seed : seed of the random batch.

    Returns
    -------
    Refinement; its plan is synchronous if the given one is, so a training has the same numbers under either.

    Raises
    ------
    PlanError
        If the plan is for another network or cluster, or the time limit is below 0.
    ProfileError
        If the profile is of another network or cluster.
    HeteroError
        If something asked for is not supported, or a worker dies.
    """
    if not time_limit_s >= 0:
        raise PlanError(f"the time limit is {time_limit_s:g} seconds", "give 0 or more")
    graph = layer_graph(model)
    check_profile(profile, graph, cluster.record)
    plan = make_plan(profile) if plan is None else plan
    check_plan(plan, graph)
    check_cluster(plan, cluster)
    added = bool(layers_that_add_losses(graph))
    objective = timed_objective(read_objective(loss, loss_weights, read_wiring(model).output_structure, added))
    rule, _ = read_optimizer(optimizer, graph.dtype, graph.has_one_variable_dtype)
    runner = EngineRunner(model, graph, cluster, objective, rule, np.random.default_rng(seed))
    return Refiner(profile, runner, time_limit_s).refine(plan)
