"""Factors follow what many traces agree on, and stay near those of their device where traces scatter."""

from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.planning.refinement.factors import LARGEST_FACTOR, layer_factors
from hetero_mtf.planning.refinement.observations import Observation
from tests.planning.networks import pair_net, profile_of

PROFILE = profile_of(pair_net(), [1e6, 1e6])


def factors_of(observed: list[Observation]) -> dict[tuple[int, int, str, str], float]:
    return {(e.layer, e.device, e.split, e.step_pass): e.factor for e in layer_factors(PROFILE, observed)}


def test_no_trace_gives_no_factor() -> None:
    assert layer_factors(PROFILE, []) == ()


def test_layers_that_differ_clearly_get_factors_of_their_own() -> None:
    observed = [Observation(layer, 0, "whole", "forward", 0.1, 0.1 * true) for layer, true in ((1, 0.7), (2, 1.4)) for _ in range(3)]
    factors = factors_of(observed)
    assert factors[1, 0, "whole", "forward"] == pytest.approx(0.7, rel=0.02)
    assert factors[2, 0, "whole", "forward"] == pytest.approx(1.4, rel=0.02)


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


def test_what_was_not_traced_takes_half_of_its_device() -> None:
    observed = [Observation(layer, 0, "units", "forward", 0.1, 0.2) for layer in (1, 2) for _ in range(3)]
    factors = factors_of(observed)
    assert factors[4, 0, "units", "forward"] == pytest.approx(2.0, rel=0.01)
    assert factors[1, 0, "samples", "forward"] == pytest.approx(2**0.5, rel=0.01)
    assert factors[1, 0, "alone", "forward"] == 1.0
    assert not any(device == 1 for _, device, _, _ in factors)


def test_short_passes_say_little() -> None:
    short = [Observation(1, 0, "whole", "forward", 1e-6, 5e-6)] * 3
    long = [Observation(2, 0, "whole", "forward", 0.1, 0.1), Observation(2, 0, "whole", "forward", 0.1, 0.101)]
    assert factors_of([*short, *long])[1, 0, "whole", "forward"] < 1.5


def test_factors_are_bounded() -> None:
    factors = factors_of([Observation(1, 0, "whole", "forward", 1e-3, 1.0)] * 3)
    assert max(factors.values()) <= LARGEST_FACTOR
