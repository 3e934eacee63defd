"""All-reduce on two levels: inside each host, and between the leaders of the hosts."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.collectives.placement import AllReduce, Combine, on
from hetero_mtf.planning.cost.rounds import hosted, tree


def two_level(
    tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine, hosts: Sequence[str], among_leaders: AllReduce
) -> list[tf.Tensor]:
    """Return the combination of all tensors, on every processor; only the hosts' leaders send between hosts.

    Inside each host the tensors are combined along a tree to its first processor, the leader; the leaders all-reduce; the
    result goes back along the tree. 2 ceil(log2 m) rounds inside hosts of up to m processors, and the leaders' rounds.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    devices : (processors,) device strings.
    combine : associative and commutative function of two tensors.
    hosts : (processors,) name of each processor's host.
    among_leaders : all-reduce for the leaders; results are bitwise equal if those of the leaders are.
    """
    sums = list(tensors)
    groups = hosted(hosts)
    hops = [(source, leader) for group in groups for pairs in tree(group) for source, leader in pairs]
    for source, leader in hops:
        sums[leader] = on(devices[leader], combine, sums[leader], sums[source])
    leaders = [group[0] for group in groups]
    totals = among_leaders([sums[p] for p in leaders], [devices[p] for p in leaders], combine) if len(leaders) > 1 else [sums[leaders[0]]]
    for leader, total in zip(leaders, totals):
        sums[leader] = total
    for source, leader in reversed(hops):
        sums[source] = on(devices[source], tf.identity, sums[leader])
    return sums
