"""What-if profiles: the profile of a hypothetical cluster, computed from a measured one.

The seconds t of a curve become t / f on a device of factor f, or those of another batch size (`with_batch_size`); the bandwidth of every
link is multiplied, the free bytes of a pool are replaced, and a twin of a device gets its curves and links.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.devices import Link, MemoryPool
from hetero_mtf.errors import PlanError
from hetero_mtf.planning.profile.curve import Curve, interpolated
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.units import bytes_text

FREE_BANDWIDTH_BYTES_PER_S = 1e18  # of a link that was not measured: sending over it takes no time
LEAST_FACTOR, MOST_FACTOR = 1e-6, 1e6
FACTOR_RANGE = "0.000001 to 1000000"
MOST_GROWTH = 1000  # of a batch; beyond that an extrapolation is meaningless


@dataclasses.dataclass(frozen=True)
class WhatIf:
    """Hypothetical changes of what was measured.

    Parameters
    ----------
    scale : (device, factor): the device is so many times as fast.
    add_like : names of devices that get a twin each; a device named twice gets two.
    bandwidth : factor of the bandwidth of every link.
    memory : (device, bytes): free bytes of the memory pool of a device.
    batch_size : samples a step; None for the profile's.

    Raises
    ------
    PlanError
        If a factor is not from a millionth to a million, bytes are negative, the batch size is below one, or a device has two
        factors or two memories.
    """

    scale: tuple[tuple[str, float], ...] = ()
    add_like: tuple[str, ...] = ()
    bandwidth: float = 1.0
    memory: tuple[tuple[str, int], ...] = ()
    batch_size: int | None = None

    def __post_init__(self) -> None:
        for what, factor in [*((f"device {name}", factor) for name, factor in self.scale), ("the bandwidth", self.bandwidth)]:
            if not LEAST_FACTOR <= factor <= MOST_FACTOR:
                raise PlanError(f"the factor of {what} is {factor:g}, it must be from {FACTOR_RANGE}", "2 means twice as fast")
        for name, free_bytes in self.memory:
            if free_bytes < 0:
                raise PlanError(f"the memory of device {name} is {free_bytes} bytes", "give zero or more")
        _check_once([(f"the factor of device {name}", f"{factor:g}") for name, factor in self.scale])
        _check_once([(f"the memory of device {name}", bytes_text(free_bytes)) for name, free_bytes in self.memory])
        if self.batch_size is not None and self.batch_size < 1:
            raise PlanError(f"the batch size is {self.batch_size}", "use at least 1")

    def __bool__(self) -> bool:
        """Whether there is any change; a factor of 1 counts as one."""
        return self != WhatIf()


def what_if_profile(profile: Profile, what_if: WhatIf) -> Profile:
    """Return the profile with the hypothetical changes.

    Twins are added first, so that a device and its twin can be scaled apart; then speeds, links, memory and the batch size change.

    Raises
    ------
    PlanError
        If a device is not in the profile, one TensorFlow device has several factors, or one memory pool several free bytes.
    """
    for name in what_if.add_like:
        profile = with_twin(profile, name)
    _check_shared(profile, what_if)
    for name, factor in what_if.scale:
        profile = scaled(profile, name, factor)
    profile = with_bandwidth(profile, what_if.bandwidth)
    for name, free_bytes in what_if.memory:
        profile = with_memory(profile, name, free_bytes)
    return profile if what_if.batch_size is None else with_batch_size(profile, what_if.batch_size)


def what_if_clauses(profile: Profile, what_if: WhatIf) -> tuple[str, ...]:
    """Return the hypothetical changes, a clause each.

    Parameters
    ----------
    profile : the profile as it was measured.
    """
    clauses = []
    for name in what_if.add_like:
        twin = _twin_name(profile, name)
        profile = with_twin(profile, name)
        unmeasured = profile.links[-1].bandwidth_bytes_per_s == FREE_BANDWIDTH_BYTES_PER_S
        free = ", and sending between them takes no time, as no link of it was measured" if unmeasured else ""
        clauses.append(f"device {twin} is added, which is like {name}{free}")
    clauses += [f"device {name} is {factor:g} times as fast as measured" for name, factor in what_if.scale]
    if what_if.bandwidth != 1:
        clauses.append(f"every link has {what_if.bandwidth:g} times the bandwidth measured")
    clauses += [f"the memory of device {name} has {bytes_text(free_bytes)} free" for name, free_bytes in what_if.memory]
    asked, measured = what_if.batch_size, profile.batch_size
    if asked is not None and asked != measured:
        method = "extrapolated" if asked > measured else "interpolated"
        clauses.append(f"a batch has {asked} samples, with times {method} from {measured}")
    return tuple(clauses)


def scaled(profile: Profile, device: str, factor: float) -> Profile:
    """Return the profile with a device that takes 1 / factor of its seconds in every curve.

    Parameters
    ----------
    device : the device's name. Processors on one TensorFlow device share its curves and are scaled together.
    factor : how many times as fast it is.

    Raises
    ------
    PlanError
        If there is no such device.
    """
    devices = profile.cluster.devices
    place = devices[_device_index(profile, device)].tf_device
    curves = tuple(_timed(c, 1 / factor) if devices[c.device].tf_device == place else c for c in profile.curves)
    return dataclasses.replace(profile, curves=curves)


def with_twin(profile: Profile, device: str) -> Profile:
    """Return the profile with one more device, which has the curves, links and memory of another.

    It stands last, on the same host, and is named like "gpu:0+1". Its links to third devices are those of the original; the link
    between the two is the original's fastest to a device of its host, else its fastest, else takes no time.

    Parameters
    ----------
    device : name of the device it is like.

    Raises
    ------
    PlanError
        If there is no such device.

    Notes
    -----
    A memory pool that the original has for itself is copied; one that it shares, such as the host's, is shared by the twin too.
    """
    at = _device_index(profile, device)
    cluster, original = profile.cluster, profile.cluster.devices[at]
    new, name = len(cluster.devices), _twin_name(profile, device)
    suffix = name[len(device) :]
    own = sum(d.pool == original.pool for d in cluster.devices) == 1
    pool = original.pool + suffix if own else original.pool
    twin = dataclasses.replace(original, name=name, tf_device=original.tf_device + suffix, pool=pool)
    curves = [c for c in profile.curves if cluster.devices[c.device].tf_device == original.tf_device]
    links = _copied(profile.links, at, new)
    fed = [dataclasses.replace(link, device=new) for link in profile.feed_links if link.device == at]
    factors = profile.corrections.layers
    copied = [factor for factor in factors if cluster.devices[factor.device].tf_device == original.tf_device]
    grown = dataclasses.replace(
        cluster,
        devices=(*cluster.devices, twin),
        pools=(*cluster.pools, *_pool_copies(cluster.pools, original.pool, pool, own)),
        links=(*cluster.links, *_copied(cluster.links, at, new)),
    )
    return dataclasses.replace(
        profile,
        cluster=grown,
        curves=(*profile.curves, *(dataclasses.replace(c, device=new) for c in curves)),
        links=(*profile.links, *links, *_between(profile, at, new)),
        feed_links=(*profile.feed_links, *fed),
        memory=(*profile.memory, *_pool_copies(profile.memory, original.pool, pool, own)),
        corrections=dataclasses.replace(profile.corrections, layers=(*factors, *(dataclasses.replace(f, device=new) for f in copied))),
    )


def with_bandwidth(profile: Profile, factor: float) -> Profile:
    """Return the profile with the bandwidth of every link multiplied by a factor, those from the program too; latencies stay."""
    cluster = dataclasses.replace(profile.cluster, links=_faster(profile.cluster.links, factor))
    fed = tuple(
        dataclasses.replace(link, bytes_per_s=factor * link.bytes_per_s, together_bytes_per_s=factor * link.together_bytes_per_s)
        for link in profile.feed_links
    )
    return dataclasses.replace(profile, cluster=cluster, links=_faster(profile.links, factor), feed_links=fed)


def with_memory(profile: Profile, device: str, free_bytes: int) -> Profile:
    """Return the profile in which the memory pool of a device has so many bytes free, for all devices that share it.

    Parameters
    ----------
    device : the device's name.

    Raises
    ------
    PlanError
        If there is no such device.
    """
    name = profile.cluster.devices[_device_index(profile, device)].pool
    devices = tuple(dataclasses.replace(d, memory_bytes=free_bytes) if d.pool == name else d for d in profile.cluster.devices)
    cluster = dataclasses.replace(profile.cluster, devices=devices, pools=_with_free(profile.cluster.pools, name, free_bytes))
    listed = profile.memory if any(pool.name == name for pool in profile.memory) else (*profile.memory, MemoryPool(name, free_bytes))
    return dataclasses.replace(profile, cluster=cluster, memory=_with_free(listed, name, free_bytes))


def with_batch_size(profile: Profile, batch_size: int) -> Profile:
    """Return the profile for batches of another size than measured.

    A layer with all its units takes t(s) seconds at s samples, its curve over samples, continued beyond the measured batch B by its
    last piece; without such a curve seconds grow in proportion to the samples. With some of its units it takes t(batch_size) / t(B)
    times what was measured, so curves over units keep their form. Updates stay as they are. Curves measured at `batch_size` itself
    are taken as they are.

    Parameters
    ----------
    batch_size : samples a step.

    Raises
    ------
    PlanError
        If it is more than a thousand times the batch measured.

    Notes
    -----
    An extrapolation: jumps of the curve beyond the measured units are not predicted. O(curves * points).
    """
    measured = profile.batch_size
    if batch_size == measured:
        return profile
    if batch_size > MOST_GROWTH * measured:
        limit = f"the {measured} measured reach to {MOST_GROWTH * measured}"
        raise PlanError(f"a batch of {batch_size} samples is too large to extrapolate to, {limit}", "calibrate with a larger batch")
    known = tuple(curve for curve in profile.curves if curve.batch == batch_size)
    curves = tuple(_at_batch(profile, curve, batch_size) for curve in profile.curves if curve.batch == measured)
    return dataclasses.replace(profile, batch_size=batch_size, curves=known + curves)


def _check_once(entries: Sequence[tuple[str, str]]) -> None:
    """Refuse values of one thing, by its name, of which one would replace or multiply the other."""
    values: dict[str, list[str]] = {}
    for name, value in entries:
        values.setdefault(name, []).append(value)
    for name, texts in values.items():
        if len(texts) > 1:
            raise PlanError(f"{name} is given as {' and as '.join(texts)}", "give it once")


def _check_shared(profile: Profile, what_if: WhatIf) -> None:
    """Refuse changes of devices that share what is changed: processors of one TensorFlow device, and the pool of one memory."""
    devices = profile.cluster.devices
    changed = [(devices[_device_index(profile, name)], factor) for name, factor in what_if.scale]
    _check_once([(f"the speed of {device.tf_device} on {device.host}", f"{factor:g} of {device.name}") for device, factor in changed])
    pools: dict[tuple[str, int], str] = {}
    for name, free_bytes in what_if.memory:
        pools.setdefault((devices[_device_index(profile, name)].pool, free_bytes), f"{bytes_text(free_bytes)} of {name}")
    _check_once([(f"the memory pool {pool}", text) for (pool, _), text in pools.items()])


def _device_index(profile: Profile, device: str) -> int:
    names = [d.name for d in profile.cluster.devices]
    if device not in names:
        raise PlanError(f"the profile has no device {device!r}, it has {', '.join(names)}", "use one of these")
    return names.index(device)


def _twin_name(profile: Profile, device: str) -> str:
    names = {d.name for d in profile.cluster.devices}
    return next(name for count in range(1, len(names) + 2) if (name := f"{device}+{count}") not in names)


def _timed(curve: Curve, factor: float) -> Curve:
    return dataclasses.replace(curve, seconds=tuple(factor * s for s in curve.seconds))


def _faster(links: Sequence[Link], factor: float) -> tuple[Link, ...]:
    return tuple(dataclasses.replace(link, bandwidth_bytes_per_s=factor * link.bandwidth_bytes_per_s) for link in links)


def _copied(links: Sequence[Link], at: int, new: int) -> list[Link]:
    """Return the links of device `at` as links of device `new`."""
    renumbered = [(new if link.source == at else link.source, new if link.destination == at else link.destination, link) for link in links]
    return [dataclasses.replace(link, source=a, destination=b) for a, b, link in renumbered if new in (a, b)]


def _between(profile: Profile, at: int, new: int) -> tuple[Link, Link]:
    """Return the links between a device and its twin, one each way."""
    devices = profile.cluster.devices
    own = [link for link in (*profile.links, *profile.cluster.links) if at in (link.source, link.destination)]
    apart = [link for link in own if devices[link.source].tf_device != devices[link.destination].tf_device]
    near = [link for link in apart if devices[link.source].host == devices[link.destination].host] or apart
    fastest = max(near, key=lambda link: link.bandwidth_bytes_per_s, default=Link(at, new, 0.0, FREE_BANDWIDTH_BYTES_PER_S))
    return dataclasses.replace(fastest, source=at, destination=new), dataclasses.replace(fastest, source=new, destination=at)


def _pool_copies(pools: Sequence[MemoryPool], name: str, copy: str, own: bool) -> list[MemoryPool]:
    return [dataclasses.replace(pool, name=copy) for pool in pools if own and pool.name == name]


def _with_free(pools: Sequence[MemoryPool], name: str, free_bytes: int) -> tuple[MemoryPool, ...]:
    return tuple(dataclasses.replace(pool, free_bytes=free_bytes) if pool.name == name else pool for pool in pools)


def _at_batch(profile: Profile, curve: Curve, batch_size: int) -> Curve:
    if curve.dimension == "batch":
        kept = {u for u in curve.units if u <= batch_size} | {batch_size}
        units = tuple(sorted(kept if len(kept) > 1 else kept | {1}))  # one point alone would make a line through zero of the curve
        at = tuple(interpolated(curve, units))
        spread = [s for u, s in zip(curve.units, curve.spread) if u <= batch_size]
        widths = (*spread, *(max(curve.spread),) * (len(units) - len(spread)))
        return dataclasses.replace(curve, batch=batch_size, units=units, seconds=at, spread=widths)
    return dataclasses.replace(_timed(curve, _growth(profile, curve, batch_size)), batch=batch_size)


def _growth(profile: Profile, curve: Curve, batch_size: int) -> float:
    """Return t(batch_size) / t(measured batch) of a layer's pass."""
    if curve.step_pass == "update":
        return 1.0
    if profile.has_curve(curve.layer, curve.device, "batch", curve.step_pass):
        over = profile.curve(curve.layer, curve.device, "batch", curve.step_pass)
        asked_s, measured_s = interpolated(over, (batch_size, profile.batch_size))
        if measured_s > 0:
            return asked_s / measured_s
    return batch_size / profile.batch_size
