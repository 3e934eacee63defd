from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import Prediction, Stage
from hetero_mtf.planning.pipeline.baselines import simpler_pipelines
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan, time_line
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import proven
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.simulator import Entry, Simulation, ideal_bubble
from hetero_mtf.report import pipeline_sections as pipeline
from hetero_mtf.report.measured import Measured, MeasuredTask
from hetero_mtf.report.pipeline_sections import measured_bubble, pipeline_sections, simpler_times, stage_bottlenecks, stages_table
from hetero_mtf.report.plan_facts import facts, reported_plan
from hetero_mtf.report.section import sections_text
from hetero_mtf.units import seconds_text
from tests.planning.networks import pair_net, profile_of

GRAPH = pair_net(24, 24, 24)


def unequal() -> Profile:
    return profile_of(GRAPH, [2e6, 1e6, 1e6], 1e-3, batch_size=8)


def typed(schedule: str = "1f1b", **options: object) -> Plan:
    made = Plan.pipeline(GRAPH, ["first", "second"], [[0, 2], [1]], [[2, 1], [1]], unequal().cluster, 8, microbatches=4, schedule=schedule)
    return dataclasses.replace(made, **options)  # type: ignore[arg-type]


def simulated(made: Plan, profile: Profile | None = None) -> Simulation:
    found = time_line(Costs(profile or unequal()), made)
    assert found is not None
    return found[1]


def tasks_of(made: Plan, step: Simulation, slower: float = 2.0) -> tuple[MeasuredTask, ...]:
    """Return the tasks of a step that took longer than predicted, each device busy for half of every task."""
    return tuple(
        MeasuredTask(
            made.devices[d], e.stage, e.microbatch, e.step_pass, slower * e.start_s, slower * e.end_s, slower * (e.end_s - e.start_s) / 2
        )
        for e in step.tasks
        for d in made.stages[e.stage].devices
    )


def measured(made: Plan, tasks: tuple[MeasuredTask, ...]) -> Measured:
    return Measured(made.digest, made.strategy, 8, made.devices, 30, 1.0, tasks=tasks)


def test_the_stages_are_listed_with_what_the_simulation_says_of_them() -> None:
    made = typed()
    step, table = simulated(made), stages_table(made, simulated(made))
    assert stages_table(made).rows == (("0", "worker:0, worker:2", "2", "input", "first"), ("1", "worker:1", "3", "second", "head"))
    assert table.headings[5:] == ("forward", "backward", "communication", "update", "compute", "idle", "in flight")
    forward = next(e for e in step.tasks if e.stage == 1)
    sent = [e.end_s - e.start_s for e in step.transfers if e.microbatch == 0]
    first, last = table.rows
    assert last[5] == seconds_text(forward.end_s - forward.start_s) and first[7] == seconds_text(sum(sent)) and last[7] == "-"
    assert (first[11], last[11]) == ("2", "1") and last[10] == f"{step.bubbles[1]:.0%}"


def test_without_a_flush_every_stage_has_both_passes_and_equal_stages_are_never_idle() -> None:
    late = Plan.pipeline(GRAPH, ["first", "second"], [[0], [1]], [[1], [1]], unequal().cluster, 8, schedule="decoupled")
    step = simulated(late)
    rows = stages_table(late, step).rows
    assert all(cell != "-" for row in rows for cell in row[5:7])
    assert [row[11] for row in rows] == ["3", "1"]
    assert stage_bottlenecks(late, step)[1].endswith("with 2 equal stages without communication it would be 0%")


def test_the_stage_that_works_longest_is_the_bottleneck() -> None:
    made = typed()
    step = simulated(made)
    spent = sum(e.end_s - e.start_s for e in (*step.tasks, *step.updates) if e.stage == 1)
    share = f"{seconds_text(spent)} of {seconds_text(step.step_s + 1.0)}, {spent / (step.step_s + 1.0):.0%}"
    bottleneck, bubble = stage_bottlenecks(made, step, launch_s=1.0)
    assert bottleneck == f"stage 1 on worker:1 is the bottleneck: it computes for {share}"
    ideal = f"{ideal_bubble(2, 4):.0%}"
    assert bubble.startswith(
        f"the bubble is {step.bubble:.0%}: the share of the passes in which its devices are idle; with 2 equal stages and 4"
    )
    assert bubble.endswith(f"microbatches without communication it would be {ideal}")


def test_a_slow_link_is_the_bottleneck() -> None:
    slow = profile_of(GRAPH, [2e9, 1e9, 1e9], 1e-3, bandwidth=1e5, batch_size=8)
    told = stage_bottlenecks(typed(), simulated(typed(), slow))[0]
    assert told.startswith("communication between stages 0 and 1 is the bottleneck: transfers are under way for ")
    assert 50 < int(told.rpartition(", ")[2].rstrip("%")) <= 100


def test_what_is_sent_both_ways_at_once_counts_once() -> None:
    sent = (Entry(0, 0, "forward", 0.0, 2.0), Entry(0, 0, "backward", 1.0, 1.5), Entry(0, 1, "backward", 2.5, 3.0))
    step = Simulation(4.0, 4.0, (Entry(0, 0, "forward", 0.0, 1.0),), sent, (), (0.0,) * 2, 0.5, (1,) * 2, (0.0,) * 2)
    assert stage_bottlenecks(typed(), step)[0].endswith("transfers are under way for 2.50 s of 4.00 s, 62%")


