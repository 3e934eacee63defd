"""Why one plan takes longer than another, in terms of their predicted parts."""

from __future__ import annotations

from collections.abc import Mapping

from hetero_mtf.planning.cost.step_cost import Costs, predict
from hetero_mtf.planning.layout.records import DevicePart, Prediction, Stage
from hetero_mtf.planning.strategies.search import Candidate
from hetero_mtf.units import bytes_text, seconds_text

WORTH_SAYING = 0.2  # of the difference


def bottleneck_part(prediction: Prediction) -> DevicePart | None:
    """Return the part of the device that waits least, on which the step hangs; None if there are no parts.

    Parameters
    ----------
    prediction : Prediction.
    """
    return min(prediction.parts, key=lambda part: part.idle_s, default=None)


def why_longer(costs: Costs, other: Candidate, best: Candidate, gradient_sync: str = "all_reduce") -> str:
    """Return what makes the steps of one plan longer than those of another, "" if they are not.

    The step of a plan is busy + sending + waiting of its binding device, so the difference of two steps is the sum of the
    differences of these three. Those that make up a fifth of it or more are told, the largest first.

    Parameters
    ----------
    costs : Costs of the profile.
    other : the plan with the longer step.
    best : the one it is compared with.
    gradient_sync : as in a Plan.

    Notes
    -----
    The seconds of gradients are what the step would be shorter by without adding them up. O(layers * devices).
    """
    mine, its = bottleneck_part(other.prediction), bottleneck_part(best.prediction)
    longer_s = other.prediction.step_s - best.prediction.step_s
    if mine is None or its is None or longer_s <= 0:
        return ""
    told = {
        _computing(mine, other, best): mine.compute_s - its.compute_s,
        _sending(costs, mine, other, gradient_sync): mine.communication_s - its.communication_s,
        f"{mine.device} waits {{}} longer for others": mine.idle_s - its.idle_s,
    }
    return ", ".join(_largest(told, longer_s))


def _largest(told: Mapping[str, float], longer_s: float) -> list[str]:
    ordered = sorted(told.items(), key=lambda item: -item[1])
    return [text.format(seconds_text(more_s)) for text, more_s in ordered if more_s >= WORTH_SAYING * longer_s]


def _computing(mine: DevicePart, other: Candidate, best: Candidate) -> str:
    """Return the words for a binding device that computes longer: beside devices that wait for it or have nothing to do."""
    text = f"{_braced(mine.device)} computes {{}} longer"
    waiting = max(other.prediction.parts, key=lambda part: part.idle_s)
    before_s = max(part.idle_s for part in best.prediction.parts)
    if waiting.idle_s - before_s >= WORTH_SAYING * (other.prediction.step_s - best.prediction.step_s):
        return f"{text} while {_braced(waiting.device)} waits {seconds_text(waiting.idle_s)}"
    used = {part.device for part in other.prediction.parts}
    idle = [part.device for part in best.prediction.parts if part.device not in used]
    return f"{text} as {_braced(', '.join(idle))} would be idle" if idle else text


def _sending(costs: Costs, mine: DevicePart, other: Candidate, gradient_sync: str) -> str:
    """Return the words for a binding device that sends longer, with its gradients if they are most of it."""
    text = f"{_braced(mine.device)} sends {{}} longer"
    gradient_bytes = summed_gradient_bytes(costs, other.stage)
    if not gradient_bytes or gradient_sync != "all_reduce":
        return text
    taken_s = other.prediction.step_s - predict(costs, other.stage, "none").step_s
    return f"{text} ({seconds_text(taken_s)} for {bytes_text(gradient_bytes)} of gradients)" if taken_s > mine.communication_s / 2 else text


def summed_gradient_bytes(costs: Costs, stage: Stage) -> int:
    """Return the bytes of gradients that devices add up in one step: of the weights in layers that split the batch.

    Parameters
    ----------
    costs : Costs of a profile.
    stage : Stage.
    """
    graph = costs.graph
    layers = [graph.layers[e.layer] for e in stage.layouts if e.samples and graph.owner(e.layer) == e.layer]
    return sum(variable.size for layer in layers for variable in layer.variables if variable.trainable) * graph.item_bytes


def _braced(text: str) -> str:
    """Return a text that `str.format` leaves as it is."""
    return text.replace("{", "{{").replace("}", "}}")
