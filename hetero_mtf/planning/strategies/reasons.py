"""Why one plan takes longer than another, in terms of compute, communication and idle time of their bottlenecks."""

from __future__ import annotations

from collections.abc import Mapping

from hetero_mtf.layers.half_precision import gradient_bytes
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import DevicePart, Prediction, Stage
from hetero_mtf.planning.strategies.split_search import Candidate
from hetero_mtf.units import bytes_text, seconds_text

LEAST_PART = 0.2  # of the difference


def bottleneck_part(prediction: Prediction) -> DevicePart | None:
    """Return the part of the bottleneck, the device that is idle for the shortest time; None if there are no parts."""
    return min(prediction.parts, key=lambda part: part.idle_s, default=None)


def relative_step(step_s: float, best_s: float, strategy: str) -> str:
    """Return the seconds of a step, and their ratio to those of the plan by a strategy.

    >>> relative_step(0.3, 0.2, "batch")
    '300 ms/step, 1.50 times strategy batch'
    """
    ratio = f", {step_s / best_s:.2f} times strategy {strategy}" if best_s > 0 else ""
    return f"{seconds_text(step_s)}/step{ratio}"


def why_longer(costs: Costs, other: Candidate, best: Candidate, gradient_sync: str = "all_reduce") -> str:
    """Return what makes the step of one plan longer than that of another, "" if it is not longer.

    The step of a plan is compute + communication + idle time of its bottleneck, so the difference of two steps is the sum of the
    differences of these three. Those that make up a fifth of it or more are named, the largest first.

    Parameters
    ----------
    other : the plan with the longer step.
    best : the plan it is compared with.
    gradient_sync : as in a Plan.

    Notes
    -----
    The seconds of gradients are those by which the step without their all-reduce is shorter. O(layers * devices).
    """
    mine, its = bottleneck_part(other.prediction), bottleneck_part(best.prediction)
    longer_s = other.prediction.step_s - best.prediction.step_s
    if mine is None or its is None or longer_s <= 0:
        return ""
    more_s = {
        _compute_text(mine, other, best): mine.compute_s - its.compute_s,
        _communication_text(costs, mine, other, gradient_sync): mine.communication_s - its.communication_s,
        f"{_braced(mine.device)} is idle {{}} longer": mine.idle_s - its.idle_s,
    }
    return ", ".join(_largest(more_s, longer_s))


def _largest(more_s: Mapping[str, float], longer_s: float) -> list[str]:
    ordered = sorted(more_s.items(), key=lambda item: -item[1])
    return [text.format(seconds_text(seconds)) for text, seconds in ordered if seconds >= LEAST_PART * longer_s]


def _compute_text(mine: DevicePart, other: Candidate, best: Candidate) -> str:
    """Return the text for a bottleneck that computes longer, beside devices that are idle or not used."""
    text = f"{_braced(mine.device)} computes {{}} longer"
    idlest = max(other.prediction.parts, key=lambda part: part.idle_s)
    before_s = max(part.idle_s for part in best.prediction.parts)
    if idlest.idle_s - before_s >= LEAST_PART * (other.prediction.step_s - best.prediction.step_s):
        return f"{text} while {_braced(idlest.device)} is idle for {seconds_text(idlest.idle_s)}"
    used = {part.device for part in other.prediction.parts}
    unused = [part.device for part in best.prediction.parts if part.device not in used]
    return f"{text} as {_braced(', '.join(unused))} is not used" if unused else text


def _communication_text(costs: Costs, mine: DevicePart, other: Candidate, gradient_sync: str) -> str:
    """Return the text for a bottleneck that communicates longer, with its gradients if they are most of it."""
    text = f"{_braced(mine.device)} communicates {{}} longer"
    gradient_bytes = summed_gradient_bytes(costs, other.stage)
    if not gradient_bytes or gradient_sync != "all_reduce":
        return text
    gradients_s = other.prediction.step_s - predict(costs, other.stage, "none").step_s
    return (
        f"{text} ({seconds_text(gradients_s)} for {bytes_text(gradient_bytes)} of gradients)"
        if gradients_s > mine.communication_s / 2
        else text
    )


def summed_gradient_bytes(costs: Costs, stage: Stage) -> int:
    """Return the bytes of gradients that devices add up in one step: of the weights in layers that split the batch."""
    graph = costs.graph
    layers = [graph.layers[e.layer] for e in stage.layouts if e.samples and graph.owner(e.layer) == e.layer]
    return sum(gradient_bytes(layer, graph.dtype) for layer in layers)


def _braced(text: str) -> str:
    """Return a text that `str.format` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")
