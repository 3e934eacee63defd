"""Contribution of each device to a pipeline: the best pipeline without the device, or with it.

Let T(D) be the least predicted step of the plans on the devices D that fit in memory, and U the devices of a plan. The contribution of
a device d in U is T(U - {d}) beside the plan's own step, that of a device outside is T(U + {d}). Both minima are taken over
a few candidates only, so they are upper bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import single_stage
from hetero_mtf.planning.layout.records import DeviceContribution, Prediction
from hetero_mtf.planning.memory.shortfall import pool_lack
from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO
from hetero_mtf.planning.pipeline.group_stages import GroupStages, with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.pipeline.search import PipelineOptions, best_pipeline
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.planning.strategies.contribution import considered_devices, contribution_with, contribution_without

_Runs = list[tuple[tuple[int, ...], tuple[int, ...]]]  # the layers of each stage and its devices


def pipeline_contributions(costs: MicrobatchCosts, plan: Plan) -> tuple[DeviceContribution, ...]:
    """Return for each device what a step would take without it if a pipeline uses it, with it if it does not.

    Parameters
    ----------
    costs : costs of the plan's profile.
    plan : a plan of several stages, with its prediction.

    Notes
    -----
    The least step of these candidates that fit in memory, so an upper bound: the best pipeline of the devices for as many microbatches
    by the same schedule, without replicas, and on one device a stage where there are more than four; the plan's own stages, with the
    device added to one of them, or removed from its own, whose layers go to a neighbour if it was there alone; and each of the other
    devices alone. The plan's stages are not changed where there are replicas or a device is in several stages. Devices are
    chosen as for `device_contributions`.
    """
    assert plan.predicted is not None
    search, best_s = _ContributionSearch(costs, plan), plan.predicted.step_s
    inside, outside = considered_devices(costs.full_batch, plan.used)
    contributions: dict[int, DeviceContribution] = {}
    for device in inside if len(plan.used) > 1 else ():
        name, step_s = search.name(device), min(search.without(device), default=None)
        lack = DeviceContribution(name, True, None, f"no plan without {name} was found that fits in memory")
        contributions[device] = contribution_without(name, step_s, best_s) if step_s is not None else lack
    for device in outside:
        step_s = min(search.including(device), default=None)
        if step_s is not None:
            contributions[device] = contribution_with(search.name(device), step_s, best_s)
    return tuple(contribution for _, contribution in sorted(contributions.items()))


class _ContributionSearch:
    """Candidates on other devices than a pipeline's."""

    def __init__(self, costs: MicrobatchCosts, plan: Plan) -> None:
        self.costs, self.plan = costs, plan
        parts = microbatch_sizes(plan.batch_size, plan.microbatches)
        self._stages = GroupStages(costs.at(parts[0]), len(parts), plan.recompute)
        self._schedule = plan.execution.searched_schedule
        places = sum(len(stage.devices) for stage in plan.stages)
        self._runs: _Runs = [(stage.layers, stage.devices) for stage in plan.stages]
        self._fixed = bool(plan.replicas) or places > len(plan.used)

    def name(self, device: int) -> str:
        """Return the name of a device."""
        return self.costs.profile.cluster.devices[device].name

    def without(self, device: int) -> Iterator[float]:
        """Yield the seconds of plans on the other devices of the pipeline."""
        left = [other for other in self.plan.used if other != device]
        full_batch = self.costs.full_batch
        for other in left:
            yield from self._fitting(predict(full_batch, single_stage(full_batch.graph, other)))
        yield from (seconds for seconds, _ in self._best(left))
        for runs in () if self._fixed else _without_device(self._runs, device):
            yield from self._laid_out(runs)

    def including(self, device: int) -> Iterator[float]:
        """Yield the seconds of pipelines that have a device too."""
        yield from (seconds for seconds, used in self._best([*self.plan.used, device]) if device in used)
        for at, (layers, devices) in enumerate(() if self._fixed else self._runs):
            yield from self._laid_out([*self._runs[:at], (layers, (*devices, device)), *self._runs[at + 1 :]])

    def _best(self, devices: Sequence[int]) -> Iterator[tuple[float, frozenset[int]]]:
        """Yield the seconds and the devices of the best pipeline, if there is one that fits."""
        plan = self.plan
        options = PipelineOptions(
            microbatches=plan.microbatches,
            schedule=self._schedule,
            recompute=plan.recompute,
            groups=len(devices) <= ALL_GROUPS_UP_TO,
            replicas=1,
            devices=tuple(devices),
        )
        try:
            best = best_pipeline(self.costs, options)
        except (NothingToSplitError, PlanError):
            return
        used = frozenset(device for stage in best.pipeline.stages for device in stage.devices)
        yield from ((seconds, used) for seconds in self._fitting(best.prediction))

    def _laid_out(self, runs: _Runs) -> Iterator[float]:
        """Yield the seconds of a pipeline, each stage laid out as is best for it."""
        if len(runs) > 1:
            stages = tuple(with_samples(self._stages.best(*run)[0], self.plan.batch_size) for run in runs)
            depths = self.plan.depths if len(runs) == len(self._runs) else ()
            execution = Execution(self._schedule, self.plan.microbatches, self.plan.recompute, depths)
            pipeline = Pipeline(stages, execution)
            yield from self._fitting(predict_pipeline(self.costs, pipeline)[0])

    def _fitting(self, prediction: Prediction) -> Iterator[float]:
        if not pool_lack(self.costs.profile, prediction.parts):
            yield prediction.step_s


def _without_device(runs: _Runs, device: int) -> Iterator[_Runs]:
    """Yield the stages without a device; where it was alone, once with its layers in either neighbour."""
    at = next(number for number, (_, devices) in enumerate(runs) if device in devices)
    layers, left = runs[at][0], tuple(other for other in runs[at][1] if other != device)
    if left:
        yield [*runs[:at], (layers, left), *runs[at + 1 :]]
        return
    if at:
        yield [*runs[: at - 1], (runs[at - 1][0] + layers, runs[at - 1][1]), *runs[at + 1 :]]
    if at + 1 < len(runs):
        yield [*runs[:at], (layers + runs[at + 1][0], runs[at + 1][1]), *runs[at + 2 :]]
