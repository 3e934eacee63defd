"""Two-batch overlap: one half of a batch computes while collectives of the other are sent; its predicted step, and where it pays.

Where a layer is split by its input channels, or its tensors are resharded, what follows waits for a collective. A batch in two halves has
other work meanwhile. TensorFlow starts whatever is ready, so no order of the halves is built; the prediction takes them in turns.

References: Wang et al., "Domino: eliminating communication in LLM training via generic tensor slicing and overlapping", arXiv 2409.15241,
2024, for halves of the batch behind row layers; elsewhere two-batch overlap.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hetero_mtf.planning.cost.clocks import Clocks
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import fed_launch_s, predict
from hetero_mtf.planning.layout.records import Alternative, DevicePart, LayerLayout, Prediction, Stage
from hetero_mtf.planning.names import HALVES
from hetero_mtf.planning.pipeline.group_stages import with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.stale.choice import GainsForSure, beside
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.planning.strategies.reasons import bottleneck_part, relative_step


@dataclasses.dataclass(frozen=True)
class _Segment:
    """What a half computes until its next collective, and the collective.

    Parameters
    ----------
    compute_s : (processors,) seconds.
    axis : mesh axis of the collective; empty for none, at the end of a pass.
    sent_s : (groups,) seconds of the collective.
    """

    compute_s: np.ndarray
    axis: str = ""
    sent_s: tuple[float, ...] = ()


class _SegmentClocks(Clocks):
    """Clocks that record the segments of a half."""

    def __init__(self, costs: Costs, stage: Stage) -> None:
        super().__init__(costs, stage, hides=False)
        self.segments: list[_Segment] = []
        self._computed_s = np.zeros(len(stage.devices))

    def record(self) -> tuple[list[_Segment], list[_Segment], list[_Segment]]:
        """Return the segments of the forward pass, of the backward pass, and of sums and updates."""
        counts = {}
        for step_pass in self.passes():
            self._close("", ())
            counts[step_pass] = len(self.segments)
        forward, backward = counts["forward"], counts["backward"]
        return self.segments[:forward], self.segments[forward:backward], self.segments[backward:]

    def _compute(self, entry: LayerLayout, step_pass: str) -> None:
        before = self.now.copy()
        super()._compute(entry, step_pass)
        self._computed_s += self.now - before

    def _meet(self, axis: str, seconds: Sequence[float]) -> None:
        super()._meet(axis, seconds)
        if len(seconds):
            self._close(axis, tuple(seconds))

    def _close(self, axis: str, sent_s: tuple[float, ...]) -> None:
        self.segments.append(_Segment(self._computed_s, axis, sent_s))
        self._computed_s = np.zeros(len(self.now))


class _InterleavedClocks:
    """Clocks of processors that compute segments of two halves in turns, and of the links between them.

    Parameters
    ----------
    clocks : clocks of the stage, for the groups along its axes.
    hidden : part of a collective's seconds that computing hides.
    """

    def __init__(self, clocks: Clocks, hidden: float) -> None:
        self._clocks, self._hidden = clocks, hidden
        self.now, self.compute_s, self.communication_s = (np.zeros(len(clocks.devices)) for _ in range(3))
        self._ready_s = [np.zeros(len(self.now)) for _ in range(HALVES)]
        self._links_s: dict[str, np.ndarray] = {}

    def run(self, half: int, segment: _Segment) -> None:
        """Compute a segment of a half as soon as its collective before has ended and the devices are free, then begin its own.

        Parameters
        ----------
        half : 0 or 1.
        """
        waits = np.maximum(0.0, self._ready_s[half] - self.now)
        self.communication_s += waits
        self.compute_s += segment.compute_s
        self.now += waits + segment.compute_s
        self._ready_s[half] = self.now.copy()
        if segment.axis:
            self._send(half, segment)

    def _send(self, half: int, segment: _Segment) -> None:
        size, inner = self._clocks.extent(segment.axis)
        now, ready_s = (clock.reshape(-1, size, inner) for clock in (self.now, self._ready_s[half]))
        begin_s = np.maximum.reduce(now, axis=1, keepdims=True)
        sent_s = np.reshape(segment.sent_s, begin_s.shape)
        end_s = np.maximum(begin_s, self._links_s.get(segment.axis, begin_s)) + sent_s
        self._links_s[segment.axis] = end_s
        ready_s[:] = end_s
        now += (1 - self._hidden) * sent_s
        self.communication_s.reshape(-1, size, inner)[:] += (1 - self._hidden) * sent_s

    def meet(self) -> float:
        """Let every processor wait for both halves, and return the latest clock."""
        waits = np.maximum(0.0, np.maximum(*self._ready_s) - self.now)
        self.communication_s += waits
        self.now += waits
        return float(self.now.max())


def predict_two_batches(costs: MicrobatchCosts, stage: Stage) -> Prediction:
    """Return the predicted step of a stage whose batch is computed in two halves, neither waiting for the other.

    The halves take turns: each computes up to its next collective, which begins when all its processors are there and the links are free;
    of s seconds, (1 - h) s are the processors' own time, with the part h that computing hides (`Link.hidden`). Gradients are added up
    after both.

    Parameters
    ----------
    costs : of the profile at its batch and at the halves.
    stage : the only stage of a plan; its samples sum to the batch.

    Notes
    -----
    Bytes are those of the full batch in one: both halves keep what their backward passes need. O(layers * processors).
    """
    sizes = microbatch_sizes(costs.profile.batch_size, HALVES)
    halves = [_SegmentClocks(costs.at(size), with_samples(stage, size)) for size in sizes]
    recorded = [clocks.record() for clocks in halves]
    both = _InterleavedClocks(halves[0], costs.full_batch.hidden)
    _interleave(both, [forward for forward, _, _ in recorded])
    forward_s = both.meet()
    _interleave(both, [backward for _, backward, _ in recorded])
    backward_s = both.meet() - forward_s
    for segment in recorded[0][2]:
        both.run(0, segment)
    update_s = both.meet() - forward_s - backward_s
    overhead_s = fed_launch_s(costs.full_batch, [stage], forward_s + backward_s + update_s)
    step_s = overhead_s + forward_s + backward_s + update_s
    in_one = predict(costs.full_batch, stage)
    idle_s = np.maximum(0.0, step_s - both.compute_s - both.communication_s).tolist()
    figures = zip(in_one.parts, both.compute_s.tolist(), both.communication_s.tolist(), idle_s)
    parts = tuple(DevicePart(part.device, compute, sent, idle, part.memory_bytes) for part, compute, sent, idle in figures)
    return Prediction(step_s, forward_s, backward_s, update_s, parts, overhead_s)


def _interleave(both: _InterleavedClocks, halves: Sequence[Sequence[_Segment]]) -> None:
    for place in range(max(map(len, halves))):
        for half, segments in enumerate(halves):
            if place < len(segments):
                both.run(half, segments[place])


def best_in_two_batches(costs: Costs, stages: Mapping[str, Stage], plan_of: Callable[[str], Plan]) -> Plan | None:
    """Return the plan with the shortest predicted step whose batch is in two halves; None where no layer waits for collectives.

    Parameters
    ----------
    costs : Costs of the profile.
    stages : strategy -> its stage, of those that fit in memory: halves keep as many bytes.
    plan_of : gives the plan of one of these strategies, with its batch in one; called for the one that is returned.
    """
    waiting = {name: stage for name, stage in stages.items() if waits_for_collectives(stage)}
    if costs.profile.batch_size < HALVES or not waiting:
        return None
    halves = MicrobatchCosts(costs.profile, costs)
    predicted = {name: predict_two_batches(halves, stage) for name, stage in waiting.items()}
    name = min(predicted, key=lambda each: predicted[each].step_s)
    return dataclasses.replace(plan_of(name).in_two_batches(), predicted=predicted[name])


def with_two_batches(costs: Costs, best: Plan, halved: Plan | None, gains: GainsForSure) -> Plan:
    """Return the best plan with its batch in two halves, if that is faster by more than predictions err; else the plan in one.

    Parameters
    ----------
    costs : Costs of the profile.
    best : the best plan of one stage with its batch in one.
    halved : of `best_in_two_batches`.
    gains : (costs, step, step of the best plan) -> whether a predicted gain is beyond the predictor's error.

    Notes
    -----
    Only for networks in which two halves give the numbers of the batch (`choose.may_halve_batches`). What is not taken is among the
    alternatives.
    """
    if halved is None:
        return best
    assert best.predicted is not None and halved.predicted is not None
    step_s, best_s, name = halved.predicted.step_s, best.predicted.step_s, f"{halved.strategy} in two batches"
    if not gains(costs, step_s, best_s):
        text = relative_step(step_s, best_s, best.strategy)
        text += ", which is within the error of predictions" if step_s < best_s else ""
        other = Alternative(name, step_s, text, bottleneck_part(halved.predicted))
        return beside(best, other)
    slower = Alternative(best.strategy, best_s, relative_step(best_s, step_s, name), bottleneck_part(best.predicted))
    alike = halved.stages == best.stages
    contributions, proof = (best.contributions, best.proof) if alike else ((), halved.proof)
    return dataclasses.replace(halved, alternatives=(slower, *best.alternatives), contributions=contributions, proof=proof)


def waits_for_collectives(stage: Stage) -> bool:
    """Return whether layers of a stage wait for collectives that the other half of a batch could hide: not where only samples are split."""
    return len(stage.devices) > 1 and any(entry.sizes for entry in stage.layouts)
