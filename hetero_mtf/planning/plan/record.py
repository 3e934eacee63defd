"""The plan as a record: its fields, not checked."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.layout.records import Alternative, CollectiveRule, DeviceContribution, Prediction, Proof, Stage


@dataclasses.dataclass(frozen=True)
class PlanRecord:
    """How one network trains on the devices of one cluster.

    Parameters
    ----------
    digest : digest of the LayerGraph it is for.
    dtype : "float32" or "float64".
    batch_size : samples a step.
    strategy : what made it: "single", "equal", "filters", "batch", "hybrid", "grid", "layers", "pipeline".
    devices : names of all devices of the cluster, also of those it leaves idle.
    stages : runs of layers on meshes of devices; together they hold every layer once, in order.
    schedule : how microbatches move through the stages: "synchronous" (one after another through all stages and back),
        "fill_drain", "1f1b" or "interleaved" (`clock_table`).
    microbatches : parts a batch is cut into (`microbatch_sizes`).
    recompute : whether activations are computed again in the backward pass.
    collectives : rules for the method of all-reduces by size, tried in order; empty for the defaults (NCCL between GPUs of one
        process, else an exchange between two processors and a ring among more).
    predicted : predicted seconds of a step; None for a plan typed by hand.
    alternatives : what else was considered.
    replicas : samples of a batch that each replica takes, a slice of the batch axis of every stage's mesh; empty for one replica.
    gradient_sync : how weights that several devices hold stay alike: "all_reduce" of their gradients, or "butterfly_mixing",
        which averages weights with one partner a step, is not synchronous, and needs every layer to split the batch.
    contributions : whether each device is worth using; empty if that was not asked.
    depths : (stages,) most microbatches that each stage of the schedule "1f1b" has in flight; empty for as many as there are stages
        from it on.
    what_if : what the profile it was made from supposes instead of having measured it (`what_if`), a clause each.
    proof : how far its layouts are proven best; None where that is not known.
    """

    digest: str
    dtype: str
    batch_size: int
    strategy: str
    devices: tuple[str, ...]
    stages: tuple[Stage, ...]
    schedule: str = "synchronous"
    microbatches: int = 1
    recompute: bool = False
    collectives: tuple[CollectiveRule, ...] = ()
    predicted: Prediction | None = None
    alternatives: tuple[Alternative, ...] = ()
    replicas: tuple[int, ...] = ()
    gradient_sync: str = "all_reduce"
    contributions: tuple[DeviceContribution, ...] = ()
    what_if: tuple[str, ...] = ()
    proof: Proof | None = None
    depths: tuple[int, ...] = ()

    @property
    def used(self) -> tuple[int, ...]:
        """Indices of the devices that are in a stage, in the order of the stages."""
        return tuple(dict.fromkeys(device for stage in self.stages for device in stage.devices))

    @property
    def pipelined(self) -> bool:
        """Whether batches go through several stages, or in several microbatches."""
        return len(self.stages) > 1 or self.microbatches > 1
