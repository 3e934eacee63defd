"""Plans that are made with a model and its devices: of typed shares, and refined by steps; imported after TensorFlow is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hetero_mtf.commands.options.planning_request import PlanningRequest
from hetero_mtf.commands.options.shared import BATCH_SIZE, arguments
from hetero_mtf.commands.workload.first_plan import Prepared
from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.commands.workload.opened_cluster import open_cluster
from hetero_mtf.commands.workload.refining import refined
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import check_profile
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from hetero_mtf.program.optimizer_reading import optimizer_of_spec


def refined_plan(request: PlanningRequest, profile: Profile, plan: Plan) -> Plan:
    """Return the plan with the best measured step; the profile's file has the corrections afterwards.

    Parameters
    ----------
    request : the options of the command.
    profile : the profile in its file.
    plan : the plan that was made from it, to begin with.

    Raises
    ------
    HeteroError
        If the model cannot be made, or the profile is of another network or cluster.
    """
    network, profile_file = _network(request), str(request.profile_file)
    optimizer = optimizer_of_spec(profile.optimizer)
    limit_s = TIME_LIMIT_S if request.refine_time is None else request.refine_time
    with open_cluster(request.cluster) as live:
        check_profile(profile, layer_graph(network), live.record, profile_file)
        prepared = Prepared(plan, profile, None, profile_file)
        return refined(prepared, live, network, "mse", optimizer, limit_s).plan


def manual_plan(request: PlanningRequest, shares: tuple[float, ...]) -> Plan:
    """Return the plan of typed shares.

    Parameters
    ----------
    request : the options of the command.
    shares : relative shares of the devices.

    Raises
    ------
    HeteroError
        If the model cannot be made, or the shares do not fit it or the cluster.
    """
    graph, batch_size = layer_graph(_network(request)), request.batch_size or BATCH_SIZE
    with open_cluster(request.cluster) as live:
        if request.strategy == "batch":
            plan = Plan.batch(graph, shares, live, batch_size, request.gradient_sync)
        else:
            makers: dict[str, Callable[..., Plan]] = {"hybrid": Plan.hybrid, "space": Plan.space}
            make = makers.get(request.strategy, Plan.filters)
            plan = dataclasses.replace(make(graph, shares, live, batch_size), gradient_sync=request.gradient_sync)
    return plan if request.collective is None else plan.with_collective(request.collective)


def _network(request: PlanningRequest) -> Any:
    return load_model(str(request.model), arguments(request.model_arguments), request.precision)
