"""The steps before plans are timed, and the trace that stands for a run's steps."""

import itertools

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training.timing import WARM_UP_STEPS, trace_median_step, warm_up_steps
from tests.planning.networks import cluster_of, pair_net


class Steps:
    """Stands in for a trainer: each traced step takes the next of some seconds."""

    def __init__(self, *seconds):
        self.seconds, self.calls = itertools.cycle(seconds), []

    def train_on_batch(self, x, y):
        self.calls.append("train")

    def trace_on_batch(self, x, y):
        self.calls.append("trace")
        return StepTrace(next(self.seconds), ())


def test_the_traced_step_is_the_median_one_and_not_the_first_after_something_else():
    steps = Steps(9.0, 1.0, 2.0)
    assert trace_median_step(steps, None, None).step_s == 2.0
    assert steps.calls == ["train", "trace", "trace", "trace"]


def test_plans_without_a_flush_are_warm_once_every_stage_has_had_a_batch():
    single = Plan.single(pair_net(), 0, cluster_of(2), 8)
    late = Plan.pipeline(pair_net(), ["first", "second"], [[0], [1]], [[1], [1]], cluster_of(2), 8, schedule="decoupled")
    assert warm_up_steps([single]) == WARM_UP_STEPS
    assert warm_up_steps([single, late]) == WARM_UP_STEPS + 3


def test_plans_that_mix_are_warm_once_each_phase_has_its_program():
    mixed = Plan.batch(pair_net(), [1] * 5, cluster_of(5), 10, gradient_sync="butterfly_mixing")
    assert warm_up_steps([Plan.single(pair_net(), 0, cluster_of(5), 10), mixed]) == WARM_UP_STEPS + 2
