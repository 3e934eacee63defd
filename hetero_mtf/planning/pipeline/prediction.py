"""Predicted step of a pipeline: its stages, the transfers between them, and the simulated schedule."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.link_cost import link_lines
from hetero_mtf.planning.cost.stage_cost import Spent, StageCost, stage_cost
from hetero_mtf.planning.cost.step_cost import launch_s
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
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.planning.schedule.pipeline_costs import PipelineCosts
from hetero_mtf.planning.schedule.simulator import Simulation, simulate


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """Stages and how a batch moves through them.

    Parameters
    ----------
    stages : their layers, devices and layouts; samples sum to the whole batch.
    microbatches : M.
    schedule : "fill_drain", "1f1b" or "interleaved".
    recompute : whether backward passes compute activations again.
    depths : (stages,) microbatches in flight of each stage of "1f1b"; empty for S - s.
    replicas : samples of a batch that each replica takes; empty for one replica.
    """

    stages: tuple[Stage, ...]
    microbatches: int
    schedule: str = "1f1b"
    recompute: bool = False
    depths: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()


class MicrobatchCosts:
    """Costs of one profile at the sizes that microbatches have, each made once.

    Parameters
    ----------
    profile : Profile.
    whole : Costs of the profile, where they are at hand.
    """

    def __init__(self, profile: Profile, whole: Costs | None = None) -> None:
        self.profile = profile
        self.whole = whole or Costs(profile)
        self._found: dict[int, Costs] = {profile.batch_size: self.whole}

    def at(self, samples: int) -> Costs:
        """Return the costs at so many samples, from the curves over samples.

        Parameters
        ----------
        samples : samples of a microbatch.
        """
        if samples not in self._found:
            self._found[samples] = Costs(with_batch_size(self.profile, samples))
        return self._found[samples]


def predict_pipeline(costs: MicrobatchCosts, pipeline: Pipeline) -> tuple[Prediction, Simulation]:
    """Return the predicted step of a pipeline, and its time line.

    Parameters
    ----------
    costs : MicrobatchCosts of the profile.
    pipeline : Pipeline.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.

    Notes
    -----
    A stage takes as long as its slowest processor, by the rules of `predict`, its own collectives included. A tensor that is made in
    one stage and read in a later one is sent straight to it, and is charged to the boundary in front of the reader: latency and
    the bytes that the busiest sender or receiver has, over the slowest of the links; so is its gradient. Where the profile knows what
    a device takes while the others of its host rest, the part of a stage's work that overlaps with no other stage's, in the step as
    simulated without this, takes so much. O(stages * microbatches).
    """
    sizes = microbatch_sizes(costs.profile.batch_size, pipeline.microbatches)
    parts = {size: [with_samples(stage, size) for stage in pipeline.stages] for size in set(sizes)}
    sent = {size: boundaries_s(costs.at(size), stages) for size, stages in parts.items()}
    held = [stage_bytes(costs.at(max(sizes)).profile, stage, pipeline.recompute) for stage in parts[max(sizes)]]
    placed = [stage.devices for stage in pipeline.stages]
    table = clock_table(pipeline.schedule, placed, len(sizes), pipeline.depths or None)
    beside, alone = ({size: [stage_cost(costs.at(size), stage, b) for stage in p] for size, p in parts.items()} for b in (True, False))
    found, line = beside, simulate(_costs(beside, sent, held, sizes, pipeline.recompute), table, placed)
    if beside != alone:
        shares = overlaps(line.tasks, [_hosts(costs.profile, stage) for stage in pipeline.stages])
        found = {size: list(map(blended, beside[size], alone[size], shares.tolist())) for size in beside}
        line = simulate(_costs(found, sent, held, sizes, pipeline.recompute), table, placed)
    called_s = launch_s(costs.whole)
    forward_s = max(entry.end_s for entry in line.tasks if entry.step_pass == "forward")
    used = _parts(costs, pipeline, [found[size] for size in sizes], [sent[size] for size in sizes], held, line, called_s + line.step_s)
    step_s = called_s + line.step_s
    return Prediction(step_s, forward_s, line.passes_s - forward_s, line.step_s - line.passes_s, used, called_s), line


def _hosts(profile: Profile, stage: Stage) -> frozenset[str]:
    return frozenset(profile.cluster.devices[device].host for device in stage.devices)


def boundaries_s(costs: Costs, stages: Sequence[Stage]) -> np.ndarray:
    """Return the (stages - 1,) seconds of what a microbatch sends over each boundary, one way.

    Parameters
    ----------
    costs : Costs at the microbatch's size.
    stages : the stages of the pipeline, with the microbatch's samples.

    Raises
    ------
    ProfileError
        If the link between two stages was not measured.
    """
    latency, per_byte = link_lines(costs.profile)
    found = np.zeros(len(stages) - 1)
    for layer, source, reader in transfers(costs.graph, stages):
        here, there = stages[source], stages[reader]
        meeting, busiest = _pieces(costs.graph, layer, here, there)
        pairs = np.ix_(here.devices, there.devices)
        slowest, furthest = float(per_byte[pairs][meeting].max()), float(latency[pairs][meeting].max())
        if np.isinf(slowest):
            names = [costs.profile.cluster.devices[stage.devices[0]].name for stage in (here, there)]
            raise ProfileError(f"the profile has no link between the stages of {names[0]} and {names[1]}; calibrate again")
        found[reader - 1] += furthest + slowest * costs.profile.batch_size * output_bytes(costs.graph, layer) * busiest
    return found


def _pieces(graph: LayerGraph, layer: int, here: Stage, there: Stage) -> tuple[np.ndarray, float]:
    """Return which senders a reader has pieces from, and the part of the tensor that the busiest sender or reader handles.

    A reader needs its samples with all channels; of what several senders hold alike, each sends as much.

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
    """Return the (processors, 2) begin and end of each processor's part along a mesh axis, of 1; all of it where nothing is split."""
    if not parts:
        return np.tile([0.0, 1.0], (len(stage.devices), 1))
    ends = np.concatenate([[0], np.cumsum(parts)]) / sum(parts)
    places = np.array(stage.places(axis))
    return np.stack([ends[places], ends[places + 1]], axis=1)


