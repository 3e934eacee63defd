"""The trace that stands for a run's steps."""

import itertools

from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training.timing import trace_median_step


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
