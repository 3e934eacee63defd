"""Plans and moves in a line."""

from __future__ import annotations

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.training.control.move import Move
from hetero_mtf.units import seconds_text


def move_text(move: Move) -> str:
    """Return a move in a line: reason, before and after.

    Parameters
    ----------
    move : the move.
    """
    before = f"{split_text(move.before)} ({seconds_text(move.before_s)}/step)"
    after = f"{split_text(move.after)} ({seconds_text(move.expected_s)} expected)"
    return f"step {move.step}: {move.reason}; moved from {before} to {after} in {seconds_text(move.taken_s)}"


def split_text(plan: Plan) -> str:
    """Return a plan's strategy and the parts of its devices, in per cent of the units, samples or positions that it splits.

    Parameters
    ----------
    plan : the plan.
    """
    if len(plan.used) == 1:
        return f"{plan.devices[plan.used[0]]} alone"
    if len(plan.stages) > 1:
        return f"{plan.strategy} of {len(plan.stages)} stages"
    stage = plan.stages[0]
    parts = [0.0] * len(stage.devices)
    for entry in stage.layouts:
        for sizes, axis in entry.parts:
            for processor, place in enumerate(stage.places(axis)):
                parts[processor] += sizes[place] / sum(sizes)
    total = sum(parts) or 1.0
    return f"{plan.strategy} {':'.join(f'{100 * part / total:.0f}' for part in parts)}"