def _costs(
    found: dict[int, list[StageCost]], sent: dict[int, np.ndarray], held: Sequence[StageBytes], sizes: Sequence[int], recompute: bool
) -> PipelineCosts:
    """Return what the simulator needs; bytes are left to `_parts`, which knows each processor's."""
    stages = range(len(held))
    return PipelineCosts(
        forward_s=[[found[size][stage].forward.seconds for size in sizes] for stage in stages],
        backward_s=[[found[size][stage].backward.seconds for size in sizes] for stage in stages],
        send_forward_s=[[sent[size][at] for size in sizes] for at in stages[:-1]],
        send_backward_s=[[sent[size][at] for size in sizes] for at in stages[:-1]],
        update_s=[max(cost.finish.seconds for cost in costs) for costs in zip(*found.values())],
        recompute=recompute,
    )


def _parts(
    costs: MicrobatchCosts,
    pipeline: Pipeline,
    found: Sequence[Sequence[StageCost]],
    sent: Sequence[np.ndarray],
    held: Sequence[StageBytes],
    line: Simulation,
    step_s: float,
) -> tuple[DevicePart, ...]:
    """Return what every device does in the step; one with several stages does what they do together."""
    busy, sending, held_bytes = (dict.fromkeys(itertools.chain(*(s.devices for s in pipeline.stages)), 0.0) for _ in range(3))
    last = len(pipeline.stages) - 1
    for at, stage in enumerate(pipeline.stages):
        over = sum(float(row[at - 1]) if at else 0.0 for row in sent) + sum(float(row[at]) if at < last else 0.0 for row in sent)
        for place, device in enumerate(stage.devices):
            spent = [part for m, costs_of in enumerate(found) for part in _passes(costs_of[at], (at, m) in line.again)]
            spent.append(found[0][at].finish)
            busy[device] += sum(part.compute_s[place] for part in spent)
            sending[device] += over + sum(part.communication_s[place] for part in spent)
            held_bytes[device] += held[at].peak(line.in_flight[at])[place]
    names = costs.profile.cluster.devices
    return tuple(DevicePart(names[d].name, busy[d], sending[d], max(0.0, step_s - busy[d] - sending[d]), int(held_bytes[d])) for d in busy)


def _passes(cost: StageCost, again: bool) -> list[Spent]:
    return [cost.forward, cost.backward, *([cost.forward] if again else [])]
