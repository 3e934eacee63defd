"""Networks drawn at random, in pipelines drawn at random, give the numbers of the same microbatches on one device."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest

from tests.program import drawing
from tests.program.test_random_networks import ATTENDED, NETWORKS, Network, check_drawn

BATCH = 5
MESHES: list[drawing.Axes] = [(("devices", 1),), (("devices", 2),), (("devices", 3),), (("b", 2), ("f", 2)), (("f", 2), ("b", 2))]
STAGES = st.lists(st.sampled_from(MESHES), min_size=2, max_size=4)


def _check(network: Network, meshes: list[drawing.Axes], seed: int) -> None:
    draw = lambda rng, graph: drawing.pipeline(rng, graph, meshes, BATCH)  # noqa: E731
    check_drawn(network, seed, draw, frozenset({"Dropout", "BatchNormalization"}))  # masks and statistics are of microbatches


@hypothesis.settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(NETWORKS, STAGES, st.integers(0, 2**16))
def test_a_random_network_in_a_random_pipeline_gives_the_numbers_of_one_device(
    network: Network, meshes: list[drawing.Axes], seed: int
) -> None:
    _check(network, meshes, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@hypothesis.settings(max_examples=20, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(ATTENDED, STAGES, st.integers(0, 2**16))
def test_many_random_networks_in_random_pipelines_give_the_numbers_of_one_device(
    network: Network, meshes: list[drawing.Axes], seed: int
) -> None:
    _check(network, meshes, seed)
