"""Predicted step of a pipeline: its stages, the transfers between them, and the simulated schedule.

For stages s and microbatches m of sizes n_m, the simulator has the seconds of a forward and a backward pass f_s(n_m) and b_s(n_m), of
a transfer over each boundary x_s(n_m), and of the update u_s. The step is the last end of all tasks in the order of the
schedule, plus the launch overhead.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.link_cost import link_lines
from hetero_mtf.planning.cost.step_cost import Spent, StageCost, fed_launch_s, stage_cost
from hetero_mtf.planning.layout.blocks import output_bytes
from hetero_mtf.planning.layout.records import DevicePart, Prediction, Stage
from hetero_mtf.planning.layout.resharding import output_of
from hetero_mtf.planning.layout.stages import transfers
from hetero_mtf.planning.memory.stage_memory import StageBytes, stage_bytes
from hetero_mtf.planning.pipeline.group_stages import with_samples
from hetero_mtf.planning.pipeline.overlap import blended, overlaps
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import with_batch_size
from hetero_mtf.planning.schedule.clock_table import clock_table
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.planning.schedule.pipeline_costs import PipelineCosts
from hetero_mtf.planning.schedule.simulator import Simulation, simulate


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Stages and how a batch moves through them.

    Parameters
    ----------
    stages : their layers, devices and layouts; samples sum to the full batch.
    execution : with a schedule that has a clock table.
    """

    stages: tuple[Stage, ...]
    execution: Execution


class MicrobatchCosts:
    """Costs of one profile at the sizes that microbatches have, each computed once.

    Parameters
    ----------
    full_batch : costs of the profile itself; None to compute them.
    """

    def __init__(self, profile: Profile, full_batch: Costs | None = None) -> None:
        self.profile = profile
        self.full_batch = full_batch or Costs(profile)
        self._by_samples: dict[int, Costs] = {profile.batch_size: self.full_batch}

    def at(self, samples: int) -> Costs:
        """Return the costs at a number of samples, from the curves over samples.

        Parameters
        ----------
        samples : samples of a microbatch.
        """
        if samples not in self._by_samples:
            self._by_samples[samples] = Costs(with_batch_size(self.profile, samples), self.full_batch.rules)
        return self._by_samples[samples]


def predict_pipeline(costs: MicrobatchCosts, pipeline: Pipeline, rendezvous: bool = False) -> tuple[Prediction, Simulation]:
    """Return the predicted step of a pipeline, and its time line.

    Parameters
    ----------
    rendezvous : whether transfers wait for their readers and take turns on a link in both directions (`PipelineCosts`), as in
        frameworks that post receives in the order of the schedule; here they do not.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.

    Notes
    -----
    A stage takes as long as its slowest processor, by the rules of `predict`, its own collectives included. A tensor that one stage
    computes and a later one reads is sent directly to the reader. The boundary in front of the reader is charged with the latency and
    with the bytes of the busiest sender or receiver over the slowest of the links, and with the same for the gradient. Where the
    profile has the seconds of a device while the others of its host are idle, they hold for the part of a stage's work that overlaps
    with no other stage's in a first simulation. O(stages * microbatches).
    """
    execution = pipeline.execution
    sizes = microbatch_sizes(costs.profile.batch_size, execution.microbatches)
    parts = {size: [with_samples(stage, size) for stage in pipeline.stages] for size in set(sizes)}
    sent = {size: boundaries_s(costs.at(size), stages) for size, stages in parts.items()}
    held = [stage_bytes(costs.at(max(sizes)).profile, stage, execution.recompute) for stage in parts[max(sizes)]]
    placed = [stage.devices for stage in pipeline.stages]
    table = clock_table(execution.schedule, placed, len(sizes), execution.depths or None)
    beside, alone = ({size: [stage_cost(costs.at(size), stage, b) for stage in p] for size, p in parts.items()} for b in (True, False))
    stage_costs, line = beside, simulate(_costs(beside, sent, sizes, execution.recompute, rendezvous), table, placed)
    if beside != alone:
        shares = overlaps(line.tasks, [_hosts(costs.profile, stage) for stage in pipeline.stages])
        stage_costs = {size: list(map(blended, beside[size], alone[size], shares.tolist())) for size in beside}
        line = simulate(_costs(stage_costs, sent, sizes, execution.recompute, rendezvous), table, placed)
    overhead_s = fed_launch_s(costs.full_batch, pipeline.stages, line.step_s)
    forward_s = max(entry.end_s for entry in line.tasks if entry.step_pass == "forward")
    used = _parts(
        costs, pipeline, [stage_costs[size] for size in sizes], [sent[size] for size in sizes], held, line, overhead_s + line.step_s
    )
    step_s = overhead_s + line.step_s
    return Prediction(step_s, forward_s, line.passes_s - forward_s, line.step_s - line.passes_s, used, overhead_s), line


def _hosts(profile: Profile, stage: Stage) -> frozenset[str]:
    return frozenset(profile.cluster.devices[device].host for device in stage.devices)


