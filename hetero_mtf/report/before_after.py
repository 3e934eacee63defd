"""A what-if: the plan for the measured profile and the plan for the changed one, side by side."""

from __future__ import annotations

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.pipeline.plan_prediction import time_line
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import stage_rows
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.report.limiting_part import bottlenecks
from hetero_mtf.report.pipeline_sections import stage_bottlenecks
from hetero_mtf.report.section import Section
from hetero_mtf.report.table import BESIDE_UP_TO, NOTHING, Table
from hetero_mtf.report.time_line.pipeline_line import predicted_line
from hetero_mtf.units import bytes_text, seconds_text


def before_after(before: Plan, after: Plan, profile: Profile, kept_s: float | None = None) -> tuple[Section, ...]:
    """Return what changes between two plans that have predictions.

    Parameters
    ----------
    before : the plan for the profile as measured.
    after : the plan for `profile`; its devices are those of `before`, perhaps with more behind them.
    profile : the what-if profile.
    kept_s : seconds/step of `before` on the what-if profile; None if that is not known.
    """
    assert before.predicted is not None and after.predicted is not None
    if before.predicted.step_s > 0:
        times = after.predicted.step_s / before.predicted.step_s
        change = f"a step would take {times:.2f} times as long: {_arrow(*(seconds_text(s) for s in _steps(before, after)))}"
    else:
        change = f"a step would take {_arrow(*(seconds_text(s) for s in _steps(before, after)))}"
    simulated = time_line(Costs(profile), after)
    staged = stage_bottlenecks(after, simulated[1], after.predicted.launch_s) if simulated is not None else ()
    bottleneck = [*staged, *(b.text for b in bottlenecks(after.predicted, after.used, profile, ring=not staged))]
    change += f"; with the plan as it is, {seconds_text(kept_s)}" if kept_s is not None else ""
    sentences = (change, *(f"then {text}" for text in bottleneck))
    title = f"What if: {', '.join(after.what_if)}" if after.what_if else "What if"
    sections = [Section(title, sentences, _figures(before, after))]
    line = predicted_line(after, simulated[1]) if simulated is not None else None
    sections += [Section("What if: predicted time line", line=line)] if line is not None else []
    if len(after.devices) <= BESIDE_UP_TO:
        sections.append(Section("What if: sizes before and after", (), _sizes(before, after)))
    return tuple(sections)


def _steps(before: Plan, after: Plan) -> tuple[float, float]:
    assert before.predicted is not None and after.predicted is not None
    return before.predicted.step_s, after.predicted.step_s


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _figures(before: Plan, after: Plan) -> Table:
    assert before.predicted is not None and after.predicted is not None
    rows = [("strategy", before.strategy, after.strategy), ("batch size", str(before.batch_size), str(after.batch_size))]
    if before.pipelined or after.pipelined:
        rows.append(("stages", str(len(before.stages)), str(len(after.stages))))
        rows.append(("microbatches", str(before.microbatches), str(after.microbatches)))
    rows.append(("samples/s", _rate(before), _rate(after)))
    for name in ("step_s", "launch_s", "forward_s", "backward_s", "update_s"):
        values = (getattr(plan.predicted, name) for plan in (before, after))
        was, would_be = (seconds_text(value) for value in values)
        label = "launch overhead" if name == "launch_s" else name.removesuffix("_s")
        rows += [(label, was, would_be)] if (name, was, would_be) != ("launch_s", "0 s", "0 s") else []
    for index, device in enumerate(after.devices[:BESIDE_UP_TO]):
        parts = [_part(plan, index) for plan in (before, after)]
        if parts[0] == parts[1] == (NOTHING,) * 4:
            continue
        for at, name in enumerate(("compute", "communication", "idle", "peak memory")):
            rows.append((f"{device} {name}", parts[0][at], parts[1][at]))
    return Table(("predicted", "before", "after"), tuple(rows))


def _rate(plan: Plan) -> str:
    assert plan.predicted is not None
    return f"{plan.batch_size / plan.predicted.step_s:.3g}" if plan.predicted.step_s > 0 else NOTHING


def _part(plan: Plan, device: int) -> tuple[str, ...]:
    """Return what a device of the cluster does in a step, dashes where the plan leaves it out."""
    assert plan.predicted is not None
    for at, part in zip(plan.used, plan.predicted.parts):
        if at == device:
            return (*(seconds_text(s) for s in (part.compute_s, part.communication_s, part.idle_s)), bytes_text(part.memory_bytes))
    return (NOTHING,) * 4


def _sizes(before: Plan, after: Plan) -> Table:
    """Return the layouts and sizes of every layer, "before -> after" where they differ."""
    cells = [_cells(plan, len(after.devices)) for plan in (before, after)]
    rows = []
    for (name, layout, *parts), (_, layout_after, *parts_after) in zip(*cells):
        rows.append((name, _arrow(layout, layout_after), *(_arrow(a, b) for a, b in zip(parts, parts_after))))
    return Table(("layer", "layout", *after.devices), tuple(rows), left=2)


def _cells(plan: Plan, devices: int) -> list[list[str]]:
    rows = []
    for stage in plan.stages:
        for name, layout, *parts in stage_rows(stage, plan.devices)[1:]:
            held = dict(zip(stage.devices, parts))
            rows.append([name, layout, *(held.get(d, NOTHING) for d in range(devices))])
    return rows
