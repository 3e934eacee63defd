"""Which trainings are long enough to try plans before them."""

import dataclasses

import pytest

from hetero_mtf.commands.workload.refining import LEAST_S, PART_OF_TRAINING, refine_limit_s
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from tests.planning.networks import pair_net, profile_of

PLAN = plan(profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6))


@pytest.mark.parametrize("seconds, limit_s", [(0.9 * LEAST_S, None), (1.1 * LEAST_S, 1.1 * LEAST_S), (100 * TIME_LIMIT_S, TIME_LIMIT_S)])
def test_the_limit_is_a_part_of_the_training_up_to_the_usual_one(seconds, limit_s):
    steps = 1000
    step_s = seconds / PART_OF_TRAINING / steps
    timed = dataclasses.replace(PLAN, predicted=dataclasses.replace(PLAN.predicted, step_s=step_s))
    assert refine_limit_s(timed, steps) == (None if limit_s is None else pytest.approx(limit_s))


def test_a_plan_without_a_prediction_is_not_refined():
    assert refine_limit_s(dataclasses.replace(PLAN, predicted=None), 10**9) is None
