from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import DevicePart, Prediction
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.report.measured import Measured, MeasuredPart
from hetero_mtf.report.plan_facts import facts, reported_plan, step_times
from hetero_mtf.report.section import Section, sections_text
from hetero_mtf.units import seconds_text
from tests.planning.networks import cluster_of, pair_net, profile_of

GRAPH = pair_net(24, 24, 24)


def unequal() -> Profile:
    return profile_of(GRAPH, [2e6, 1e6, 1e3], 1e-6, batch_size=8)


def titled(sections: tuple[Section, ...]) -> dict[str, Section]:
    return {section.title: section for section in sections}


def predicted(made: Plan) -> Prediction:
    assert made.predicted is not None
    return made.predicted


def test_a_plan_with_its_profile_tells_everything() -> None:
    made = plan(unequal(), strategy="auto")
    found = titled(facts(reported_plan(made, unequal())))
    titles = [
        "Verdict",
        "Plan",
        "Sizes",
        "Predicted step",
        "Bottleneck",
        "Equal split and ideal",
        "Alternatives considered",
        "Contribution of each device",
    ]
    assert list(found) == titles
    assert found["Plan"].sentences[2:4] == ("2 of 3 devices work: worker:0, worker:1", "left out: worker:2")
    assert dict(found["Predicted step"].figures)["step"] == seconds_text(predicted(made).step_s)
    table = found["Equal split and ideal"].table
    assert table is not None and table.rows[3][1] != "-" and table.rows[-2][0] == "ideal"
    contributions = found["Contribution of each device"].table
    assert contributions is not None and [row[1] for row in contributions.rows] == ["uses it", "uses it", "leaves it out"]


def test_without_the_profile_the_rest_is_still_told() -> None:
    found = titled(facts(reported_plan(plan(unequal()))))
    assert "Equal split and ideal" not in found and "Alternatives considered" in found
    assert found["Bottleneck"].sentences[-1] == "whether memory is the bottleneck is not known without the profile"


def test_a_typed_plan_is_predicted_from_the_profile_or_says_that_it_is_not() -> None:
    typed = Plan.filters(GRAPH, [2, 1, 0], cluster_of(3), 8)
    told = titled(facts(reported_plan(typed)))["Predicted step"].sentences
    assert told == ("nothing is predicted: the plan is manual, and no profile is given",)
    subject = reported_plan(typed, unequal())
    assert subject.plan.predicted == predict(Costs(unequal()), typed.stages[0])
    assert "Bottleneck" in titled(facts(subject)) and [w.device for w in subject.plan.contributions] == ["worker:0", "worker:1"]


def test_a_typed_pipeline_is_not_predicted_as_if_it_were_one_stage() -> None:
    typed = Plan.pipeline(GRAPH, ["first", "second"], [[0, 2], [1]], [[2, 1], [1]], cluster_of(3), 8, microbatches=4)
    in_turn = dataclasses.replace(typed, schedule="synchronous")
    for subject, lack in (
        (reported_plan(typed), "no profile is given"),
        (reported_plan(in_turn, unequal()), "its stages work one after another"),
    ):
        found = titled(facts(subject))
        assert found["Predicted step"].sentences == (f"nothing is predicted: the plan is manual, and {lack}",)
        assert found["Plan"].sentences[0].endswith(f"samples, {subject.plan.schedule}, 4 microbatches of 2 samples")
        table = found["Sizes"].table
        assert table is not None and table.rows[1] == ("0", "first", "column", "16", "-", "8")
        assert table.rows[2] == ("1", "second", "replicated", "-", "all", "-") and "Bottleneck" not in found
        assert "Contribution of each device" not in sections_text(facts(subject))
    subject = reported_plan(typed, unequal())
    assert subject.plan.predicted == predict_plan(Costs(unequal()), typed) and "Bottleneck" in titled(facts(subject))


