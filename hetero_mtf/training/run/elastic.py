"""Elastic: a run goes on without workers that are lost, or with less on a device that is full, with the numbers of the undisturbed one."""

from __future__ import annotations

import collections
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hetero_mtf.calibration.calibrate import rough_calibration
from hetero_mtf.errors import ClusterError, DeviceMemoryError, PlanError, WorkerError
from hetero_mtf.planning.choose import candidate_plans, mixes_samples
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.alike_draws import draws_alike
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import with_memory
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.text import split_text
from hetero_mtf.training.run.mirror import Mirror
from hetero_mtf.training.run.run_plans import RunPlans
from hetero_mtf.training.trained_network import TrainedNetwork

NAMED_S = 5.0  # until it is known which worker is gone where a step fails
LOOK_S = 1.0  # between looks whether a worker is back
FAILED_S = 10.0  # until a worker is tried again that was back and could not be used
RETRIES = 3  # of a step on the same workers, where none is known to be lost
ROOM_PART = 0.8  # of what a plan needs on a device that ran out of memory under it, that the next plan may need


class Elastic:
    """Plans for the devices and the memory that are left when workers are lost, or a device is full, and takes the steps since again.

    All synchronous plans are numerically equivalent, so the run goes on as if nothing had happened: losses that were given already stay
    as they are, and every batch is counted once.

    Parameters
    ----------
    network : what is trained.
    plans : the plans of the run.

    Attributes
    ----------
    mirror : what is begun again from.
    """

    def __init__(self, network: TrainedNetwork, plans: RunPlans) -> None:
        self._network, self._plans = network, plans
        self._whole: Profile | None = None  # of all devices that were in use
        self._is_rough = False  # that profile
        self._room: dict[str, int] = {}  # bytes of each device that ran out of memory
        self._had: dict[tuple[str, ...], Plan] = {}  # by their devices, the plans of before, which are gone back to with the same ones
        self._looked_at_s = 0.0
        self._retried: collections.Counter[int] = collections.Counter()  # by step
        self.mirror = Mirror()

    def go_on(self, fault: WorkerError | DeviceMemoryError, step: int) -> None:
        """Go on without the workers that an error names, or with less on the device that it names, and so with those that come meanwhile.

        Where no worker is known to be lost, as after a connection that was reset, it goes on with all of them, `RETRIES` times a step.

        Parameters
        ----------
        fault : the error.
        step : number of the next batch.

        Raises
        ------
        HeteroError
            The error itself where it names neither and has come too often, none would be left, or nothing is mirrored yet; as `hm.plan`
            where there is no room for the network on those that are left.
        """
        if self.mirror.values is None and self._plans.has_plan and (first := self._plans.in_force.first) is not None:
            self.mirror.take(lambda: first)  # no step was taken yet
        reasons: list[str] = []  # one loss may follow another before a step is taken
        while True:
            named = self._named() or fault if isinstance(fault, WorkerError) and not fault.lost else fault
            try:
                if self.mirror.values is not None and (self._tries_again(named, step) or self._adapts(named)):
                    reasons += [named.reason] if named.reason not in reasons else []
                    self._begin_again(named, step, ", ".join(reasons))
                    return
            except (WorkerError, DeviceMemoryError) as other:
                fault = other
            else:
                raise fault

    def take_in(self, read: Callable[[], Mapping[str, np.ndarray]], step: int) -> None:
        """Go on with workers that were lost and are back, if there are any.

        Parameters
        ----------
        read : returns the present values.
        step : number of the next batch.

        Raises
        ------
        HeteroError
            As `go_on`.
        """
        cluster, now_s = self._network.cluster, time.monotonic()
        if not cluster.left_out or now_s < self._looked_at_s + LOOK_S:
            return
        self._looked_at_s = now_s
        back = cluster.returned()
        if not back:
            return
        self._note_whole()
        self.mirror.take(read)
        named = " and ".join(f"worker:{worker}" for worker in back)
        fault, before = WorkerError(f"{named} {'is' if len(back) == 1 else 'are'} back"), cluster.left_out
        try:
            cluster.leave_out(set(before).difference(back))
            self._begin_again(fault, step, fault.reason)
        except ClusterError as failed:  # gone again, or what workers send each other does not come through yet
            if isinstance(failed, WorkerError) and failed.lost:
                raise
            cluster.leave_out(before)
            self._looked_at_s = time.monotonic() + FAILED_S
            if self._plans.plan.devices != tuple(device.name for device in cluster.devices):
                self._begin_again(fault, step, failed.reason)

    def _named(self) -> WorkerError | None:
        """Return which workers are lost, which may become known a moment after a step has failed; None where none are."""
        end_s = time.monotonic() + NAMED_S
        while True:
            fault: WorkerError | None = self._network.cluster.fault()
            if (fault is not None and fault.lost) or time.monotonic() >= end_s:
                return fault
            time.sleep(NAMED_S / 20)

    def leave_out(self, fault: WorkerError) -> None:
        """Leave out the workers that an error names, where there is no plan yet.

        Parameters
        ----------
        fault : the error.

        Raises
        ------
        WorkerError
            The error itself where it names no worker, or none would be left.
        """
        named = fault if fault.lost else self._named() or fault
        if not self._leave_out(named):
            raise fault
        print(f"hetero_mtf: {named.reason}; training begins on the others", file=sys.stderr)

    def planned_without(self, fault: WorkerError, plan: Plan | None, profile: Profile | None) -> tuple[Plan | None, Profile | None]:
        """Return a plan and a profile for the workers that are left, where training was to begin by given ones.

        Parameters
        ----------
        fault : names the workers that are lost.
        plan, profile : as for `RunPlans.begin`, for all workers.

        Raises
        ------
        HeteroError
            As `leave_out`, and where there is no plan with the same numbers.
        """
        while True:
            self.leave_out(fault)
            if self._whole is None:
                self._whole = profile
            batch_size = plan.batch_size if plan is not None else profile.batch_size if profile is not None else 0
            try:
                part = self._profile(batch_size)
                return self._on_those_left(part, plan, fault), None if profile is None else part
            except WorkerError as other:  # another one is lost while the rest is measured
                fault = other

    def _on_those_left(self, part: Profile, plan: Plan | None, fault: WorkerError) -> Plan | None:
        """Return a given plan for the workers that are left; it is gone back to when all are there."""
        if plan is None:
            return None
        self._had[plan.devices] = plan
        return (on_part(plan, Costs(part)) if _is_synchronous(plan) else None) or _plan_for(part, plan, fault)

    def _tries_again(self, fault: WorkerError | DeviceMemoryError, step: int) -> bool:
        """Return whether a step is to be tried again on the same workers: as long as nothing is known to be wrong with them."""
        if not isinstance(fault, WorkerError) or fault.lost or self._network.cluster.fault() is not None:
            return False
        self._note_whole()
        self._retried[step] += 1
        return self._retried[step] <= RETRIES

    def _adapts(self, fault: WorkerError | DeviceMemoryError) -> bool:
        """Note what is lost by an error; return whether training can go on without."""
        self._note_whole()
        return self._leave_out(fault) if isinstance(fault, WorkerError) else self._make_room(fault)

    def _note_whole(self) -> None:
        """Keep the profile of all devices as training has corrected it, before some of them are lost."""
        controller = self._plans.controller
        if not isinstance(controller, Controller):
            return
        known = set() if self._whole is None else {device.name for device in self._whole.cluster.devices}
        if known.issubset(device.name for device in controller.profile.cluster.devices):
            self._whole, self._is_rough = controller.profile, controller.is_rough

    def _make_room(self, fault: DeviceMemoryError) -> bool:
        """Let plans need less on a device that ran out of memory than the present one does; return whether that can be done."""
        plan = self._plans.plan
        self._plans.in_force.free()  # which measuring has no room beside
        try:
            profile = self._profile(plan.batch_size)
        except DeviceMemoryError:  # nor without
            return False
        pool_of = {device.name: device.pool for device in profile.cluster.devices}
        if fault.device not in pool_of:
            return False
        try:
            parts = prediction(Costs(profile), plan).parts
        except PlanError:  # as for a plan of other devices, if workers are lost at the same time
            return False
        needed = sum(part.memory_bytes for part in parts if pool_of[part.device] == pool_of[fault.device])
        self._room[fault.device] = int(ROOM_PART * min(needed, self._room.get(fault.device, needed)))
        return True

    def _leave_out(self, fault: WorkerError) -> bool:
        """Leave out lost workers; return whether that can be done."""
        cluster = self._network.cluster
        lost = to_leave_out(fault.lost, self._slowness())
        if not lost:
            return False
        try:
            cluster.leave_out({*cluster.left_out, *lost})
        except ClusterError:
            return False
        return True

    def _slowness(self) -> Mapping[int, float]:
        """Return the seconds that a step takes on the devices of each worker alone, by its number; empty where nothing was measured."""
        if self._whole is None:
            return {}
        alone_s = Costs(self._whole).alone_s
        return {
            device.worker: min(float(alone_s[at]) for at, other in enumerate(self._whole.cluster.devices) if other.worker == device.worker)
            for device in self._whole.cluster.devices
            if device.worker is not None
        }

    def _begin_again(self, fault: WorkerError | DeviceMemoryError, step: int, reason: str) -> None:
        """Train on under a plan for the devices that are left, from the mirrored values on: under that of before where they had one."""
        start_s = time.perf_counter()
        plans, mirror = self._plans, self.mirror
        before_s = mirror.step_s
        assert mirror.values is not None
        before, first = plans.plan, mirror.steps[0].step if mirror.steps else step
        profile = self._profile(before.batch_size)
        devices = tuple(device.name for device in profile.cluster.devices)
        if isinstance(fault, WorkerError):
            self._had[before.devices] = plans.best_plan
            earlier = self._plan_of_before(profile, before) if _is_synchronous(before) else None
            plan = before if before.devices == devices else earlier or _plan_for(profile, before, fault)
        else:
            self._had.clear()  # there may be no room for them any more
            plan = _plan_for(profile, before, fault)
        controller = plans.begin_again(plan, mirror.values, profile, self._is_rough, has_room=not self._room)
        for each in mirror.steps:
            each.advance(plans.in_force.engine)
        taken_s, expected_s = time.perf_counter() - start_s, before_s if plan.predicted is None else plan.predicted.step_s
        controller.moves.append(Move(first, reason, before, plan, before_s, expected_s, taken_s))
        again = f" and takes {len(mirror.steps)} steps again" if mirror.steps else ""
        print(f"hetero_mtf: {reason}; training goes on with {split_text(plan)} after {taken_s:.1f} s{again}", file=sys.stderr)

    def _plan_of_before(self, profile: Profile, before: Plan) -> Plan | None:
        """Return the plan to go on with where others were lost than it uses, or where these devices had one before; None for another."""
        devices, costs = tuple(device.name for device in profile.cluster.devices), Costs(profile)
        part = on_part(self._plans.best_plan, costs) if set(devices).issubset(before.devices) else None
        for plan in filter(None, (part, self._had.get(devices))):
            if plan.batch_size == before.batch_size and _is_alike(profile, plan, before) and _is_predicted(costs, plan):
                return plan
        return None

    def _profile(self, batch_size: int) -> Profile:
        """Return the profile of the devices that are left, with the memory that is left."""
        cluster, network = self._network.cluster, self._network
        left = {device.name for device in cluster.devices}
        if self._whole is None or not left.issubset(device.name for device in self._whole.cluster.devices):
            self._whole = rough_calibration(cluster, network.graph, batch_size, network.settings.optimizer)
            self._is_rough = True
        profile = self._whole.part([at for at, device in enumerate(self._whole.cluster.devices) if device.name in left])
        for device, room in self._room.items():
            profile = with_memory(profile, device, room) if device in left else profile
        return profile


