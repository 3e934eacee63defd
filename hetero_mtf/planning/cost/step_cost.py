"""Predicted seconds of one training step of a stage, and of each device in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from hetero_mtf.planning.cost.clocks import Clocks
from hetero_mtf.planning.cost.feeding import feed_s, unfed_launch_s
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import DevicePart, Prediction, Stage
from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes


def predict(
    costs: Costs, stage: Stage, gradient_sync: str = "all_reduce", memory: bool = True, bucket_bytes: int | None = None
) -> Prediction:
    """Return the predicted seconds of one synchronous step of a stage that holds the whole network.

    Every device d has a clock c_d, 0 at the start. A layer with measured seconds t_d advances it, c_d <- c_d + t_d; a collective of s
    seconds along a mesh axis synchronises the devices of each group G, c_d <- max_{e in G} c_e + s. The forward pass walks the layers
    in order, the backward pass in reverse, and the updates follow, without collectives where the optimizer updates elements. The step
    takes max_d c_d and the launch overhead.

    Parameters
    ----------
    gradient_sync : as in a Plan.
    memory : whether to compute the bytes of each device too; a search that compares seconds does not need them.
    bucket_bytes : as in a Plan; None for what `plan` chooses by the links.

    Notes
    -----
    Forward, a row ends in an all-reduce of its output. An input in another layout than a layer needs is resharded once for all layers
    that need this layout (`reshardings`). A split output that leaves the network is gathered. Batch norm gathers the statistics of a
    split batch, and split attention adds its scores up. Backward, columns that read one input end in one all-reduce of its gradient if
    it needs one, every resharding is reversed, batch norm adds up two sums a channel, and attention the gradients of its scores. The
    gradients of weights whose layer splits the batch are added up along its axis before the update: all their bytes, with the latency
    of one all-reduce and the seconds of each bucket of gradients (`Link.message_s`, to each other processor;
    `gradient_buckets.buckets`). TensorFlow starts each as soon as it is computed. What sending takes of the devices' own time is
    charged; the part h that computing was measured to hide (`Link.hidden`) goes on beside the backward pass, and only what has not
    arrived before its update is charged (`hidden_sums`). Butterfly mixing instead sends the weights to one partner after the update.
    For an optimizer that updates full variables (`needs_full_variable`) the weights of a layer that is split by channels are gathered
    before their update, as are their gradients, and every device updates them all. Processors on one TensorFlow device run one after
    another. The launch overhead of the step is in the profile (`launch_s`). Loss, regularizers and metrics are not counted. O(layers *
    devices).
    """
    clocks = Clocks(costs, stage, bucket_bytes=costs.bucket_bytes(stage.devices) if bucket_bytes is None else bucket_bytes)
    end_s = {step_pass: float(clocks.now.max()) for step_pass in clocks.passes(gradient_sync)}
    forward_s = end_s["forward"]
    backward_s = end_s["gradients"] - forward_s
    update_s = end_s["update"] - forward_s - backward_s
    overhead_s = fed_launch_s(costs, [stage], end_s["update"])
    step_s = overhead_s + end_s["update"]
    return Prediction(step_s, forward_s, backward_s, update_s, _parts(clocks, step_s, memory), overhead_s)


def launch_s(costs: Costs) -> float:
    """Return the launch overhead: seconds to call a step and to send its batch to the devices, the same for every plan."""
    return unfed_launch_s(costs.profile)


def fed_launch_s(costs: Costs, stages: Sequence[Stage], busy_s: float) -> float:
    """Return the launch overhead, or what a step waits for its batch where that is sent to other hosts and takes longer than the step.

    The batch is sent while the step before runs.

    Parameters
    ----------
    stages : of a plan, which say which device gets what of the batch.
    busy_s : seconds of the step without the launch overhead.
    """
    return max(launch_s(costs), feed_s(costs.profile, stages) - busy_s)


def _parts(clocks: Clocks, step_s: float, with_memory: bool) -> tuple[DevicePart, ...]:
    """Return the compute, communication, idle time and memory of every device in the step."""
    memory = stage_memory_bytes(clocks.costs.profile, clocks.stage, clocks.costs.memory) if with_memory else (0,) * len(clocks.now)
    devices = clocks.costs.profile.cluster.devices
    idle = np.maximum(0.0, step_s - clocks.compute_s - clocks.communication_s).tolist()
    rows = zip(clocks.stage.devices, clocks.compute_s.tolist(), clocks.communication_s.tolist(), idle, memory)
    return tuple(DevicePart(devices[d].name, *part) for d, *part in rows)


@dataclasses.dataclass(frozen=True)
class Spent:
    """Seconds of the processors of a stage in a part of a step.

    Parameters
    ----------
    seconds : until the slowest of them ends.
    compute_s : (processors,) seconds of compute.
    communication_s : (processors,) seconds in the stage's own collectives.
    """

    seconds: float
    compute_s: tuple[float, ...]
    communication_s: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class StageCost:
    """Seconds of one stage of a pipeline.

    Parameters
    ----------
    forward, backward : of one microbatch.
    finish : after the last microbatch: gradients are added up over the processors that share the batch, and weights updated.
    """

    forward: Spent
    backward: Spent
    finish: Spent

    @property
    def microbatch_s(self) -> float:
        """Seconds of a microbatch, both passes."""
        return self.forward.seconds + self.backward.seconds


def stage_cost(costs: Costs, stage: Stage, beside: bool = True) -> StageCost:
    """Return the seconds of a stage of a pipeline, by the rules of `predict`.

    Parameters
    ----------
    costs : Costs of a profile at the batch size of a microbatch.
    stage : Stage; the samples of its layouts sum to a microbatch.
    beside : whether the other devices of the hosts compute at the same time.

    Notes
    -----
    Transfers between stages are not included. O(layers * processors).
    """
    clocks = Clocks(costs, stage, beside=beside, hides=False)
    forward, backward, finish = (_spent(clocks) for step_pass in clocks.passes() if step_pass != "gradients")
    return StageCost(forward, backward, finish)


def _spent(clocks: Clocks) -> Spent:
    """Return the seconds on the clocks and reset them to 0."""
    spent = Spent(float(clocks.now.max()), tuple(clocks.compute_s.tolist()), tuple(clocks.communication_s.tolist()))
    for each in (clocks.now, clocks.compute_s, clocks.communication_s):
        each[:] = 0.0
    return spent
