import dataclasses

from hetero_mtf.commands.output.plan_report import verdict_text
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.step_time import StepTime, StepTimes
from tests.planning.networks import cluster_of, pair_net, profile_of

PROFILE = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6, batch_size=8)


def test_a_compared_run_ends_with_its_measured_gain():
    made = plan(PROFILE)
    step_s = made.predicted.step_s
    times = StepTimes(
        (StepTime("worker:0", None, 1.5 * step_s), StepTime("worker:1", None, 2.5 * step_s)), StepTime("planned", None, step_s)
    )
    lines = verdict_text(made, None, None, times).splitlines()
    assert lines[0].startswith("measured: 1.50 x faster than the best single device (worker:0), 0.94 of ideal")
    assert lines[1].startswith("predicted: ") and len(lines) == 2


def test_a_run_that_was_not_compared_says_what_was_measured_and_what_is_predicted():
    made = plan(PROFILE)
    measured = Measured(made.digest, made.strategy, 8, made.devices, 9, 2 * made.predicted.step_s)
    lines = verdict_text(made, PROFILE, measured, None).splitlines()
    assert lines[0].startswith("measured ") and "2.00 times what was predicted" in lines[0]
    assert lines[1].startswith("predicted: ") and "is 2.00 times the predicted" in lines[2]


def test_of_a_manual_plan_that_was_not_measured_nothing_is_said():
    typed = Plan.filters(PROFILE.graph, [1, 1], cluster_of(2), 8)
    assert verdict_text(typed, None, None, None) == ""
    assert verdict_text(dataclasses.replace(typed, predicted=plan(PROFILE).predicted), None, None, None).startswith("predicted: ")
