"""Whether a plan can be honoured: for this network, and on this cluster."""

from __future__ import annotations

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.optimizers import SeveralRules, UpdateRule
from hetero_mtf.runtime.cluster import Cluster, check_live


def check_plan(plan: Plan, graph: LayerGraph) -> None:
    """Raise unless a plan is for this network and can be honoured completely.

    Raises
    ------
    PlanError
        If it is no plan, is for another network, or asks for what training does not support.
    """
    if not isinstance(plan, Plan):
        raise PlanError(f"the plan is {plan!r:.60}, not a Plan", "make one with hm.plan(profile) or hm.Plan.single")
    if plan.gradient_sync == "butterfly_mixing" and plan.microbatches > 1:
        raise PlanError(
            f"the plan asks for butterfly mixing and {plan.microbatches} microbatches, which do not go together",
            "use gradient_sync=all_reduce or one microbatch"
        )
    plan.check(graph)


def check_mixing(plan: Plan, rule: UpdateRule) -> None:
    """Raise where butterfly mixing of a part of the layers does not go with the optimizer.

    Raises
    ------
    PlanError
        If gradients are clipped by the norm of all of them, which differs among devices with copies of their own, and then so would the
        weights that are not mixed.
    """
    layouts = {entry.layout for stage in plan.stages for entry in stage.layouts}
    rules = rule.rules if isinstance(rule, SeveralRules) else [rule]
    clips = any(each.config.get("global_clipnorm") for each in rules)
    if plan.gradient_sync == "butterfly_mixing" and layouts != {"batch"} and clips:
        raise PlanError(
            "the optimizer clips by global_clipnorm, and in butterfly mixing of a part of the layers the norm of all gradients differs "
            "from device to device", "use clipnorm, strategy batch or gradient_sync=all_reduce"
        )


def check_cluster(plan: Plan, cluster: Cluster) -> None:
    """Raise unless a plan's devices are those of a live cluster.

    Raises
    ------
    ClusterError
        If the cluster is not a live one.
    PlanError
        If the names of the devices differ.
    """
    check_live(cluster)
    names = tuple(device.name for device in cluster.devices)
    if plan.devices != names:
        raise PlanError(
            f"the plan is for the devices {', '.join(plan.devices)}, this cluster has {', '.join(names)}", "plan again for this cluster"
        )
