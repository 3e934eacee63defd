"""Whether a training may go on under other plans."""

from __future__ import annotations

from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import check_profile
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.planning.refinement.loop import has_alternatives


def can_rebalance(plan: Plan, profile: Profile) -> bool:
    """Return whether there may be other plans with the numbers of a plan, on several devices, and its steps can be predicted.

    Parameters
    ----------
    profile : of its network and cluster.
    """
    if plan.schedule in STALE_SCHEDULES or not has_alternatives(plan, profile.graph) or len(profile.cluster.devices) < 2:
        return False
    try:
        prediction(Costs(profile), plan)
    except PlanError:
        return False
    return True


def check_request(plan: Plan, profile: Profile | None, graph: LayerGraph, cluster: Any) -> None:
    """Raise unless a training by a given plan can be rebalanced.

    Parameters
    ----------
    plan, profile : as they were given.
    graph : the network.
    cluster : live cluster.

    Raises
    ------
    PlanError
        If there is no profile, it is for another batch size, or no other plan has the numbers of this one.
    ProfileError
        If the profile is of another network or cluster.
    """
    if profile is None:
        raise PlanError("rebalancing a given plan needs the profile that it was made from", "give profile=..., or leave rebalance out")
    check_profile(profile, graph, cluster.record)
    if profile.batch_size != plan.batch_size:
        sizes = f"the plan is for batches of {plan.batch_size} and the profile of {profile.batch_size}"
        raise PlanError(f"{sizes}, so it cannot be rebalanced", "calibrate with the batch size of the plan, or leave rebalance out")
    if not can_rebalance(plan, profile):
        wrong = "no other plan has the numbers of this one (its schedule has no flush or no prediction, or it mixes weights)"
        raise PlanError(wrong, "leave rebalance out")
