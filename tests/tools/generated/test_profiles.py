from __future__ import annotations

import dataclasses
import math

import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import pair_net, residual_net
from tools.generated.profiles import Figures, Interconnect, generated_profile

UNEQUAL = [Figures(1e12, 2e11), Figures(5e11, 1e11), Figures(3e11, 1e11)]


@pytest.mark.slow
def test_a_generated_profile_has_every_curve_that_planning_asks_for_and_goes_through_a_file() -> None:
    made = generated_profile(residual_net(32), UNEQUAL, 64)
    found = plan(made)
    assert found.predicted is not None and found.predicted.step_s > 0 and found.proof is not None
    assert Profile.from_json(made.to_json()) == made


def test_a_step_takes_as_long_for_one_unit_as_for_a_whole_tile() -> None:
    made = generated_profile(pair_net(64, 64, 64), [dataclasses.replace(UNEQUAL[0], tile=16)], 64)
    one, tile, more = (made.seconds(2, 0, "output", units, "forward") for units in (1, 16, 17))
    assert one == tile < more == made.seconds(2, 0, "output", 32, "forward")


def test_a_layer_that_computes_much_takes_its_operations_and_one_that_computes_little_its_bytes() -> None:
    graph = pair_net(64, 64, 64)
    quick_memory = generated_profile(graph, [Figures(1e9, 1e18, start_s=0.0)], 64).seconds(2, 0, "output", 64, "forward")
    assert quick_memory == pytest.approx(64 * graph.layers[2].flops / 1e9)
    slow_memory = generated_profile(graph, [Figures(1e18, 1e9, start_s=0.0)], 64).seconds(2, 0, "output", 64, "forward")
    weights = sum(v.size for v in graph.layers[2].variables)
    shapes = (graph.layers[1].output_shape, graph.layers[2].output_shape)
    assert slow_memory == pytest.approx(4 * (weights + 64 * sum(map(math.prod, shapes))) / 1e9)


def test_devices_of_two_hosts_have_the_far_link() -> None:
    made = generated_profile(pair_net(), [UNEQUAL[0]] * 3, 8, Interconnect(devices_per_host=2, near_latency_s=1e-6, far_latency_s=1e-3))
    assert {(link.source, link.destination): link.latency_s for link in made.links} == {(0, 1): 1e-6, (0, 2): 1e-3, (1, 2): 1e-3}


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ([], "there is no device to suppose anything of; give the figures of at least one"),
        ([Figures(1e12), Figures(0.0)], "device 1 is supposed to have flops_per_s=0; give a number above zero"),
        ([Figures(1e12, math.nan)], "device 0 is supposed to have memory_bytes_per_s=nan; give a number above zero"),
    ],
)
def test_figures_that_cannot_be_are_refused(figures: list[Figures], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        generated_profile(pair_net(), figures, 8)
