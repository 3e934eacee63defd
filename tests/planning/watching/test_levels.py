"""A device has changed where all traces show it, and waits for another device do not explain it."""

from __future__ import annotations

import math

import pytest

from hetero_mtf.planning.refinement.plan_run import LayerSeconds, TracedStep
from hetero_mtf.planning.watching.levels import changed_devices, levels, unexplained, usual_passes


def trace(*seconds: float) -> TracedStep:
    """Return a trace in which each device takes some seconds for a layer, a tenth of it for another one."""
    passes = [LayerSeconds(d, layer, "forward", s * part) for d, s in enumerate(seconds) for layer, part in ((0, 1.0), (1, 0.1))]
    return TracedStep(sum(seconds), tuple(passes))


def test_levels_are_those_of_the_medians_of_traces() -> None:
    reference = usual_passes([trace(1.0, 2.0), trace(1.1, 2.0), trace(9.0, 2.0)])
    assert reference[0, 0, "forward"] == 1.1
    level_of = levels(reference, [trace(1.1, 5.0), trace(1.1, 5.0), trace(7.0, 1.0)])
    assert level_of == {0: pytest.approx(0.0), 1: pytest.approx(math.log(2.5))}


def test_a_pass_that_one_side_lacks_does_not_count() -> None:
    reference = {(0, 0, "forward"): 1.0, (0, 1, "forward"): 0.0}
    assert levels(reference, [trace(2.0, 3.0)]) == {0: pytest.approx(math.log(2.0))}


@pytest.mark.parametrize(
    "single, changed",
    [
        ([{0: 0.0, 1: 0.9}, {0: 0.1, 1: 0.8}, {0: 0.0, 1: 1.0}], (1,)),
        ([{0: 0.0, 1: 0.9}, {0: 0.0, 1: 0.05}, {0: 0.0, 1: 1.0}], ()),
        ([{0: -0.9, 1: 0.9}, {0: -0.8, 1: 0.8}, {0: -1.0, 1: 1.0}], (0, 1)),
        ([{0: -0.9, 1: 0.0}, {0: 0.9, 1: 0.0}, {0: -1.0, 1: 0.0}], ()),
    ],
)
def test_a_change_is_seen_in_every_trace(single: list[dict[int, float]], changed: tuple[int, ...]) -> None:
    median = {device: sorted(each[device] for each in single)[1] for device in (0, 1)}
    assert changed_devices(median, single) == changed


def test_a_limited_device_that_works_ahead_after_waits_has_not_changed() -> None:
    level_of = {0: -0.25, 1: 0.9}
    assert unexplained((0, 1), level_of, (0.8, 0.8), log_step=0.5) == (1,)
    assert unexplained((0, 1), {0: -0.9, 1: 0.9}, (0.8, 0.8), log_step=0.5) == (0, 1)
    assert unexplained((0,), {0: -0.25}, (0.8, 0.8), log_step=-0.1) == (0,)
