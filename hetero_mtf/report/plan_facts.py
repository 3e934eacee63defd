"""The facts of a plan: one list of sections for the terminal and the page."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from hetero_mtf.layers.fallback.keras_call_kind import keras_calls_text
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.manual import filter_stage, single_stage
from hetero_mtf.planning.layout.records import DeviceContribution, Prediction
from hetero_mtf.planning.pipeline.contribution import pipeline_contributions
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan, time_line
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import execution_text, proof_text, proven
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.simulator import Simulation
from hetero_mtf.planning.strategies.contribution import device_contributions
from hetero_mtf.planning.strategies.split_search import Candidate
from hetero_mtf.report.legend import layout_legend
from hetero_mtf.report.limiting_part import bottlenecks
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.pictures import TIMES, alternative_bars, measured_bars, size_bars, time_bars
from hetero_mtf.report.pipeline_sections import (
    bottleneck_name,
    pipeline_sections,
    simpler_times,
    stage_bottlenecks,
    stages_table,
    traced_sections,
)
from hetero_mtf.report.section import Section
from hetero_mtf.report.step_time import StepTime, StepTimes
from hetero_mtf.report.table import (
    NOTHING,
    Table,
    considered_table,
    contribution_table,
    prediction_table,
    sizes_table,
    step_time_table,
)
from hetero_mtf.report.verdict import measured_verdict, predicted_verdict, surprise
from hetero_mtf.units import list_text, seconds_text

PASSES = {"step": "step_s", "launch overhead": "launch_s", "forward": "forward_s", "backward": "backward_s", "update": "update_s"}
COMPARED_UP_TO = 16  # devices that are listed each alone


@dataclasses.dataclass(frozen=True)
class ReportedPlan:
    """A plan and what is known beside it; `reported_plan` makes one.

    Parameters
    ----------
    plan : Plan.
    profile : what it was made from; None if it is not at hand.
    measured : times of a run by this plan; None if there was none.
    warnings : warnings of the profile (`validity.profile_warnings`).
    costs : the costs of the profile, tabulated once; None without a profile.
    """

    plan: Plan
    profile: Profile | None = None
    measured: Measured | None = None
    warnings: tuple[str, ...] = ()
    costs: Costs | None = None

    @functools.cached_property
    def times(self) -> StepTimes | None:
        """Seconds a step on each device alone, split equally and as planned; None without a profile or a prediction."""
        if self.costs is None or self.plan.predicted is None:
            return None
        return step_times(self.plan, self.costs, self.measured)

    @functools.cached_property
    def simulation(self) -> Simulation | None:
        """The simulated step of a pipeline; None without a profile, and for a plan that nothing simulates."""
        simulated = time_line(self.costs, self.plan) if self.costs is not None else None
        return simulated[1] if simulated is not None else None


def reported_plan(
    plan: Plan, profile: Profile | None = None, measured: Measured | None = None, warnings: tuple[str, ...] = ()
) -> ReportedPlan:
    """Return a plan with what is known beside it; a prediction and contributions that it lacks are computed from the profile.

    Parameters
    ----------
    plan, profile, measured, warnings : as in `ReportedPlan`.

    Raises
    ------
    PlanError
        If the plan does not fit the profile's network, or the times are another plan's.
    """
    if profile is not None:
        plan.check(profile.graph)
    if measured is not None:
        measured.check(plan)
    costs = None if profile is None else Costs(profile)
    if costs is not None and plan.predicted is None:
        plan = dataclasses.replace(plan, predicted=predict_plan(costs, plan))
    if costs is not None and not plan.contributions:
        plan = dataclasses.replace(plan, contributions=_contributions(plan, costs))
    return ReportedPlan(plan, profile, measured, warnings, costs)


def facts(reported: ReportedPlan) -> tuple[Section, ...]:
    """Return everything that is known of a plan.

    Parameters
    ----------
    reported : the plan and what is known beside it.
    """
    plan = reported.plan
    own_calls = keras_calls_text(reported.profile.graph) if reported.profile is not None else ""
    sentences = (_sizes_sentence(plan), *layout_legend(plan), *((own_calls,) if own_calls else ()))
    sizes = Section("Sizes", sentences, sizes_table(plan), size_bars(plan))
    first = verdict(reported)
    sections = [Section("Verdict", first, leads=True)] if first else []
    sections += [_heading(plan, reported.warnings), sizes]
    if plan.predicted is None:
        lack = "no profile is given" if reported.profile is None else "its stages work one after another"
        sections.append(Section("Predicted step", (f"nothing is predicted: the plan is manual, and {lack}",)))
    else:
        sections += _predicted(reported, plan.predicted)
    sections += _staged(reported)
    compared = _compared(reported)
    sections += [compared] if compared is not None else []
    if plan.alternatives:
        sections.append(Section("Alternatives considered", (), considered_table(plan), alternative_bars(plan)))
    if plan.contributions:
        sections.append(Section("Contribution of each device", (), contribution_table(plan)))
    return tuple(sections)


def verdict(reported: ReportedPlan) -> tuple[str, ...]:
    """Return what to read first: the gain, measured where it was, and whether the measured step is far from its prediction.

    Parameters
    ----------
    reported : the plan and what is known beside it.
    """
    plan, times, measured = reported.plan, reported.times, reported.measured
    predicted = predicted_verdict(plan, times, _bottleneck_name(reported))
    sentences = [predicted.text] if predicted is not None else []
    if measured is None:
        return tuple(sentences)
    gain = measured_verdict(times or _measured_times(plan, measured), _measured_bottleneck(plan, measured))
    sentences.insert(0, gain.text if gain is not None else _measured_sentence(measured, plan.predicted))
    return (*sentences, *filter(None, [surprise(measured, plan)]))


def _measured_times(plan: Plan, measured: Measured) -> StepTimes:
    """Return what was measured of the plan and of each device alone."""
    alone = (StepTime(name, None, alone_s) for name, alone_s in zip(plan.devices, measured.alone_s))
    return StepTimes(tuple(alone), _planned(plan, measured))


def _measured_bottleneck(plan: Plan, measured: Measured) -> str:
    """Return the bottleneck of the traced step; "" if none was traced."""
    if not measured.parts:
        return ""
    traced = Prediction(measured.traced_s, 0.0, 0.0, 0.0, measured.parts)
    return bottlenecks(traced, plan.used)[0].name


def _bottleneck_name(reported: ReportedPlan) -> str:
    """Return the bottleneck of the predicted step; "" where it is not known."""
    plan, predicted = reported.plan, reported.plan.predicted
    if reported.simulation is not None:
        return bottleneck_name(plan, reported.simulation)
    if predicted is None or not predicted.parts:
        return ""
    return bottlenecks(predicted, plan.used, reported.profile)[0].name


def _staged(reported: ReportedPlan) -> list[Section]:
    """Return what is said of a pipeline alone, as far as it is known."""
    plan, simulation = reported.plan, reported.simulation
    if simulation is not None:
        return pipeline_sections(plan, simulation, reported.measured)
    sections = [Section("Stages", (), stages_table(plan))] if len(plan.stages) > 1 else []
    return [*sections, *traced_sections(plan, reported.measured)]


def _contributions(plan: Plan, costs: Costs) -> tuple[DeviceContribution, ...]:
    """Return the contribution of each device to a plan that lacks them; nothing for a plan without a prediction."""
    if plan.predicted is None or plan.gradient_sync != "all_reduce":
        return ()
    if len(plan.stages) > 1:
        return pipeline_contributions(MicrobatchCosts(costs.profile, costs), plan)
    return () if plan.pipelined else device_contributions(costs, Candidate(plan.stages[0], predict(costs, plan.stages[0])))


def step_times(plan: Plan, costs: Costs, measured: Measured | None = None) -> StepTimes:
    """Return seconds a step on each device alone, split equally and as planned: predicted, and measured where that is known.

    A pipeline is compared with an equal partition and with itself without microbatches too. What is predicted to take no time at all, from
    a profile without curves, counts as not predicted.

    Parameters
    ----------
    costs : Costs of the profile.
    measured : times of a run.
    """
    names = plan.devices
    alone_s = measured.alone_s if measured is not None and measured.alone_s else (None,) * len(names)
    alone = tuple(StepTime(name, _alone_s(costs, d) or None, alone_s[d]) for d, name in enumerate(names))
    equal_s = predict(costs, filter_stage(costs.graph, [1.0] * len(names), "pairs")).step_s
    equal = StepTime("equal split", equal_s or None, measured.equal_s if measured is not None else None)
    return StepTimes(alone, _planned(plan, measured), equal, simpler_times(plan, costs, measured))


def _alone_s(costs: Costs, device: int) -> float:
    return predict(costs, single_stage(costs.graph, device)).step_s


def _planned(plan: Plan, measured: Measured | None) -> StepTime:
    predicted_s = plan.predicted.step_s if plan.predicted is not None else None
    return StepTime(f"planned ({plan.strategy})", predicted_s or None, measured.step_s if measured is not None else None)


def _heading(plan: Plan, warnings: Sequence[str]) -> Section:
    used = sorted({d for stage in plan.stages for d in stage.devices})
    idle = [name for d, name in enumerate(plan.devices) if d not in used]
    lines = [
        f"plan by strategy {plan.strategy} for batches of {plan.batch_size} samples, {execution_text(plan)}",
        f"network {plan.digest} of {sum(len(stage.layers) for stage in plan.stages)} layers in {plan.dtype}",
        f"{len(used)} of {len(plan.devices)} devices work: {list_text([plan.devices[d] for d in used], COMPARED_UP_TO)}",
    ]
    lines += [f"left out: {list_text(idle, COMPARED_UP_TO)}"] if idle else []
    lines += [f"{proven(plan)}: {proof_text(plan.proof)}"] if plan.proof is not None else []
    return Section("Plan", (*lines, *(f"what-if, not measured: {clause}" for clause in plan.what_if), *warnings))


def _sizes_sentence(plan: Plan) -> str:
    entries = [entry for stage in plan.stages for entry in stage.layouts]
    layouts = [entry.layout for entry in entries]
    counts = [f"{layouts.count(layout)} {layout}" for layout in dict.fromkeys(layouts)]
    cut = sorted({entry.dimension for entry in entries if entry.slabs})
    slabs = f"positions of slabs along spatial dimension {', '.join(map(str, cut))}, " if cut else ""
    return f"units, samples, {slabs}or samples x units of each device, by layer; layouts: {', '.join(counts)}"


def _predicted(reported: ReportedPlan, predicted: Prediction) -> list[Section]:
    plan = reported.plan
    figures = [(name, seconds_text(s)) for name, field in PASSES.items() if (s := getattr(predicted, field)) > 0 or field != "launch_s"]
    if predicted.step_s > 0:
        figures.append(("samples/s", f"{plan.batch_size / predicted.step_s:.3g}"))
    sentences = [_measured_sentence(reported.measured, predicted)] if reported.measured is not None else []
    if predicted.launch_s > 0:
        sentences.append(
            "launch overhead is the time until a step is called and has its batch: all devices are idle, equally long under every plan"
        )
    if plan.microbatches > 1:
        sentences.append("forward is until the last forward pass has ended, backward from then on; passes of several microbatches overlap")
    staged = stage_bottlenecks(plan, reported.simulation, predicted.launch_s) if reported.simulation is not None else ()
    bottleneck = (
        [*staged, *(b.text for b in bottlenecks(predicted, plan.used, reported.profile, ring=not staged))] if predicted.parts else []
    )
    bottleneck += ["whether memory is the bottleneck is not known without the profile"] if reported.profile is None else []
    sections = [Section("Predicted step", tuple(sentences), prediction_table(plan), time_bars(plan), tuple(figures))]
    if reported.measured is not None and reported.measured.parts:
        sections.append(_parts_section(predicted, reported.measured))
    return [*sections, Section("Bottleneck", tuple(bottleneck))]


def _parts_section(predicted: Prediction, measured: Measured) -> Section:
    """Return the times of each device in a traced step beside the predicted ones."""
    predicted_of, scaled = {part.device: part for part in reversed(predicted.parts)}, measured.on_step_base()
    rows = []
    for part in scaled.parts:
        cells = [part.device]
        for name in TIMES:
            expected = getattr(predicted_of[part.device], f"{name}_s") if part.device in predicted_of else None
            cells += [_time(expected), seconds_text(getattr(part, f"{name}_s"))]
        rows.append((*cells, seconds_text(part.overlapped_s)))
    headings = ("device", *(heading for name in TIMES for heading in (name, "measured")), "overlapped")
    told = "communication during compute counts as compute; overlapped is how long there was both"
    return Section("Measured beside predicted", (_base(measured), told), Table(headings, tuple(rows)), measured_bars(predicted, scaled))


def _base(measured: Measured) -> str:
    """Return what the times of the devices are of."""
    traced, step = seconds_text(measured.traced_s), seconds_text(measured.step_s)
    return f"one step of {traced} was traced; its times are scaled to the measured {step}/step, so that all bars have one time base"


def _measured_sentence(measured: Measured, predicted: Prediction | None) -> str:
    taken = f"measured {seconds_text(measured.step_s)}/step (median of {measured.steps} steps, spread {measured.spread:.0%})"
    if predicted is None or predicted.step_s <= 0:
        return taken
    return f"{taken}, {measured.step_s / predicted.step_s:.2f} times what was predicted"


def _compared(reported: ReportedPlan) -> Section | None:
    plan, title = reported.plan, "Equal split and ideal"
    times = reported.times
    if times is None:
        if reported.measured is None:
            return None
        planned = _planned(plan, reported.measured)
        row = (planned.name, _time(planned.predicted_s), _time(planned.measured_s), "")
        return Section(title, (), Table(("one training step", "predicted", "measured", "relative to the plan"), (row,)))
    definition = "the ideal is 1 / (sum of 1 / alone): all devices compute all the time, without communication"
    if len(times.alone) <= COMPARED_UP_TO:
        return Section(title, (definition,), step_time_table(times))
    table = step_time_table(times)
    slowest = max(range(len(times.alone)), key=lambda d: times.alone[d].predicted_s or 0.0)
    fastest = min(range(len(times.alone)), key=lambda d: times.alone[d].predicted_s or 0.0)
    rows = (table.rows[fastest], table.rows[slowest], *table.rows[len(times.alone) :])
    return Section(
        title, (definition, "of the devices alone, the fastest and the slowest are shown"), dataclasses.replace(table, rows=rows)
    )


def _time(value: float | None) -> str:
    return NOTHING if value is None else seconds_text(value)
