"""The device groups that stages of a pipeline may have, in one replica or in several."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import splits_batch
from hetero_mtf.planning.solvers.apportionment import minimise_maximum, proportional

# Groups of several devices are considered among so many devices, all of them; among more, neighbours in speed.
ALL_GROUPS_UP_TO = 4
MOST_REPLICAS = 8


@dataclasses.dataclass(frozen=True)
class DeviceGroups:
    """The groups of devices that stages may have.

    Parameters
    ----------
    groups : (groups,) the devices of each, as indices in the cluster.
    replicas : (replicas,) samples of a batch that each replica of the pipeline takes; its device has the same place in every
        group. Empty for one replica, each of whose stages has the split that is best for it.
    """

    groups: tuple[tuple[int, ...], ...]
    replicas: tuple[int, ...] = ()


def distinct(costs: Costs) -> list[int]:
    """Return the fastest processor of each TensorFlow device, the fastest first: others on it would compete with it."""
    first: dict[str, int] = {}
    for device in costs.by_speed:
        first.setdefault(costs.profile.cluster.devices[device].tf_device, device)
    return list(first.values())


def undivided_groups(devices: Sequence[int], several: bool = True) -> DeviceGroups:
    """Return the groups of a pipeline in one replica, the fastest devices first.

    Parameters
    ----------
    devices : indices of the devices, the fastest first.
    several : whether a group may have several devices: any of them among up to four, among more pairs of neighbours in speed.

    Examples
    --------
    >>> undivided_groups([0, 2, 1]).groups
    ((0,), (2,), (1,), (0, 2), (0, 1), (1, 2))
    """
    single: list[tuple[int, ...]] = [(device,) for device in devices]
    if not several:
        return DeviceGroups(tuple(single))
    joint: list[tuple[int, ...]] = list(itertools.pairwise(devices))
    if len(devices) <= ALL_GROUPS_UP_TO:
        joint = [group for size in range(2, len(devices)) for group in itertools.combinations(devices, size)]
    return DeviceGroups((*single, *(tuple(sorted(group)) for group in joint)))


def replicated_groups(costs: Costs, devices: Sequence[int], replicas: int) -> list[DeviceGroups]:
    """Return candidate assignments of devices to the replicas of a pipeline of two stages or more.

    Each has the samples of every replica, in proportion to the speed of its devices, and the groups that may have a stage together:
    any of the devices among up to four; among more those of one assignment.

    Parameters
    ----------
    devices : indices of the devices, the fastest first.
    replicas : number of replicas R; 2 * R devices are needed.

    Notes
    -----
    A heuristic of three assignments: the devices of a stage are similar in speed; or those of a replica are; or each replica is a host,
    where there are as many hosts as replicas. Other assignments may be better.
    """
    speeds, batch = 1 / np.maximum(costs.beside_s, 1e-15), costs.profile.batch_size
    distinct_groups: dict[tuple[int, ...] | DeviceGroups, DeviceGroups] = {}
    for assignment in _assignments(costs, devices, replicas):
        shares = [float(speeds[list(row)].sum()) for row in zip(*assignment)]
        samples = proportional(batch, shares).sizes
        if len(devices) <= ALL_GROUPS_UP_TO:
            distinct_groups.setdefault(samples, DeviceGroups(tuple(itertools.permutations(devices, replicas)), samples))
        else:
            each = DeviceGroups(assignment, samples)
            distinct_groups.setdefault(each, each)
    return list(distinct_groups.values())


def resized(costs: Costs, device_groups: DeviceGroups, stages: Sequence[tuple[Sequence[int], Sequence[int]]]) -> DeviceGroups:
    """Return the device groups with the samples that are best for the stages of a pipeline.

    Minimises max over replicas r and stages s of t_sr(n_r), the seconds of stage s in replica r for n_r samples, over integers
    n_r >= 1 that sum to a microbatch. Collectives are the same for all n.

    Parameters
    ----------
    costs : costs at the batch size of a microbatch.
    device_groups : groups with replicas.
    stages : (stages,) layers of each and the devices of its group.
    """
    split = [[layer for layer in layers if splits_batch(costs.graph.layers[layer])] for layers, _ in stages]
    passes = [costs.batch_rows(layers)[list(group)] for layers, (_, group) in zip(split, stages)]
    sizes = minimise_maximum(np.max(passes, axis=0), costs.profile.batch_size, lower=[1] * len(device_groups.replicas)).sizes
    return dataclasses.replace(device_groups, replicas=proportional(sum(device_groups.replicas), sizes).sizes)


def can_replicate(costs: Costs, chain: Sequence[Sequence[int]]) -> bool:
    """Return whether every block has a layer that splits the batch, so that any stage does.

    Parameters
    ----------
    chain : layers of each block.
    """
    return all(any(splits_batch(costs.graph.layers[layer]) for layer in block) for block in chain)


def _assignments(costs: Costs, devices: Sequence[int], replicas: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield candidate assignments: (stages, replicas) devices, each stage having one of every replica."""
    stages = len(devices) // replicas
    if stages < 2:
        return
    yield tuple(tuple(devices[at * replicas : (at + 1) * replicas]) for at in range(stages))
    yield tuple(tuple(devices[row * stages + at] for row in range(replicas)) for at in range(stages))
    hosts: dict[str, list[int]] = {}
    for device in devices:
        hosts.setdefault(costs.profile.cluster.devices[device].host, []).append(device)
    if len(hosts) == replicas and min(map(len, hosts.values())) > 1:
        yield tuple(zip(*hosts.values()))
