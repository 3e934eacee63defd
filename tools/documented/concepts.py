"""The figures of the concepts: layouts of a layer, an equal and a proportional split, and clock tables."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from hetero_mtf.planning.schedule.clock_table import FORWARD, Task, clock_table
from tools.documented.style import DEVICES, IDLE, INK, PALE, REPLICATED

FAST_PART = 0.75  # of the devices in the figures of layouts, 3 : 1
SAMPLES, INPUTS, OUTPUTS, GAP = 4.0, 3.0, 4.0, 1.5  # extents of the drawn matrices and what is left between them
COLUMN, ROW, BATCH = "column: output channels", "row: input channels", "batch: samples"
_ALL, _PARTIAL = "all", "partial"
# For each layout how input, weights and output lie on the devices: split along x or y, all of it, or partial sums of all of it.
LAYOUTS = {COLUMN: (_ALL, "x", "x"), ROW: ("x", "y", _PARTIAL), BATCH: ("y", _ALL, "y")}


def draw_layouts(figure: Figure) -> None:
    """Draw input, weights and output of a dense layer in three layouts on devices of speeds 3 : 1."""
    for axes, (title, parts) in zip(figure.subplots(1, len(LAYOUTS)), LAYOUTS.items()):
        left = 0.0
        shapes = {"input": (INPUTS, SAMPLES), "weights": (OUTPUTS, INPUTS), "output": (OUTPUTS, SAMPLES)}
        for (name, (width, height)), part, sign in zip(shapes.items(), parts, ("×", "=", "")):
            _draw_matrix(axes, left, width, height, part)
            axes.text(left + width / 2, SAMPLES / 2 + 0.25, name, ha="center", va="bottom")
            axes.text(left + width + GAP / 2, 0, sign, ha="center", va="center", fontsize=13)
            left += width + GAP
        axes.set_title(title, fontsize=11, fontweight="bold")
        note = {ROW: "the partial sums are added by an all-reduce", COLUMN: "each device has its own output channels"}
        axes.text((left - GAP) / 2, -SAMPLES / 2 - 0.5, note.get(title, "each device has its own samples"), ha="center", va="top")
        axes.set(xlim=(-0.2, left - GAP + 0.2), ylim=(-SAMPLES / 2 - 1.4, SAMPLES / 2 + 1.0), aspect="equal")
        axes.axis("off")
    patches = [Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=INK) for colour in (*DEVICES, REPLICATED)]
    patches.append(Rectangle((0, 0), 1, 1, facecolor=PALE, edgecolor=INK, hatch="///"))
    names = ["fast device, 3 of 4 parts", "slow device, 1 of 4 parts", "replicated: all of it on both", "partial sums on both"]
    figure.legend(patches, names, loc="outside lower center", ncols=4, frameon=False)


def _draw_matrix(axes: Any, left: float, width: float, height: float, part: str) -> None:
    bottom = -height / 2
    if part == "x":
        places = [(left, bottom, width * FAST_PART, height), (left + width * FAST_PART, bottom, width * (1 - FAST_PART), height)]
    elif part == "y":
        fast = height * FAST_PART
        places = [(left, bottom + height - fast, width, fast), (left, bottom, width, height - fast)]
    else:
        places = [(left, bottom, width, height)]
    colours = DEVICES if len(places) == 2 else (REPLICATED,) if part == _ALL else (PALE,)
    for (x, y, wide, high), colour in zip(places, colours):
        axes.add_patch(Rectangle((x, y), wide, high, facecolor=colour, edgecolor=INK, hatch="///" if part == _PARTIAL else None))


def draw_shares(figure: Figure) -> None:
    """Draw a step of two devices of speeds 2 : 1 under an equal split and under a proportional split of 256 filters."""
    speeds = (2.0, 1.0)
    splits = {"equal split": (128, 128), "proportional split": (171, 85)}
    end = max(filters / speed for filters, speed in zip(splits["equal split"], speeds))
    for axes, (title, filters) in zip(figure.subplots(1, 2, sharex=True), splits.items()):
        times = [count / speed / end for count, speed in zip(filters, speeds)]
        for row, (count, time) in enumerate(zip(filters, times)):
            axes.barh(row, time, color=DEVICES[row], edgecolor=INK, height=0.6)
            axes.text(time / 2, row, f"{count} filters", ha="center", va="center", color="white", fontweight="bold")
            if max(times) - time > 0.05:
                axes.barh(row, max(times) - time, left=time, color=IDLE, edgecolor=INK, height=0.6, hatch="///")
                axes.text((time + max(times)) / 2, row, "idle", ha="center", va="center")
        axes.axvline(max(times), color=INK, linewidth=1.2, linestyle="--")
        axes.text(max(times), 1.48, f" end of the step: {max(times):.2f}", ha="right" if max(times) > 0.9 else "left", va="center")
        axes.set(yticks=(0, 1), yticklabels=("fast device", "slow device"), xlim=(0, 1.08), ylim=(1.7, -0.5), xlabel="time")
        axes.set_title(title, fontsize=11, fontweight="bold")
        axes.set_xticks([])
        axes.spines[["top", "right", "bottom"]].set_visible(False)


def draw_clock_tables(figure: Figure) -> None:
    """Draw the clock tables of fill_drain and 1f1b for three stages and four microbatches."""
    stages, microbatches = 3, 4
    for axes, schedule in zip(figure.subplots(2, 1), ("fill_drain", "1f1b")):
        table = clock_table(schedule, [[stage] for stage in range(stages)], microbatches)
        for tick in range(len(table)):
            busy = {task.stage: task for task in table[tick]}
            for stage in range(stages):
                _draw_task(axes, tick, stage, busy.get(stage))
        axes.set(xlim=(-0.1, len(table) + 0.1), ylim=(stages, 0), yticks=[stage + 0.5 for stage in range(stages)])
        axes.set_yticklabels([f"stage {stage}" for stage in range(stages)])
        axes.set_xticks([])
        axes.set_title(schedule, fontsize=11, fontweight="bold", loc="left")
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    patches = [Rectangle((0, 0), 1, 1, facecolor=colour, edgecolor=INK) for colour in DEVICES]
    patches.append(Rectangle((0, 0), 1, 1, facecolor=IDLE, edgecolor=INK, hatch="///"))
    names = ["f2: forward pass of microbatch 2", "b2: its backward pass", "bubble: the device is idle"]
    figure.legend(patches, names, loc="outside lower center", ncols=3, frameon=False)


def _draw_task(axes: Any, tick: int, stage: int, task: Task | None) -> None:
    colour = IDLE if task is None else DEVICES[task.step_pass != FORWARD]
    axes.add_patch(Rectangle((tick, stage + 0.05), 1, 0.9, facecolor=colour, edgecolor=INK, hatch=None if task else "///"))
    if task is not None:
        label = f"{task.step_pass[0]}{task.microbatch}"
        axes.text(tick + 0.5, stage + 0.5, label, ha="center", va="center", color="white", fontweight="bold")
