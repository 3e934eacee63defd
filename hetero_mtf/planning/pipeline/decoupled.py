"""Predicted step of schedule "decoupled": all stages work at once, each on another batch.

A step takes as long as the slowest stage: with forward and backward seconds f_s and b_s of a batch, update u_s, and x_s for a transfer over
the boundary before stage s, f_s + f_s + b_s + u_s + x_s, where the second forward pass, the replay, is not taken by the last stage. What a
stage sends forward is sent during its backward pass; the gradient that it sends back is ready when that ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.stage_cost import stage_cost
from hetero_mtf.planning.cost.step_cost import launch_s
from hetero_mtf.planning.layout.records import DevicePart, Prediction, Stage
from hetero_mtf.planning.memory.stage_memory import stage_bytes
from hetero_mtf.planning.pipeline.prediction import boundaries_s
from hetero_mtf.planning.schedule.delays import batches_kept


def predict_decoupled(costs: Costs, stages: Sequence[Stage]) -> Prediction:
    """Return the predicted step, once all stages have batches.

    Parameters
    ----------
    costs : Costs of a profile of the network and cluster.
    stages : at least two.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.
    """
    back_s = [0.0, *boundaries_s(costs, stages).tolist()]
    last, overhead_s = len(stages) - 1, launch_s(costs)
    passes = [stage_cost(costs, stage) for stage in stages]
    spent = [[each.forward, each.backward, each.finish, *([each.forward] if s < last else [])] for s, each in enumerate(passes)]
    busy_s = [sum(part.seconds for part in parts) + back for parts, back in zip(spent, back_s)]
    tick_s = max(busy_s)
    slowest = busy_s.index(tick_s)
    step_s = overhead_s + tick_s
    parts = []
    for s, stage in enumerate(stages):
        held = stage_bytes(costs.profile, stage, recompute=True).peak(batches_kept(s, len(stages)))
        for place, device in enumerate(stage.devices):
            compute_s = sum(part.compute_s[place] for part in spent[s])
            communication_s = back_s[s] + sum(part.communication_s[place] for part in spent[s])
            idle_s = max(0.0, step_s - compute_s - communication_s)
            parts.append(DevicePart(costs.profile.cluster.devices[device].name, compute_s, communication_s, idle_s, held[place]))
    update_s = passes[slowest].finish.seconds
    forward_s = passes[slowest].forward.seconds
    return Prediction(step_s, forward_s, tick_s - forward_s - update_s, update_s, tuple(parts), overhead_s)