def _plan_for(profile: Profile, before: Plan, fault: WorkerError | DeviceMemoryError) -> Plan:
    """Return the plan with the shortest predicted step that has the numbers of another one.

    Raises
    ------
    PlanError
        If there is none that fits in memory, or the other one is not synchronous.
    """
    if not _is_synchronous(before):
        raise PlanError(f"{fault.reason}, and a plan that is not synchronous has other numbers on other devices", fault.remedy)
    for plan in candidate_plans(Costs(profile)):
        is_same = isinstance(fault, DeviceMemoryError) and plan.built_from == before.built_from
        if _is_alike(profile, plan, before) and not is_same:
            return plan
    left = ", ".join(device.name for device in profile.cluster.devices)
    raise PlanError(f"{fault.reason}, and no plan for {left} alone has the same numbers and fits in memory", fault.remedy)


def _is_alike(profile: Profile, plan: Plan, before: Plan) -> bool:
    """Return whether a plan has the numbers of another one: the same random draws, and the statistics of as many samples."""
    alike = plan.microbatches == before.microbatches or not mixes_samples(profile.graph)
    return alike and draws_alike(profile.graph, plan, before)


def _is_predicted(costs: Costs, plan: Plan) -> bool:
    """Return whether a plan has a prediction, by which its steps are watched."""
    try:
        prediction(costs, plan)
    except PlanError:
        return False
    return True


