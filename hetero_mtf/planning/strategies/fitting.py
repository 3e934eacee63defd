"""Plans that fit in memory: sizes recomputed with less on the devices that lack memory."""

from __future__ import annotations

from collections.abc import Iterator

from hetero_mtf.errors import NothingToSplitError
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.arrangement import BORDERS, PAIRINGS
from hetero_mtf.planning.layout.manual import batch_stage, filter_stage, hybrid_stage
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.memory.shortfall import Shortfall, short_bytes, shortfalls
from hetero_mtf.planning.solvers.apportionment import equal_sizes
from hetero_mtf.planning.strategies.resizing import Resizer
from hetero_mtf.planning.strategies.split_search import Candidate

ROUNDS = 24
LARGE = 200_000  # layers * devices
_SPLITS = {"filters": ("filters",), "batch": ("batch",), "hybrid": ("hybrid",), "layers": ("filters", "batch", "hybrid")}


def fitting(costs: Costs, strategy: str, candidate: Candidate, gradient_sync: str = "all_reduce") -> Candidate:
    """Return the plan of a strategy if it fits in memory, else the cheapest that fits with less on the devices that lack memory.

    For fixed layouts every device gets a largest share c_d of each dimension that is split, and the sizes minimise the slowest
    device's seconds under u_d <= c_d units (`minimise_maximum`). The shares start at 1; as long as a pool lacks memory, those
    of its devices are scaled down together, to where the secant through its last two needs meets the free bytes.

    Parameters
    ----------
    strategy : its name; "single", "equal" and "grid" have no sizes to choose on one axis, so their plan is returned unchanged.
    candidate : the plan of the strategy without a limit.
    gradient_sync : as in a Plan.

    Returns
    -------
    The plan; where the search finds none that fits, the one that is short of the fewest bytes.

    Notes
    -----
    Exact for one split dimension with a pool a device, such as a batch split: what a device needs never decreases with its share.
    Where several segments draw on one device, all are scaled alike, which is a heuristic; so is the choice of layouts: those of
    the plan itself and those of the strategy's manual plans, each on the plan's devices and on all. O(rounds * layers * devices); of
    more than 200,000 layers times devices a plan is returned unchanged.
    """
    large = len(costs.graph.layers) * len(costs.profile.cluster.devices) > LARGE
    if strategy not in _SPLITS or large or not shortfalls(costs.profile, candidate.stage, costs.memory):
        return candidate
    candidates = [candidate]
    for stage in _bases(costs, strategy, candidate.stage):
        resizer = Resizer(costs, stage)
        for devices in dict.fromkeys((candidate.stage.devices, tuple(range(len(costs.profile.cluster.devices))))):
            limited = _limited(costs, resizer, devices)
            candidates += [Candidate(limited, predict(costs, limited, gradient_sync))] if limited is not None else []
    return min(candidates, key=lambda c: (short_bytes(costs.profile, c.stage, costs.memory), c.prediction.step_s))


def _bases(costs: Costs, strategy: str, stage: Stage) -> Iterator[Stage]:
    """Yield the stages whose layouts are tried."""
    graph, batch, count = costs.graph, costs.profile.batch_size, len(costs.profile.cluster.devices)
    if len(stage.axes) == 1 and len(stage.devices) > 1:
        yield stage
    if count < 2:
        return
    ones = [1.0] * count
    for split in _SPLITS[strategy]:
        if split == "batch":
            yield batch_stage(graph, equal_sizes(batch, count).sizes, range(count))
        for pairing in PAIRINGS if split == "filters" else ():
            yield filter_stage(graph, ones, pairing)
        for border in BORDERS if split == "hybrid" else ():
            try:
                yield hybrid_stage(graph, ones, batch, border)
            except NothingToSplitError:
                return


def _limited(costs: Costs, resizer: Resizer, devices: tuple[int, ...]) -> Stage | None:
    """Return the stage on some devices with shares that fit in memory, None if the rounds end without any."""
    if len(devices) < 2:
        return None
    most = dict.fromkeys(devices, 1.0)
    pools: dict[str, _PoolLimit] = {}
    for _ in range(ROUNDS):
        stage = resizer.on(devices, [most[device] for device in devices])
        lacking = shortfalls(costs.profile, stage, costs.memory)
        if not lacking:
            return stage
        for short in lacking:
            held = {d: share for d, share in _shares(stage).items() if costs.profile.cluster.devices[d].pool == short.pool}
            pools.setdefault(short.pool, _PoolLimit(held)).tighten(short, held)
            most.update(pools[short.pool].most)
        if sum(most.values()) < 1:
            return None
    return None


class _PoolLimit:
    """The largest shares of the devices that draw on a pool.

    Parameters
    ----------
    shares : device -> its share when the pool first lacked memory.
    """

    def __init__(self, shares: dict[int, float]) -> None:
        self._shares, self._scale = dict(shares), 1.0
        self._before: tuple[float, int] | None = None

    @property
    def most(self) -> dict[int, float]:
        """Device -> its largest share."""
        return {device: self._scale * share for device, share in self._shares.items()}

    def tighten(self, short: Shortfall, shares: dict[int, float]) -> None:
        """Scale the shares down towards what is free.

        Parameters
        ----------
        short : what the pool lacks.
        shares : device -> its share now.
        """
        for device, share in shares.items():
            self._shares.setdefault(device, share / self._scale if self._scale > 0 else share)
        reached = max((share / self._shares[d] for d, share in shares.items() if self._shares[d] > 0), default=0.0)
        before, self._before = self._before, (reached, short.needed_bytes)
        slope = short.needed_bytes / reached if reached > 0 else 0.0
        if before is not None and before[0] > reached and before[1] > short.needed_bytes:
            slope = (before[1] - short.needed_bytes) / (before[0] - reached)
        target = reached - short.short_bytes / slope if slope > 0 else 0.0
        self._scale = max(0.0, min(target, 0.999 * min(self._scale, reached)))


def _shares(stage: Stage) -> dict[int, float]:
    """Return the largest share of a split dimension that each device has."""
    shares = dict.fromkeys(stage.devices, 1.0 if len(stage.devices) == 1 else 0.0)
    for entry in stage.layouts:
        for parts, axis in entry.parts:
            for device, place in zip(stage.devices, stage.places(axis)):
                shares[device] = max(shares[device], parts[place] / sum(parts))
    return shares