def test_what_binds_a_pipeline_is_sought_among_all_its_devices() -> None:
    typed = Plan.pipeline(GRAPH, ["first", "second"], [[0, 2], [1]], [[2, 1], [1]], cluster_of(3), 8, microbatches=4)
    parts = tuple(DevicePart(typed.devices[d], 0.1, 0.0, idle_s, 2**35) for d, idle_s in zip(typed.used, (0.5, 0.5, 0.0)))
    found = titled(facts(reported_plan(dataclasses.replace(typed, predicted=Prediction(0.6, 0.2, 0.3, 0.1, parts)), unequal())))
    assert found["Bottleneck"].sentences[2].startswith("device worker:1 is the bottleneck: it is never idle")
    assert typed.used == (0, 2, 1) and "memory host is a bottleneck: 96.0 GiB are needed" in found["Bottleneck"].sentences[3]


@pytest.mark.slow
def test_the_ideal_and_the_equal_split_are_those_of_the_profile() -> None:
    made = plan(unequal())
    times = step_times(made, Costs(unequal()))
    alone = [predicted(Plan_single(device)).step_s for device in range(3)]
    assert times.ideal.predicted_s == pytest.approx(1 / sum(1 / s for s in alone))
    assert times.equal is not None and times.equal.predicted_s == predicted(plan(unequal(), strategy="equal")).step_s


def Plan_single(device: int) -> Plan:
    typed = Plan.single(GRAPH, device, cluster_of(3), 8)
    return dataclasses.replace(typed, predicted=predict(Costs(unequal()), typed.stages[0]))


def measured(made: Plan, **changes: object) -> Measured:
    step_s = predicted(made).step_s * 1.25
    traced = MeasuredPart("worker:0", 1.0, 0.5, 0.5, overlapped_s=0.75), MeasuredPart("worker:9", 0.25, 0.5, 1.25)  # a step of 2 s
    found = Measured(made.digest, made.strategy, 8, made.devices, 30, step_s, 0.05, (1.0, 2.0, 3.0), 4.0, traced)
    return dataclasses.replace(found, **changes)  # type: ignore[arg-type]


def test_what_was_measured_stands_beside_what_was_predicted() -> None:
    made = plan(unequal())
    found = titled(facts(reported_plan(made, unequal(), measured(made))))
    assert found["Predicted step"].sentences[0].endswith("(median of 30 steps, spread 5%), 1.25 times what was predicted")
    step_s = 1.25 * predicted(made).step_s
    parts = found["Measured beside predicted"].table
    assert parts is not None and parts.headings[::2] == ("device", "measured", "measured", "measured")
    assert parts.headings[1::2] == ("compute", "communication", "idle", "overlapped") and parts.rows[0][7] == seconds_text(0.375 * step_s)
    bars = found["Measured beside predicted"].bars
    assert bars is not None and [bar.label for bar in bars.bars] == ["worker:0 predicted", "worker:0 measured", "worker:9 measured"]
    assert bars.bars[1].parts == pytest.approx((step_s / 2, step_s / 4, step_s / 4)) and parts.rows[1][1:7:2] == ("-", "-", "-")
    assert parts.rows[0][2::2] == tuple(seconds_text(part * step_s) for part in (0.5, 0.25, 0.25))
    assert bars.full_length == max(sum(bar.parts) for bar in bars.bars) == pytest.approx(step_s)
    assert f"one step of 2.00 s was traced; its times are scaled to the measured {seconds_text(step_s)}/step" in " ".join(
        found["Measured beside predicted"].sentences
    )
    table = found["Equal split and ideal"].table
    assert table is not None and [row[2] for row in table.rows[:4]] == ["1.00 s", "2.00 s", "3.00 s", "4.00 s"]


@pytest.mark.slow
def test_a_report_begins_with_one_verdict_measured_where_it_was() -> None:
    made = plan(unequal())
    only_predicted = facts(reported_plan(made, unequal()))[0]
    times = step_times(made, Costs(unequal()))
    single = min(entry.predicted_s or 0.0 for entry in times.alone)
    gain, of_ideal = single / predicted(made).step_s, times.efficiency(measured=False)
    begins = f"predicted: {gain:.2f} x faster than the best single device (worker:0), {of_ideal:.2f} of ideal; bottleneck "
    assert only_predicted.title == "Verdict" and only_predicted.leads
    assert len(only_predicted.sentences) == 1 and only_predicted.sentences[0].startswith(begins)
    both = facts(reported_plan(made, unequal(), measured(made)))[0].sentences
    assert both[1] == only_predicted.sentences[0] and both[0].startswith("measured: ") and "best single device (worker:0)" in both[0]
    assert both[0].endswith("; bottleneck worker:0") and f"{6 / 11 / (1.25 * predicted(made).step_s):.2f} of ideal" in both[0]


