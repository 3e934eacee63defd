"""Factors of layers follow what many traces agree on, and stay near those of their device where traces scatter."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetero_mtf.planning.refinement.factors import LARGEST_FACTOR, layer_factors, relative_factors, traced_levels
from hetero_mtf.planning.refinement.observations import Observation
from tests.planning.networks import pair_net, profile_of

PROFILE = profile_of(pair_net(), [1e6, 1e6])


def factors_of(observed: list[Observation]) -> dict[tuple[int, int, str, str], float]:
    factors = layer_factors(PROFILE, traced_levels(observed), relative_factors(observed))
    return {(e.layer, e.device, e.split, e.step_pass): e.factor for e in factors}


def test_no_trace_gives_no_factor() -> None:
    assert relative_factors([]) == {} and traced_levels([]) == {} and layer_factors(PROFILE, {}, {}) == ()


def test_layers_that_differ_clearly_get_factors_of_their_own() -> None:
    observed = [Observation(layer, 0, "whole", "forward", 0.1, 0.1 * true) for layer, true in ((1, 0.7), (2, 1.4)) for _ in range(3)]
    factors = factors_of(observed)
    assert factors[1, 0, "whole", "forward"] == pytest.approx(0.7, rel=0.02)
    assert factors[2, 0, "whole", "forward"] == pytest.approx(1.4, rel=0.02)
    assert traced_levels(observed) == {(0, "whole"): pytest.approx(math.log(1.05))}


def test_what_all_layers_have_in_common_is_not_relative() -> None:
    observed = [Observation(layer, 0, "units", "forward", 0.1, 0.2) for layer in (1, 2) for _ in range(3)]
    assert all(abs(factor) < 1e-9 for factor in relative_factors(observed).values())
    assert traced_levels(observed) == {(0, "units"): pytest.approx(math.log(2))}


def test_scatter_is_shrunk_to_the_devices_ratio() -> None:
    generator = np.random.default_rng(3)
    observed = [
        Observation(layer, 0, "whole", "forward", 0.1, 0.12 * float(np.exp(0.3 * generator.standard_normal())))
        for layer in (1, 2)
        for _ in range(3)
    ]
    spread = abs(factors_of(observed)[1, 0, "whole", "forward"] / factors_of(observed)[2, 0, "whole", "forward"] - 1)
    medians = [np.median([o.traced_s for o in observed if o.layer == layer]) for layer in (1, 2)]
    assert spread < abs(medians[0] / medians[1] - 1)


def test_short_passes_say_little() -> None:
    short = [Observation(1, 0, "whole", "forward", 1e-6, 5e-6)] * 3
    long = [Observation(2, 0, "whole", "forward", 0.1, 0.1), Observation(2, 0, "whole", "forward", 0.1, 0.101)]
    assert factors_of([*short, *long])[1, 0, "whole", "forward"] < 1.5


def test_factors_are_bounded() -> None:
    factors = layer_factors(PROFILE, {(0, "whole"): 100.0, (1, "whole"): -100.0}, {})
    assert sorted({entry.factor for entry in factors}) == pytest.approx([1 / LARGEST_FACTOR, LARGEST_FACTOR])