def boundaries_s(costs: Costs, stages: Sequence[Stage]) -> np.ndarray:
    """Return the (stages - 1,) seconds of what a microbatch sends over each boundary, one way.

    Parameters
    ----------
    costs : costs at the microbatch's size.
    stages : the stages of the pipeline, with the microbatch's samples.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.
    """
    latency, per_byte = link_lines(costs.profile)
    seconds = np.zeros(len(stages) - 1)
    for layer, source, reader in transfers(costs.graph, stages):
        here, there = stages[source], stages[reader]
        meeting, busiest = _pieces(costs.graph, layer, here, there)
        pairs = np.ix_(here.devices, there.devices)
        slowest, furthest = float(per_byte[pairs][meeting].max()), float(latency[pairs][meeting].max())
        if np.isinf(slowest):
            names = [costs.profile.cluster.devices[stage.devices[0]].name for stage in (here, there)]
            raise ProfileError(f"the profile has no link between the stages of {names[0]} and {names[1]}", "calibrate again")
        seconds[reader - 1] += furthest + slowest * costs.profile.batch_size * output_bytes(costs.graph, layer) * busiest
    return seconds


def _pieces(graph: LayerGraph, layer: int, here: Stage, there: Stage) -> tuple[np.ndarray, float]:
    """Return which senders send pieces to which readers, and the part of the tensor that the busiest sender or reader has.

    A reader needs its samples with all channels. Senders that hold the same piece send equal parts of it.

    Returns
    -------
    (senders, readers) array of bool, and the part, which is above 1 where a sender serves several readers.
    """
    tensor_layout = output_of(next(entry for entry in here.layouts if entry.layer == layer))
    reading = next(entry for entry in there.layouts if layer in graph.layers[entry.layer].inputs)
    channels = _held(here, tensor_layout.sizes, tensor_layout.axis)
    held = _held(here, tensor_layout.samples, tensor_layout.batch_axis)
    needed = _held(there, reading.samples, reading.batch_axis)
    common = np.minimum(held[:, None, 1], needed[None, :, 1]) - np.maximum(held[:, None, 0], needed[None, :, 0])
    sent = np.maximum(common, 0.0) * (channels[:, 1] - channels[:, 0])[:, None]
    received = needed[:, 1] - needed[:, 0]
    copies = np.divide(sent.sum(axis=0), received, out=np.ones(len(received)), where=received > 0)
    return sent > 0, float(max(received.max(), (sent / copies).sum(axis=1).max()))


def _held(stage: Stage, parts: Sequence[int], axis: str) -> np.ndarray:
    """Return the (processors, 2) begin and end of each processor's part of 1 along a mesh axis; 0 and 1 where nothing is split."""
    if not parts:
        return np.tile([0.0, 1.0], (len(stage.devices), 1))
    bounds = np.concatenate([[0], np.cumsum(parts)]) / sum(parts)
    places = np.array(stage.places(axis))
    return np.stack([bounds[places], bounds[places + 1]], axis=1)


def _costs(
    stage_costs: dict[int, list[StageCost]], sent: dict[int, np.ndarray], sizes: Sequence[int], recompute: bool, rendezvous: bool
) -> PipelineCosts:
    """Return the costs for the simulator; without bytes, which `_parts` counts for each processor."""
    stages = range(len(stage_costs[sizes[0]]))
    return PipelineCosts(
        forward_s=[[stage_costs[size][stage].forward.seconds for size in sizes] for stage in stages],
        backward_s=[[stage_costs[size][stage].backward.seconds for size in sizes] for stage in stages],
        send_forward_s=[[sent[size][at] for size in sizes] for at in stages[:-1]],
        send_backward_s=[[sent[size][at] for size in sizes] for at in stages[:-1]],
        update_s=[max(cost.finish.seconds for cost in costs) for costs in zip(*stage_costs.values())],
        recompute=recompute,
        shared_links=rendezvous,
        rendezvous=rendezvous,
    )


def _parts(
    costs: MicrobatchCosts,
    pipeline: Pipeline,
    stage_costs: Sequence[Sequence[StageCost]],
    sent: Sequence[np.ndarray],
    held: Sequence[StageBytes],
    line: Simulation,
    step_s: float,
) -> tuple[DevicePart, ...]:
    """Return the compute, communication and idle seconds and the bytes of every device, summed over its stages."""
    compute_s, communication_s, held_bytes = (dict.fromkeys(itertools.chain(*(s.devices for s in pipeline.stages)), 0.0) for _ in range(3))
    last = len(pipeline.stages) - 1
    for at, stage in enumerate(pipeline.stages):
        over = sum(float(row[at - 1]) if at else 0.0 for row in sent) + sum(float(row[at]) if at < last else 0.0 for row in sent)
        for place, device in enumerate(stage.devices):
            spent = [part for m, costs_of in enumerate(stage_costs) for part in _passes(costs_of[at], (at, m) in line.again)]
            spent.append(stage_costs[0][at].finish)
            compute_s[device] += sum(part.compute_s[place] for part in spent)
            communication_s[device] += over + sum(part.communication_s[place] for part in spent)
            held_bytes[device] += held[at].peak(line.in_flight[at])[place]
    names = costs.profile.cluster.devices
    return tuple(
        DevicePart(
            names[d].name, compute_s[d], communication_s[d], max(0.0, step_s - compute_s[d] - communication_s[d]), int(held_bytes[d])
        )
        for d in compute_s
    )


def _passes(cost: StageCost, again: bool) -> list[Spent]:
    return [cost.forward, cost.backward, *([cost.forward] if again else [])]
