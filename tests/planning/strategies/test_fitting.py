from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.manual import batch_stage
from hetero_mtf.planning.memory.shortfall import lack_of_memory
from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.solvers.apportionment import minimise_maximum
from hetero_mtf.planning.strategies.batch import best_batch
from hetero_mtf.planning.strategies.fitting import fitting
from tests.planning.networks import Net, pair_net, profile_of

CONVOLUTIONS = pair_net(24, 24, 24)
MIB = 2**20


def wide(units: int = 2048) -> LayerGraph:
    """Return a network whose memory is weights."""
    net = Net((512,))
    for name in ("first", "second", "third", "fourth"):
        net.dense(name, units)
    return net.graph()


WIDE = wide()


def apart(graph: LayerGraph, speeds: Sequence[float], free_bytes: Sequence[int], batch_size: int = 4) -> Profile:
    """Return a profile whose devices have memory of their own."""
    profile = profile_of(graph, list(speeds), latency_s=1e-9, batch_size=batch_size)
    devices = tuple(dataclasses.replace(d, pool=d.name) for d in profile.cluster.devices)
    pools = tuple(dataclasses.replace(profile.memory[0], name=d.name, free_bytes=n) for d, n in zip(devices, free_bytes))
    return dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=devices, pools=pools), memory=pools)


def needed(profile: Profile, strategy: str) -> tuple[int, ...]:
    made = plan(profile, strategy=strategy)
    assert made.predicted is not None
    return tuple(part.memory_bytes for part in made.predicted.parts)


def test_a_plan_that_fits_stays_as_it_is() -> None:
    costs = Costs(profile_of(CONVOLUTIONS, [2e6, 1e6]))
    found = best_batch(costs)
    assert fitting(costs, "batch", found) is found


@pytest.mark.fast("filters")
@pytest.mark.parametrize("strategy", ["filters", "batch", "hybrid", "layers", "auto"])
def test_the_fastest_device_takes_less_where_it_lacks_memory(strategy: str) -> None:
    free = profile_of(CONVOLUTIONS, [4e6, 1e6], latency_s=1e-9, batch_size=4096)
    tight = apart(CONVOLUTIONS, [4e6, 1e6], [needed(free, "batch")[0] - 20 * MIB, 2**34], 4096)
    assert lack_of_memory(tight, plan(free, strategy="batch").stages[0])
    made = plan(tight, strategy=strategy)
    assert lack_of_memory(tight, made.stages[0]) == "" and made.predicted is not None
    made.check(CONVOLUTIONS)


@pytest.mark.fast("filters")
@pytest.mark.parametrize("strategy", ["filters", "layers", "auto"])
def test_weights_that_fit_on_no_device_are_split_over_several(strategy: str) -> None:
    alone = needed(profile_of(WIDE, [2e6, 1e6]), "single")[0]
    tight = apart(WIDE, [2e6, 1e6, 1e6], [int(0.75 * alone)] * 3)
    with pytest.raises(PlanError, match="strategy single needs .* most for layer (second|third|fourth) "):
        plan(tight, strategy="single")
    made = plan(tight, strategy=strategy)
    assert lack_of_memory(tight, made.stages[0]) == "" and len(made.stages[0].devices) > 1


def test_weights_that_a_batch_split_repeats_everywhere_are_one_sentence() -> None:
    alone = needed(profile_of(WIDE, [2e6, 1e6]), "single")[0]
    tight = apart(WIDE, [2e6, 1e6], [int(0.75 * alone)] * 2)
    with pytest.raises(PlanError, match="the plan by strategy batch needs .* bytes short"):
        plan(tight, strategy="batch")


@pytest.mark.slow
@pytest.mark.fast("0.95")
@pytest.mark.parametrize("part", [0.3, 0.55, 0.8, 0.95])
def test_the_samples_that_fit_are_those_that_every_split_within_the_bounds_allows_at_best(part: float) -> None:
    batch = 400
    free = profile_of(CONVOLUTIONS, [4e6, 1e6, 1e6], latency_s=1e-9, batch_size=batch)
    costs = Costs(free)
    limit = _first_device_bytes(free, int(batch * part))
    tight = apart(CONVOLUTIONS, [4e6, 1e6, 1e6], [limit, 2**34, 2**34], batch)
    found = fitting(Costs(tight), "batch", best_batch(Costs(tight)))
    fits = [s for s in range(1, batch - 1) if _first_device_bytes(tight, s) <= limit]
    rows = costs.batch_rows(range(len(CONVOLUTIONS.layers)))
    best = minimise_maximum(list(rows), batch, upper=[max(fits), batch, batch])
    samples = found.stage.layouts[0].samples
    assert lack_of_memory(tight, found.stage) == ""
    assert max(row[n] for row, n in zip(rows, samples)) <= best.value * (1 + 1e-9)


def _first_device_bytes(profile: Profile, samples: int) -> int:
    rest = profile.batch_size - samples
    stage = batch_stage(profile.graph, [samples, rest - rest // 2, rest // 2], range(3))
    return stage_memory_bytes(profile, stage)[0]


def test_devices_that_share_memory_are_scaled_down_together_or_one_is_left_with_all() -> None:
    alone = needed(profile_of(WIDE, [2e6, 1e6]), "single")[0]
    shared = profile_of(WIDE, [2e6, 1e6], latency_s=1e-9, memory_bytes=alone + MIB)
    made = plan(shared)
    assert made.strategy == "single" and lack_of_memory(shared, made.stages[0]) == ""


def test_weights_are_mixed_within_memory_too() -> None:
    free = profile_of(CONVOLUTIONS, [4e6, 1e6], batch_size=4096)
    made = plan(free, strategy="batch", gradient_sync="butterfly_mixing")
    assert made.predicted is not None
    most = made.predicted.parts[0].memory_bytes
    tight = apart(CONVOLUTIONS, [4e6, 1e6], [most - 5 * MIB, 2**34], 4096)
    again = plan(tight, strategy="batch", gradient_sync="butterfly_mixing")
    assert lack_of_memory(tight, again.stages[0]) == "" and again.gradient_sync == "butterfly_mixing"
