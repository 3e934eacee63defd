"""Choice of the method of an all-reduce: by the rules of a plan, or by default."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.collectives.butterfly import butterfly
from hetero_mtf.mesh.collectives.exchange import exchange
from hetero_mtf.mesh.collectives.halving import halving_doubling
from hetero_mtf.mesh.collectives.nccl import nccl, nccl_lack
from hetero_mtf.mesh.collectives.placement import AllReduce, Combine, elements_of
from hetero_mtf.mesh.collectives.ring import ring
from hetero_mtf.mesh.collectives.two_level import two_level
from hetero_mtf.planning.layout.records import BUCKET_BYTES, BUTTERFLY_UP_TO_BYTES, CollectiveRule
from hetero_mtf.planning.plan.collective_rule import rule_for

_METHODS: dict[str, AllReduce] = {
    "ring": ring,
    "butterfly": butterfly,
    "halving_doubling": halving_doubling,
    "exchange": exchange,
    "nccl": nccl,
}


@dataclasses.dataclass(frozen=True)
class Collectives:
    """Methods of the collectives of a mesh.

    Parameters
    ----------
    rules : rules of the plan; empty for the defaults.
    hosts : (processors of the mesh,) name of each one's host, which two_level needs; empty if unknown.
    bucket_bytes : most bytes of a bucket of gradients, whose all-reduces are fused; 0 for none.
    """

    rules: tuple[CollectiveRule, ...] = ()
    hosts: tuple[str, ...] = ()
    bucket_bytes: int = BUCKET_BYTES

    def all_reduce(self, tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine, members: Sequence[int]) -> list[tf.Tensor]:
        """Return the combination of all tensors, on every processor of a group, by the rule for tensors of this size.

        Parameters
        ----------
        tensors : (group,) tensors of one static shape.
        devices : (group,) device strings.
        combine : associative and commutative function of two tensors.
        members : (group,) their numbers in the mesh.

        Raises
        ------
        LayoutError
            If the rule's method cannot be used among these processors.
        """
        rule = rule_for(self.rules, "all_reduce", elements_of(tensors[0]) * tensors[0].dtype.size)
        return all_reduce(tensors, devices, combine, rule, [self.hosts[p] for p in members] if self.hosts else ())


def all_reduce(
    tensors: Sequence[tf.Tensor],
    devices: Sequence[str],
    combine: Combine = tf.add,
    rule: CollectiveRule | None = None,
    hosts: Sequence[str] = (),
) -> list[tf.Tensor]:
    """Return the combination of all tensors, bitwise equal on every processor.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape. Nothing is sent where they are empty.
    devices : (processors,) device strings.
    combine : associative and commutative function of two tensors.
    rule : the method; None for NCCL between GPUs of one process that have it, else an exchange between two processors and a
        butterfly or, from `BUTTERFLY_UP_TO_BYTES` on, a ring among more.
    hosts : (processors,) name of each processor's host, for two_level.

    Raises
    ------
    LayoutError
        If the method cannot be used among these processors.
    """
    if len(tensors) == 1 or not elements_of(tensors[0]):
        return list(tensors)
    return _method(tensors, devices, combine, rule, hosts)(tensors, devices, combine)


def _method(
    tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine, rule: CollectiveRule | None, hosts: Sequence[str]
) -> AllReduce:
    if rule is None:
        return _default(tensors, devices, combine)
    if rule.method == "ring" and rule.segments:
        if len(rule.segments) != len(tensors):
            fault = f"the plan has a ring of {len(rule.segments)} segments, this all-reduce is among {len(tensors)} processors"
            raise LayoutError(fault, "leave the segments of the rule empty")
        return lambda xs, on, by: ring(xs, on, by, rule.segments)
    if rule.method == "two_level":
        if len(hosts) != len(tensors):
            fault = f"a two_level all-reduce among {len(tensors)} processors has the hosts of {len(hosts)}"
            raise LayoutError(fault, "give the host of each processor, or choose another method")
        return lambda xs, on, by: two_level(xs, on, by, hosts, _METHODS[rule.leaders or "ring"])
    if rule.method not in _METHODS:
        raise LayoutError(f"there is no all-reduce by {rule.method!r}", f"choose one of {', '.join([*_METHODS, 'two_level'])}")
    return _METHODS[rule.method]


def _default(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine) -> AllReduce:
    if not nccl_lack(devices, combine, tensors[0].dtype):
        return nccl
    if len(tensors) == 2:
        return exchange
    return butterfly if elements_of(tensors[0]) * tensors[0].dtype.size <= BUTTERFLY_UP_TO_BYTES else ring
