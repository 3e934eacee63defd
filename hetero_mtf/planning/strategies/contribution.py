"""Contribution of each device: the predicted step of a plan without the device, or with it where the plan does not use it.

For a plan P of predicted step T(P) on the devices D, the contribution of device d is T(P without d) for d in D, and T(P with d)
otherwise. The layouts of P stay, its sizes are recomputed (`Resizer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import DeviceContribution, Stage
from hetero_mtf.planning.memory.shortfall import pool_lack
from hetero_mtf.planning.strategies.resizing import Resizer
from hetero_mtf.planning.strategies.split_search import Candidate

LEAST_CONTRIBUTION = 0.02  # of a step
ALL_DEVICES_UP_TO = 8  # devices; of more, only the slowest
SLOWEST = 3


def device_contributions(costs: Costs, chosen: Candidate, others: Iterable[Candidate] = ()) -> tuple[DeviceContribution, ...]:
    """Return for each device the predicted step without it if the plan uses it, with it if the plan does not.

    Parameters
    ----------
    chosen : the plan.
    others : plans of other strategies that fit in memory; those without, or with, the device are considered too.

    Notes
    -----
    The plan without a device keeps the layouts of its layers and has its sizes recomputed (`Resizer`), so its step is an upper bound:
    other layouts may be faster. For a plan on two mesh axes the best other plan on one axis stands in. Of more than eight devices,
    only the three slowest that are used and the three fastest that are not are considered. O(layers * devices * units) a device.
    """
    used = chosen.stage.devices
    inside, outside = considered_devices(costs, used)
    known = list(others)
    resizer = _resizer(costs, chosen, known)
    contributions = {device: _without(costs, resizer, chosen, known, device) for device in inside if len(used) > 1}
    contributions.update({device: _with(costs, resizer, chosen, known, device) for device in outside})
    return tuple(contribution for _, contribution in sorted(contributions.items()) if contribution is not None)


def considered_devices(costs: Costs, used: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the devices that a plan uses and those that it does not, the fastest first.

    Of more than eight devices only the three slowest that are used and the three fastest that are not.

    Parameters
    ----------
    used : indices of the devices that the plan uses.
    """
    inside, outside = ([d for d in costs.by_speed if (d in used) == wanted] for wanted in (True, False))
    return (inside[-SLOWEST:], outside[:SLOWEST]) if len(costs.by_speed) > ALL_DEVICES_UP_TO else (inside, outside)


def without_slowing_devices(costs: Costs, chosen: Candidate) -> Candidate:
    """Return a plan without the devices that make its step longer, its layouts unchanged and its sizes recomputed.

    Parameters
    ----------
    chosen : the plan; one on two mesh axes is returned unchanged.

    Notes
    -----
    Greedy: devices are left out one by one, each time the one without which the predicted step is shortest, until no removal
    shortens it; of more than eight only the three slowest are considered. Heuristic, never worse than its start. O(devices^2)
    predictions.
    """
    while len(chosen.stage.devices) > 1 and len(chosen.stage.axes) == 1:
        resizer, used = Resizer(costs, chosen.stage), chosen.stage.devices
        slowest = used
        if len(used) > ALL_DEVICES_UP_TO:
            slowest = tuple([device for device in costs.by_speed if device in used][-SLOWEST:])
        candidates = [leaner for device in slowest for leaner in _fitting_candidates(costs, resizer.on([d for d in used if d != device]))]
        best = min(candidates, key=lambda c: c.prediction.step_s, default=chosen)
        if best.prediction.step_s >= chosen.prediction.step_s * (1 - 1e-9):
            break
        chosen = best
    return chosen


def _resizer(costs: Costs, chosen: Candidate, others: Sequence[Candidate]) -> Resizer | None:
    """Return the `Resizer` of the plan, or for a mesh of two axes that of the best other plan on one."""
    if len(chosen.stage.devices) < 2:
        return None
    plans = [chosen, *sorted(others, key=lambda c: c.prediction.step_s)]
    return next((Resizer(costs, c.stage) for c in plans if len(c.stage.axes) == 1 and len(c.stage.devices) > 1), None)


def _without(
    costs: Costs, resizer: Resizer | None, chosen: Candidate, others: Sequence[Candidate], device: int
) -> DeviceContribution | None:
    left = [d for d in chosen.stage.devices if d != device]
    resized = _fitting_candidates(costs, resizer.on(left)) if resizer is not None else []
    steps = [c.prediction.step_s for c in [*resized, *others] if device not in c.stage.devices]
    name, best_s = costs.profile.cluster.devices[device].name, chosen.prediction.step_s
    if not steps:
        if resizer is None:
            return None
        return DeviceContribution(name, True, None, f"no plan without {name} was found that fits in memory")
    return contribution_without(name, min(steps), best_s)


def contribution_without(name: str, step_s: float, best_s: float) -> DeviceContribution:
    """Return the contribution of a device that a plan uses.

    Parameters
    ----------
    name : name of the device.
    step_s : predicted seconds of a step without it.
    best_s : predicted seconds of a step of the plan.
    """
    times = step_s / best_s if best_s > 0 else 1.0
    if times < 1 + LEAST_CONTRIBUTION:
        change = f"costs {times - 1:.1%}" if times > 1.0005 else "costs nothing" if times > 0.9995 else f"saves {1 - times:.1%}"
        return DeviceContribution(
            name, True, step_s, f"leaving out {name} {change}: its contribution is {'negative' if times <= 0.9995 else 'negligible'}"
        )
    return DeviceContribution(name, True, step_s, f"leaving out {name} makes a step {times:.2f} times as long")


def _with(costs: Costs, resizer: Resizer | None, chosen: Candidate, others: Sequence[Candidate], device: int) -> DeviceContribution | None:
    resized = _fitting_candidates(costs, resizer.on(sorted((*chosen.stage.devices, device)))) if resizer is not None else []
    steps = [c.prediction.step_s for c in [*resized, *others] if device in c.stage.devices]
    if not steps:
        return None
    return contribution_with(costs.profile.cluster.devices[device].name, min(steps), chosen.prediction.step_s)


def contribution_with(name: str, step_s: float, best_s: float) -> DeviceContribution:
    """Return the contribution of a device that a plan does not use.

    Parameters
    ----------
    name : name of the device.
    step_s : predicted seconds of a step with it.
    best_s : predicted seconds of a step of the plan.
    """
    times = step_s / best_s if best_s > 0 else 1.0
    if abs(times - 1) < LEAST_CONTRIBUTION:
        change = f"costs {times - 1:.1%}" if times > 1.0005 else "gains nothing" if times > 0.9995 else f"gains only {1 - times:.1%}"
        return DeviceContribution(name, False, step_s, f"using {name} as well {change}: its contribution is negligible")
    return DeviceContribution(name, False, step_s, f"using {name} as well makes a step {times:.2f} times as long")


def _fitting_candidates(costs: Costs, stage: Stage) -> list[Candidate]:
    """Return the candidate of a stage if it fits in memory."""
    prediction = predict(costs, stage)
    return [] if pool_lack(costs.profile, prediction.parts) else [Candidate(stage, prediction)]