def _is_synchronous(plan: Plan) -> bool:
    return plan.execution.stale is None and plan.gradient_sync == "all_reduce"


def on_part(plan: Plan, costs: Costs) -> Plan | None:
    """Return a plan for some of its devices, which computes the same on them; None where it uses others, too.

    Parameters
    ----------
    plan : the plan.
    costs : of the network, on some of the plan's devices.
    """
    devices = tuple(device.name for device in costs.profile.cluster.devices)
    if not {plan.devices[device] for device in plan.used}.issubset(devices):
        return None
    stages = tuple(
        dataclasses.replace(stage, devices=tuple(devices.index(plan.devices[device]) for device in stage.devices)) for stage in plan.stages
    )
    part = dataclasses.replace(plan, devices=devices, stages=stages, predicted=None, alternatives=(), contributions=(), proof=None)
    return part if plan.predicted is None else dataclasses.replace(part, predicted=prediction(costs, part))


def to_leave_out(lost: Sequence[Sequence[int]], slowness: Mapping[int, float]) -> set[int]:
    """Return workers such that at least one of each group is among them: those that are in most groups, the slowest ones first.

    Parameters
    ----------
    lost : groups of workers, as in `WorkerError.lost`.
    slowness : worker -> seconds that a step takes on it alone.

    Examples
    --------
    >>> sorted(to_leave_out([(1,), (1, 2)], {}))
    [1]
    >>> to_leave_out([(0, 1), (0, 2)], {0: 1.0, 1: 2.0, 2: 2.0})
    {0}
    >>> to_leave_out([(0, 1)], {0: 2.0, 1: 1.0})
    {0}
    """
    chosen: set[int] = set()
    left = sorted((set(group) for group in lost if group), key=len)
    while left:
        counts = collections.Counter(worker for group in left for worker in group)
        alone = [worker for group in left if len(group) == 1 for worker in group]
        chosen.add(max(alone or counts, key=lambda worker: (counts[worker], slowness.get(worker, 0.0), worker)))
        left = [group for group in left if not group & chosen]
    return chosen