@pytest.mark.slow
def test_a_measured_step_far_from_its_prediction_is_called_out() -> None:
    made = plan(unequal())
    near, far = (measured(made, step_s=ratio * predicted(made).step_s) for ratio in (1.3, 1.4))
    assert len(facts(reported_plan(made, unequal(), near))[0].sentences) == 2
    called_out = facts(reported_plan(made, unequal(), far))[0].sentences[2]
    assert "is 1.40 times the predicted" in called_out and "calibrate again" in called_out.rpartition("; ")[2]


def test_each_layout_is_defined_where_it_is_first_shown() -> None:
    typed = Plan.filters(GRAPH, [2, 1, 0], cluster_of(3), 8)
    sentences = titled(facts(reported_plan(typed)))["Sizes"].sentences
    defined = [sentence.split(":")[0] for sentence in sentences if sentence.startswith("layout ")]
    assert defined == [f"layout {layout}" for layout in dict.fromkeys(entry.layout for entry in typed.stages[0].layouts)]


def test_measured_times_are_told_without_a_profile_too() -> None:
    made = plan(unequal())
    table = titled(facts(reported_plan(made, None, measured(made, parts=()))))["Equal split and ideal"].table
    expected = seconds_text(predicted(made).step_s * 1.25)
    assert table is not None and table.rows == ((f"planned ({made.strategy})", seconds_text(predicted(made).step_s), expected, ""),)


def test_times_or_a_profile_of_something_else_are_refused() -> None:
    made = plan(unequal())
    with pytest.raises(PlanError, match="the measured times: measured was network"):
        reported_plan(made, None, measured(made, batch_size=9))
    with pytest.raises(PlanError, match="the plan is for a network of"):
        reported_plan(made, profile_of(pair_net(), [1.0, 1.0, 1.0]))


def test_many_devices_are_told_in_few_columns() -> None:
    profile = profile_of(pair_net(64, 64, 24), [1e6 * (18 - at) for at in range(18)], 1e-9, batch_size=36)
    typed = Plan.batch(profile.graph, [1.0] * 18, profile.cluster, 36)
    found = titled(facts(reported_plan(typed, profile)))
    sizes, beside = found["Sizes"].table, found["Equal split and ideal"].table
    assert sizes is not None and sizes.headings == ("stage", "layer", "layout", "devices", "least", "most")
    assert beside is not None and [row[0] for row in beside.rows[:2]] == ["worker:0 alone", "worker:17 alone"]
    assert len(beside.rows) == 6 and found["Plan"].sentences[2].endswith("worker:15 and 2 more")
    assert max(map(len, sections_text(tuple(found.values())).splitlines())) < 400


def test_the_call_of_a_step_is_told_where_it_takes_time() -> None:
    profile = dataclasses.replace(unequal(), launch_s=0.5)
    found = titled(facts(reported_plan(plan(profile, strategy="equal"), profile)))["Predicted step"]
    assert dict(found.figures)["launch overhead"] == "500 ms" and found.sentences[-1].startswith("launch overhead is the time")
    assert "call" not in dict(titled(facts(reported_plan(plan(unequal()))))["Predicted step"].figures)


def test_slabs_are_drawn_as_parts_of_a_layer() -> None:
    made = Plan.space(GRAPH, [2, 1, 0], cluster_of(3), 1)
    sizes = titled(facts(reported_plan(made)))["Sizes"]
    assert sizes.sentences[0].startswith("units, samples, positions of slabs along spatial dimension 0, or samples x units of each device")
    entry = next(entry for entry in made.stages[0].layouts if entry.slabs)
    bar = next(bar for bar in sizes.bars.bars if bar.label == entry.name)  # type: ignore[union-attr]
    assert bar.parts[:2] == tuple(part / sum(entry.slabs) for part in entry.slabs) and bar.texts[0] == str(entry.slabs[0])
