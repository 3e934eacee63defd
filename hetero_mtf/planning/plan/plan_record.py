"""The plan as a record of fields that are not checked."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.layout.records import BUCKET_BYTES, Alternative, CollectiveRule, DeviceContribution, Prediction, Proof, Stage
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.stale import StaleOptions


@dataclasses.dataclass(frozen=True)
class PlanRecord:
    """How one network trains on the devices of one cluster.

    The record is flat, as its JSON and its keyword arguments are: schedule, microbatches, recompute, depths, replicas and stale
    repeat the fields of `Execution`, in which `execution` returns them.

    Parameters
    ----------
    digest : digest of the LayerGraph it is for.
    dtype : "float32" or "float64".
    batch_size : samples a step.
    strategy : one of `STRATEGY_NAMES`.
    devices : names of all devices of the cluster, also of those it leaves idle.
    stages : runs of layers on meshes of devices; together they hold every layer once, in order.
    schedule, microbatches, recompute, depths, replicas, stale : as for `Execution`. Each replica is a slice of the batch axis of every
        stage's mesh.
    collectives : rules for the method of all-reduces by size, tried in order; empty for the defaults (NCCL between GPUs of one
        process, else an exchange between two processors and a ring among more).
    predicted : predicted seconds of a step; None for a manual plan.
    alternatives : alternatives considered.
    gradient_sync : how the copies of weights on several devices stay equal: "all_reduce" of their gradients, or "butterfly_mixing",
        which averages weights with one partner a step, is not synchronous, and needs every layer to split the batch.
    contributions : contribution of each device; empty if they were not computed.
    what_if : what-if changes of its profile, a clause each; empty where all of it was measured.
    proof : bound and gap of its layouts; None where they are not known.
    bucket_bytes : most bytes of a bucket of gradients, whose all-reduces are fused (`gradient_buckets.buckets`); 0 for none.
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
    stale: StaleOptions | None = None
    bucket_bytes: int = BUCKET_BYTES

    @property
    def execution(self) -> Execution:
        """Schedule, microbatches, recomputation, depths, replicas and the options of a schedule without a flush."""
        return Execution(self.schedule, self.microbatches, self.recompute, self.depths, self.replicas, self.stale)

    @property
    def built_from(self) -> tuple[object, ...]:
        """What decides how it is built and run; plans in which these are equal differ in no more than strategy and predictions."""
        head = self.digest, self.dtype, self.batch_size, self.devices
        return *head, self.stages, self.collectives, self.execution, self.gradient_sync, self.bucket_bytes

    @property
    def used(self) -> tuple[int, ...]:
        """Indices of the devices that are in a stage, in the order of the stages."""
        return tuple(dict.fromkeys(device for stage in self.stages for device in stage.devices))

    @property
    def pipelined(self) -> bool:
        """Whether batches go through several stages, or in several microbatches."""
        return len(self.stages) > 1 or self.microbatches > 1
