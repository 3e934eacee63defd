"""What the layouts of a plan mean, for where they are first shown."""

from __future__ import annotations

from hetero_mtf.planning.plan.plan import Plan

DEFINITIONS = {
    "replicated": "every device of the stage computes the layer in full",
    "batch": "the samples are split; every device has all weights",
    "column": "the output channels are split; every device reads the full input",
    "row": "the input channels are split; the partial sums of the devices are added up",
    "space": "one spatial dimension is cut into slabs; every device has all weights",
    "split": "a layer that computes each channel on its own has the channels of its input",
}


def layout_legend(plan: Plan) -> tuple[str, ...]:
    """Return a sentence for each layout that occurs in a plan, in the order in which they first do.

    Parameters
    ----------
    plan : Plan.
    """
    layouts = dict.fromkeys(entry.layout for stage in plan.stages for entry in stage.layouts)
    return tuple(f"layout {layout}: {DEFINITIONS[layout]}" for layout in layouts if layout in DEFINITIONS)
