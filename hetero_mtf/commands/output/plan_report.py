"""A plan as commands print it."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.text import execution_text, proof_text, proven
from hetero_mtf.report.legend import layout_legend
from hetero_mtf.report.pipeline import stages_table
from hetero_mtf.report.table import (
    Table,
    alternatives_table,
    contribution_table,
    folded_text,
    prediction_table,
    sizes_table,
)
from hetero_mtf.units import seconds_text


def plan_report(plan: Plan) -> str:
    """Return a plan's layouts, its prediction and the alternatives considered as text."""
    head = f"Network {plan.digest} in {plan.dtype}, schedule {execution_text(plan)}"
    layouts = sizes_table(plan)
    what_if = "".join(f"\nWhat-if, not measured: {clause}" for clause in plan.what_if)
    parts = [folded_text(f"{head}\n{layouts.title}{what_if}"), _untitled(layouts), folded_text("\n".join(layout_legend(plan)))]
    if len(plan.stages) > 1:
        parts.append(stages_table(plan).text())
    if plan.predicted is None:
        return "\n\n".join([*parts, "Nothing is predicted: the plan is manual."])
    seconds = plan.predicted
    launch = {"launch overhead": seconds.launch_s} if seconds.launch_s > 0 else {}
    named = {**launch, "forward": seconds.forward_s, "backward": seconds.backward_s, "update": seconds.update_s}
    passes = ", ".join(f"{name} {seconds_text(value)}" for name, value in named.items())
    parts += [_untitled(prediction_table(plan)), folded_text(f"Predicted step: {seconds_text(seconds.step_s)} ({passes})")]
    if plan.proof is not None:
        parts.append(folded_text(f"{proven(plan).capitalize()}: {proof_text(plan.proof)}"))
    if plan.alternatives:
        parts.append(alternatives_table(plan).text())
    if plan.contributions:
        parts.append(contribution_table(plan).text())
    return "\n\n".join(parts)


def _untitled(table: Table) -> str:
    """Return the table alone: a title above it would be folded to its width."""
    return dataclasses.replace(table, title="").text()
