"""Predicted seconds of one training step of a stage, and what each device does meanwhile."""

from __future__ import annotations

import math

import numpy as np

from hetero_mtf.planning.cost.clocks import Clocks
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import DevicePart, Prediction, Stage
from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes

__all__ = ["Costs", "predict"]


def predict(costs: Costs, stage: Stage, gradient_sync: str = "all_reduce", memory: bool = True) -> Prediction:
    """Return the predicted seconds of one synchronous step of a stage that holds the whole network.

    Every device has a clock. A layer advances the clock of each device by its measured seconds; a collective sets the clocks of
    the devices along its mesh axis to the latest of them plus its own seconds. The forward pass walks the layers in order, the
    backward pass in reverse; the updates follow without meeting again.

    Parameters
    ----------
    costs : Costs of the profile.
    stage : Stage.
    gradient_sync : as in a Plan.
    memory : whether to compute the bytes of each device too; a search that compares seconds does not need them.

    Notes
    -----
    Forward, a row ends in an all-reduce of its output, an input that lies otherwise than a layer wants it is moved once for all that want
    it so (`reshardings`), a split output that leaves the network is gathered, and batch norm gathers the statistics of a split batch, and
    attention that is split adds its scores up. Backward, columns that read one input end in one all-reduce of its gradient where anything
    before them trains, every move is made in reverse, batch norm adds up two sums a channel, and attention the gradients of its scores. The
    gradients of weights whose layer splits the batch are added up along its axis: TensorFlow starts each as soon as it is there, but
    sending takes a CPU's time from computing, so all their bytes are charged, with the latency of one all-reduce and what each tensor adds
    to it (`Link.message_s`, to each other processor), before the update. Butterfly mixing sends the weights to one partner after it
    instead. Processors on one TensorFlow device take turns. Before all that the step is called and its batch handed over, as long as the
    profile says (`launch_s`). Loss, regularizers and metrics are not counted.
    O(layers * devices).
    """
    clocks = Clocks(costs, stage)
    clocks.forward()
    forward_s = float(clocks.now.max())
    clocks.backward()
    if gradient_sync == "all_reduce":
        clocks.add_gradients_up()
    backward_s = float(clocks.now.max()) - forward_s
    for entry in stage.layouts:
        if costs.graph.owner(entry.layer) == entry.layer:
            clocks.compute(entry, "update")
    if gradient_sync == "butterfly_mixing":
        clocks.mix_weights()
    worked_s, called_s = float(clocks.now.max()), launch_s(costs)
    step_s = called_s + worked_s
    return Prediction(step_s, forward_s, backward_s, worked_s - forward_s - backward_s, _parts(clocks, step_s, memory), called_s)


def launch_s(costs: Costs) -> float:
    """Return the seconds to call a step and to hand its batch to the devices, the same under every plan.

    Parameters
    ----------
    costs : Costs of the profile.
    """
    profile, graph = costs.profile, costs.graph
    elements = sum(math.prod(graph.layers[index].output_shape) for index in graph.inputs)
    return profile.launch_s + profile.feed_s_per_byte * profile.batch_size * elements * graph.item_bytes


def _parts(clocks: Clocks, step_s: float, with_memory: bool) -> tuple[DevicePart, ...]:
    """Return what every device does in the step."""
    memory = stage_memory_bytes(clocks.costs.profile, clocks.stage, clocks.costs.memory) if with_memory else (0,) * len(clocks.now)
    devices = clocks.costs.profile.cluster.devices
    idle = np.maximum(0.0, step_s - clocks.compute_s - clocks.communication_s).tolist()
    rows = zip(clocks.stage.devices, clocks.compute_s.tolist(), clocks.communication_s.tolist(), idle, memory)
    return tuple(DevicePart(devices[d].name, *part) for d, *part in rows)
