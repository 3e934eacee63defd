from __future__ import annotations

import dataclasses
import re

import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import STRATEGIES, plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import DeviceContribution
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.contribution import device_contributions, without_slowing_devices
from hetero_mtf.planning.strategies.resizing import Resizer
from hetero_mtf.planning.strategies.split_search import Candidate
from tests.planning.networks import pair_net, profile_of

GRAPH = pair_net(48, 48, 24)


def of(*speeds: float, latency_s: float = 1e-6) -> Profile:
    return profile_of(GRAPH, speeds, latency_s, batch_size=8)


def by_device(made: Plan) -> dict[str, DeviceContribution]:
    return {contributions.device: contributions for contributions in made.contributions}


def test_a_device_that_carries_much_says_how_much_longer_a_step_would_be_without_it() -> None:
    made = plan(of(2e6, 1e6))
    assert made.predicted is not None
    found = by_device(made)["worker:1"]
    assert found.used and found.step_s == plan(of(2e6)).predicted.step_s  # type: ignore[union-attr]
    assert found.reason == f"leaving out worker:1 makes a step {found.step_s / made.predicted.step_s:.2f} times as long"
    assert 1.4 < found.step_s / made.predicted.step_s < 1.6


def test_a_device_that_hardly_helps_has_a_negligible_contribution() -> None:
    costs = Costs(profile_of(pair_net(400, 400, 24), [2e6, 2e6, 3e4], 1e-9, batch_size=8))
    chosen = STRATEGIES["filters"](costs)
    assert len(chosen.stage.devices) == 3
    found = device_contributions(costs, chosen)[2]
    assert found.step_s is not None
    text = f"leaving out worker:2 costs {found.step_s / chosen.prediction.step_s - 1:.1%}: its contribution is negligible"
    assert found.reason == text and re.search(r" [01]\.[1-9]%", text)


def test_a_device_that_would_change_next_to_nothing_stays_out() -> None:
    costs = Costs(profile_of(pair_net(400, 400, 24), [2e6, 2e6, 3e4], 1e-9, batch_size=8))
    with_it = STRATEGIES["filters"](costs)
    stage = Resizer(costs, with_it.stage).on((0, 1))
    found = device_contributions(costs, Candidate(stage, predict(costs, stage)))[2]
    assert not found.used and found.reason.startswith("using worker:2 as well gains only ")
    assert found.reason.endswith("%: its contribution is negligible")


def test_devices_that_make_a_step_longer_are_left_out_one_by_one() -> None:
    costs = Costs(profile_of(pair_net(400, 400, 24), [2e6, 3e2, 2e6, 3e2], 1e-9, batch_size=8))
    everyone = STRATEGIES["equal"](costs)
    leaner = without_slowing_devices(costs, everyone)
    assert leaner.stage.devices == (0, 2)
    assert leaner.prediction.step_s < everyone.prediction.step_s
    assert without_slowing_devices(costs, leaner) == leaner


def test_a_device_left_out_says_what_using_it_would_cost() -> None:
    made = plan(of(2e6, 1e6, latency_s=1000.0))
    assert made.strategy == "single" and made.predicted is not None
    found = by_device(made)
    assert list(found) == ["worker:1"] and not found["worker:1"].used
    step_s = found["worker:1"].step_s
    assert step_s is not None and step_s in [a.step_s for a in made.alternatives] and step_s > made.predicted.step_s
    assert found["worker:1"].reason == f"using worker:1 as well makes a step {step_s / made.predicted.step_s:.2f} times as long"


def test_a_grid_is_compared_with_the_plans_of_other_strategies_alone() -> None:
    costs = Costs(of(2e6, 2e6, 1e6, 1e6))
    grid, alone = STRATEGIES["grid"](costs), STRATEGIES["single"](costs)
    found = {w.device: w for w in device_contributions(costs, grid, [alone])}
    assert found["worker:3"].step_s == alone.prediction.step_s and "worker:0" not in found
    both = {w.device: w for w in device_contributions(costs, grid, [alone, STRATEGIES["batch"](costs)])}
    assert all(both[f"worker:{d}"].step_s is not None for d in range(4))


def test_a_device_whose_memory_is_needed_has_no_plan_without_it() -> None:
    profile = profile_of(GRAPH, [2e6, 1e6], batch_size=4096)
    chosen = plan(profile, strategy="batch")
    assert chosen.predicted is not None
    needed = max(part.memory_bytes for part in chosen.predicted.parts)
    devices = tuple(dataclasses.replace(d, pool=d.name) for d in profile.cluster.devices)
    pools = tuple(dataclasses.replace(profile.memory[0], name=d.name, free_bytes=needed) for d in devices)
    apart = dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=devices, pools=pools), memory=pools)
    found = by_device(plan(apart, strategy="batch"))["worker:1"]
    assert (found.step_s, found.reason) == (None, "no plan without worker:1 was found that fits in memory")


def test_of_many_devices_only_the_slowest_are_looked_at() -> None:
    costs = Costs(of(*[2e6 - 1e5 * at for at in range(10)]))
    chosen = STRATEGIES["batch"](costs)
    names = [w.device for w in device_contributions(costs, Candidate(chosen.stage, chosen.prediction)) if w.used]
    used = sorted(chosen.stage.devices)
    assert names == [f"worker:{d}" for d in used[-3:]]


def test_one_device_has_nothing_to_be_weighed_against() -> None:
    assert plan(of(1e6)).contributions == ()


def test_contributions_are_printed_and_kept_in_the_file() -> None:
    made = plan(of(2e6, 1e6))
    assert Plan.from_json(made.to_json()) == made
    assert f"Device worker:1: {by_device(made)['worker:1'].reason}" in str(made)


def test_a_contribution_that_cannot_be_is_refused_with_its_path() -> None:
    made = plan(of(2e6, 1e6))
    for wrong, message in (
        (DeviceContribution("gpu:7", True, 1.0, ""), r"contributions\[0\].device: is 'gpu:7', the plan has worker:0, worker:1"),
        (DeviceContribution("worker:0", True, -1.0, ""), r"contributions\[0\].step_s: is -1, must be zero or more"),
    ):
        with pytest.raises(PlanError, match=message):
            dataclasses.replace(made, contributions=(wrong,))


def test_a_bottleneck_that_cannot_be_is_refused_with_its_path() -> None:
    made = plan(of(2e6, 1e6))
    bottleneck = made.alternatives[0].bottleneck
    assert bottleneck is not None
    for change, message in (
        ({"device": "gpu:7"}, r"alternatives\[0\].bottleneck.device: is 'gpu:7', the plan has worker:0, worker:1"),
        ({"compute_s": -2.0}, r"alternatives\[0\].bottleneck.compute_s: is -2, must be zero or more"),
    ):
        wrong = dataclasses.replace(made.alternatives[0], bottleneck=dataclasses.replace(bottleneck, **change))  # type: ignore[arg-type]
        with pytest.raises(PlanError, match=message):
            dataclasses.replace(made, alternatives=(wrong,))
