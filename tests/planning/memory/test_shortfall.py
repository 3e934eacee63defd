from __future__ import annotations

import dataclasses

from hetero_mtf.devices import MemoryPool
from hetero_mtf.planning.layout.records import DevicePart
from hetero_mtf.planning.memory.shortfall import lack_of_memory, pool_bytes, pool_lack, short_bytes, shortfalls
from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import cluster_of, pair_net, profile_of

GRAPH = pair_net()


def two_pools(missing: tuple[int, int]) -> tuple[Profile, Plan]:
    """Return a plan on two devices with a pool each, that have so many bytes less than it needs."""
    profile = profile_of(GRAPH, [1e6, 1e6])
    plan = Plan.filters(GRAPH, [3, 1], profile.cluster, 4)
    needed = stage_memory_bytes(profile, plan.stages[0])
    devices = tuple(dataclasses.replace(device, pool=f"pool{at}") for at, device in enumerate(profile.cluster.devices))
    pools = tuple(MemoryPool(f"pool{at}", held - less) for at, (held, less) in enumerate(zip(needed, missing)))
    cluster = dataclasses.replace(profile.cluster, devices=devices, pools=pools)
    return dataclasses.replace(profile, cluster=cluster, memory=pools), plan


def test_devices_of_one_pool_draw_on_it_together() -> None:
    profile = profile_of(GRAPH, [1e6, 1e6])
    stage = Plan.equal(GRAPH, cluster_of(2), 4).stages[0]
    needed = sum(stage_memory_bytes(profile, stage))
    assert lack_of_memory(profile_of(GRAPH, [1e6, 1e6], memory_bytes=needed), stage) == ""
    lack = lack_of_memory(profile_of(GRAPH, [1e6, 1e6], memory_bytes=needed // 2), stage)
    assert lack.startswith("needs ") and "of memory host, which has" in lack


def test_the_pool_that_misses_most_comes_first_with_the_layer_that_needs_most_there() -> None:
    profile, plan = two_pools((5, 7))
    stage = plan.stages[0]
    found = shortfalls(profile, stage)
    assert [(short.pool, short.short_bytes, short.device, short.layer) for short in found] == [
        ("pool1", 7, "worker:1", "second"),
        ("pool0", 5, "worker:0", "head"),
    ]
    assert short_bytes(profile, stage) == 12 and lack_of_memory(profile, stage) == str(found[0])
    profile, _ = two_pools((0, -1))
    assert shortfalls(profile, stage) == () and short_bytes(profile, stage) == 0 and lack_of_memory(profile, stage) == ""


def test_what_the_parts_of_a_step_lack_is_what_their_stage_lacks() -> None:
    for missing, pool in (((5, 7), "pool1"), ((9, 7), "pool0"), ((0, 0), "")):
        profile, plan = two_pools(missing)
        held = pool_bytes(profile, plan.stages[0])
        parts = [DevicePart(f"worker:{at}", 1.0, 0.0, 0.0, held[f"pool{at}"]) for at in range(2)]
        lack, stage_lack = pool_lack(profile, parts), lack_of_memory(profile, plan.stages[0])
        assert lack.split(", most")[0] == stage_lack.split(", most")[0]
        assert f"memory {pool}," in lack if pool else lack == ""
