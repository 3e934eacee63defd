from __future__ import annotations

import dataclasses
import re

import pytest

from hetero_mtf.planning.choose import STRATEGIES, plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import batch_stage, single_stage
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.reasons import bottleneck_part, summed_gradient_bytes, why_longer
from hetero_mtf.planning.strategies.split_search import Candidate
from hetero_mtf.units import seconds_text
from tests.planning.networks import pair_net, profile_of

GRAPH = pair_net(24, 24, 24)


def unequal(latency_s: float = 1e-6, bandwidth: float = 1e12) -> Profile:
    return profile_of(GRAPH, [2e6, 1e6], latency_s, bandwidth, batch_size=8)


def candidate(costs: Costs, name: str) -> Candidate:
    return STRATEGIES[name](costs)


def test_the_bottleneck_is_the_device_that_is_idle_least() -> None:
    part = bottleneck_part(candidate(Costs(unequal()), "equal").prediction)
    assert part is not None and part.device == "worker:1"


def test_an_equal_split_is_longer_because_the_slow_device_computes_while_the_fast_one_waits() -> None:
    costs = Costs(unequal())
    other, best = candidate(costs, "equal"), candidate(costs, "filters")
    text = why_longer(costs, other, best)
    slow, before = bottleneck_part(other.prediction), bottleneck_part(best.prediction)
    assert slow is not None and before is not None
    idle = seconds_text(other.prediction.parts[0].idle_s)
    assert text == f"worker:1 computes {seconds_text(slow.compute_s - before.compute_s)} longer while worker:0 is idle for {idle}"


def test_one_device_alone_is_longer_because_the_other_would_be_idle() -> None:
    costs = Costs(unequal())
    text = why_longer(costs, candidate(costs, "single"), candidate(costs, "filters"))
    assert re.fullmatch(r"worker:0 computes .* longer as worker:1 is not used", text)


def test_slow_links_make_the_batch_split_longer_by_its_gradients() -> None:
    costs = Costs(unequal(bandwidth=1e3))
    stage = batch_stage(GRAPH, [5, 3], [0, 1])
    other, best = Candidate(stage, predict(costs, stage)), Candidate(single_stage(GRAPH, 0), predict(costs, single_stage(GRAPH, 0)))
    gradients = sum(v.size for layer in GRAPH.layers for v in layer.variables if v.trainable) * 4
    assert summed_gradient_bytes(costs, stage) == gradients and summed_gradient_bytes(costs, best.stage) == 0
    text = why_longer(costs, other, best)
    assert re.search(r"worker:[01] communicates .* longer \(.* for 205\.\d KiB of gradients\)", text), text


@pytest.mark.parametrize("latency_s", [1e-6, 1e-3, 1e-1])
def test_the_parts_told_make_up_the_difference(latency_s: float) -> None:
    costs = Costs(unequal(latency_s))
    found = [candidate(costs, name) for name in ("single", "equal", "filters", "batch", "hybrid")]
    best = min(found, key=lambda c: c.prediction.step_s)
    its = bottleneck_part(best.prediction)
    assert its is not None
    for other in found:
        mine = bottleneck_part(other.prediction)
        assert mine is not None
        told = sum(getattr(mine, name) - getattr(its, name) for name in ("compute_s", "communication_s", "idle_s"))
        assert told == pytest.approx(other.prediction.step_s - best.prediction.step_s)
        longer = other.prediction.step_s > best.prediction.step_s * (1 + 1e-9)
        assert bool(why_longer(costs, other, best)) == longer


def test_a_name_with_braces_stays_as_it_is() -> None:
    profile = unequal()
    devices = (profile.cluster.devices[0], dataclasses.replace(profile.cluster.devices[1], name="{odd} {0}"))
    named = dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=devices))
    assert "{odd} {0} computes" in next(other.reason for other in plan(named).alternatives if other.strategy == "equal")


def test_auto_keeps_what_the_bottleneck_of_each_alternative_does() -> None:
    made = plan(unequal())
    for other in made.alternatives:
        assert (other.bottleneck is None) == (other.step_s is None)
        if other.bottleneck is not None and other.step_s is not None:
            assert other.bottleneck.compute_s + other.bottleneck.communication_s + other.bottleneck.idle_s == pytest.approx(other.step_s)
