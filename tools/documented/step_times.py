"""The figure of a measured run: a step on each device alone, under the equal split and as planned, and what each device did in it."""

from __future__ import annotations

import pathlib
from typing import Any

from matplotlib.figure import Figure

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.step_time import StepTime, StepTimes
from hetero_mtf.units import seconds_text
from tools.documented.style import DEVICES, IDLE, INK, REPLICATED

COMMUNICATION = "#5b4bb3"


def step_times(plan: Plan, measured: Measured) -> StepTimes:
    """Return the measured seconds a step beside those that the plan predicts.

    Parameters
    ----------
    plan : plan of two devices, with its alternatives and contributions.
    measured : times that `train --compare` wrote.
    """
    measured.check(plan)
    predicted_s = {alternative.strategy: alternative.step_s for alternative in plan.alternatives}
    # With two devices, what is left without one of them is the other one alone.
    alone_s = {name: entry.step_s for entry in plan.contributions if entry.used for name in plan.devices if name != entry.device}
    alone = tuple(StepTime(name, alone_s.get(name), value) for name, value in zip(plan.devices, measured.alone_s))
    planned = StepTime("planned", plan.predicted.step_s if plan.predicted else None, measured.step_s)
    return StepTimes(alone, planned, StepTime("equal split", predicted_s.get("equal"), measured.equal_s))


def draw_step_times(figure: Figure, folder: pathlib.Path, cluster: str, workload: str) -> None:
    """Draw the run of `plan.json` and `measured.json`.

    Parameters
    ----------
    figure : figure to draw into.
    folder : where both files are.
    cluster : the emulated devices, as --cluster names them.
    workload : what was trained, for the title.
    """
    plan, measured = Plan.load(folder / "plan.json"), Measured.load(folder / "measured.json")
    upper, lower = figure.subplots(2, 1, height_ratios=(5, 2.4))
    times = step_times(plan, measured)
    cores = cluster.partition(":")[2].split(",")
    _draw_comparison(upper, times, cores)
    saved = min(t.measured_s for t in times.alone if t.measured_s is not None) / measured.step_s
    verdict = f"{saved:.2f} times as fast as the faster device alone, {times.efficiency(measured=True):.2f} of the ideal"
    upper.set_title(f"{workload}, measured\nplanned: {verdict}", fontsize=11, loc="left")
    _draw_parts(lower, measured)


def _draw_comparison(axes: Any, times: StepTimes, cores: list[str]) -> None:
    entries = [*times.alone, times.equal, times.planned, times.ideal]
    labels = [f"{t.name} alone ({float(c):g} core)" for t, c in zip(times.alone, cores)] + ["equal split", "planned", "ideal"]
    colours = [REPLICATED] * (len(entries) - 2) + [DEVICES[0], "white"]
    for row, (entry, colour) in enumerate(zip(entries, colours)):
        if entry is None or entry.measured_s is None:
            continue
        axes.barh(row, entry.measured_s, color=colour, edgecolor=INK, height=0.65, linestyle="--" if entry.name == "ideal" else "-")
        axes.text(entry.measured_s, row, f"  {seconds_text(entry.measured_s)}", va="center", fontweight="bold")
        if entry.predicted_s is not None:
            axes.plot([entry.predicted_s], [row], marker="D", markersize=6, color=DEVICES[1], markeredgecolor=INK, linestyle="none")
    axes.plot([], [], marker="D", markersize=6, color=DEVICES[1], markeredgecolor=INK, linestyle="none", label="predicted before the run")
    axes.legend(frameon=False, loc="lower right")
    longest = max(value for entry in entries if entry for value in (entry.measured_s, entry.predicted_s) if value)
    axes.set(yticks=range(len(entries)), yticklabels=labels, ylim=(len(entries) - 0.4, -0.6), xlim=(0, 1.15 * longest))
    axes.set_xlabel("seconds/step, less is better")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_parts(axes: Any, measured: Measured) -> None:
    for row, part in enumerate(measured.parts):
        left = 0.0
        spent = (part.compute_s, part.communication_s, part.idle_s)
        total = sum(spent)
        for seconds, colour, hatch in zip(spent, (DEVICES[0], COMMUNICATION, IDLE), (None, None, "///")):
            axes.barh(row, seconds / total, left=left, color=colour, edgecolor=INK, height=0.6, hatch=hatch)
            if seconds / total > 0.08:
                ink = INK if hatch else "white"
                axes.text(left + seconds / total / 2, row, f"{seconds / total:.0%}", ha="center", va="center", color=ink, fontweight="bold")
            left += seconds / total
    names = ("compute", "communication", "idle")
    handles = [axes.barh(0, 0, color=c, edgecolor=INK, hatch=h) for c, h in zip((DEVICES[0], COMMUNICATION, IDLE), ("", "", "///"))]
    axes.legend(handles, names, frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0.0, 0.96), borderaxespad=0)
    axes.set(yticks=range(len(measured.parts)), yticklabels=[part.device for part in measured.parts], xlim=(0, 1.15))
    axes.set(ylim=(len(measured.parts) - 0.4, -0.6), xticks=[])
    axes.set_xlabel("parts of one traced step of the plan", loc="left")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