def test_stages_that_share_a_device_are_its_work_together() -> None:
    made = Plan.pipeline(
        GRAPH, ["first", "second", "head"], [[1], [0], [1]], [[1]] * 3, unequal().cluster, 8, microbatches=2, schedule="interleaved"
    )
    entries = tuple(Entry(stage, 0, "forward", at, at + 0.6) for at, stage in enumerate((0, 2)))
    step = Simulation(3.0, 3.0, (*entries, Entry(1, 0, "forward", 0.0, 1.0)), (), (), (0.0,) * 3, 0.5, (1,) * 3, (0.0,) * 3)
    bottleneck, bubble = stage_bottlenecks(made, step)
    assert bottleneck == "stages 0 and 2 on worker:1 are the bottleneck: they compute for 1.20 s of 3.00 s, 40%"
    assert bubble.endswith(f"it would be {ideal_bubble(2, 3):.0%}")


def test_the_measured_line_stands_under_the_predicted_one_on_its_scale() -> None:
    made = typed()
    step = simulated(made)
    titles = [section.title for section in pipeline_sections(made, step)]
    assert titles == ["Stages", "Predicted time line"]
    _, predicted, traced = pipeline_sections(made, step, measured(made, tasks_of(made, step)))
    assert predicted.line is not None and traced.line is not None and predicted.line.total_s == traced.line.total_s > step.step_s
    lasted = f"took {seconds_text(2 * step.passes_s)}, 2.00 times what was predicted ({seconds_text(step.passes_s)})"
    assert traced.sentences[0] == f"the tasks of one traced step {lasted}"
    far = pipeline_sections(made, step, measured(made, tasks_of(made, step, 5.0)))
    assert [section.line.total_s for section in far[1:] if section.line is not None] == [step.step_s, pytest.approx(5 * step.passes_s)]
    bubble = measured_bubble(tasks_of(made, step))
    assert bubble == pytest.approx((step.bubble, 1 - (1 - step.bubble) / 2))
    gaps = f"{bubble[0]:.0%} between the bars, {bubble[1]:.0%} with the gaps inside them"
    assert traced.sentences[1] == f"measured bubble {gaps}, predicted {step.bubble:.0%}, ideal {ideal_bubble(2, 4):.0%}"


def test_a_pipeline_is_explained_with_its_profile_and_without() -> None:
    made = typed(predicted=predict_plan(Costs(unequal()), typed()))
    run = measured(made, tasks_of(made, simulated(made)))
    found = {section.title: section for section in facts(reported_plan(made, unequal(), run))}
    last = ["Stages", "Predicted time line", "Measured time line", "Equal split and ideal", "Contribution of each device"]
    assert list(found)[-5:] == last
    assert "is the bottleneck" in found["Bottleneck"].sentences[0]
    assert "passes of several microbatches overlap" in found["Predicted step"].sentences[-1]
    beside = found["Equal split and ideal"].table
    assert beside is not None
    names = [row[0] for row in beside.rows]
    assert names[4:7] == ["equal partition into 2 stages", "same stages, no microbatches", "planned (pipeline)"]
    alone = {section.title: section for section in facts(reported_plan(made, None, run))}
    assert "Predicted time line" not in alone and alone["Measured time line"].sentences[1].startswith("measured bubble ")
    assert alone["Stages"].table == stages_table(made)
    text = sections_text(tuple(found.values()))
    assert text.count("worker:1, stage 1  ") == 2 and "f0--- forward pass of microbatch 0" in text


def test_a_pipeline_is_set_beside_simpler_ones_predicted_and_measured() -> None:
    made, costs = typed(), Costs(unequal())
    simpler = simpler_pipelines(GRAPH, made)
    expected = [predict_plan(costs, other) for other in simpler.values()]
    times = simpler_times(made, costs)
    assert [time.name for time in times] == list(simpler) == ["equal partition into 2 stages", "same stages, no microbatches"]
    assert [time.predicted_s for time in times] == [step.step_s for step in expected if step is not None]
    assert [time.measured_s for time in times] == [None, None]
    run = dataclasses.replace(measured(made, ()), simpler_s={"equal partition into 2 stages": 7.0})
    assert [time.measured_s for time in simpler_times(made, costs, run)] == [7.0, None]
    assert simpler_times(Plan.filters(GRAPH, [1, 1, 1], unequal().cluster, 8), costs) == ()
    rows = next(section.table for section in facts(reported_plan(made, unequal(), run)) if section.title == "Equal split and ideal")
    assert rows is not None and ("equal partition into 2 stages", "7.00 s") in {(row[0], row[2]) for row in rows.rows}


def test_simpler_ones_that_take_no_time_or_that_nothing_predicts_are_not_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter([Prediction(0.0, 0.0, 0.0, 0.0, ()), None])
    monkeypatch.setattr(pipeline, "predict_plan", lambda *given: next(steps))
    assert [time.predicted_s for time in simpler_times(typed(), Costs(unequal()))] == [None, None]


def test_a_planned_pipeline_says_how_good_its_cuts_are() -> None:
    made = plan(unequal(), strategy="pipeline", pipeline=PipelineOptions(microbatches=4))
    assert proven(made) == "partition" and "\nPartition: optimal, " in str(made) and isinstance(made.stages[0], Stage)
    assert facts(reported_plan(made, unequal()))[1].sentences[3].startswith("partition: optimal, ")
    assert proven(plan(unequal(), strategy="layers")) == "layouts"
