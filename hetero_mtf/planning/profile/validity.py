"""Validity: what speaks against a profile - its age, its noise, another machine, other programs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hetero_mtf.devices import ClusterRecord, Device
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.units import seconds_text

STALE_DAYS = 30
# A spread beyond this is wide; of links, which are differences of measurements, beyond that.
WIDE_SPREAD = 0.25
WIDE_LINK_SPREAD = 1.0
# Measurements with less than this part of the longest one do not matter.
MATTERING_PART = 0.05
# Programs of other versions of which a layer may take another time.
PROGRAMS = ("tensorflow", "keras", "mesh-tensorflow")


def profile_warnings(
    profile: Profile,
    cluster: ClusterRecord | None = None,
    now: datetime.datetime | None = None,
    versions: Mapping[str, str] | None = None,
) -> list[str]:
    """Return a sentence for each reason to doubt a profile; none for one that was measured lately, quietly, here.

    Parameters
    ----------
    profile : Profile.
    cluster : the devices that are there now; None if no device need be there.
    now : the time, with its zone; None for the clock's.
    versions : the versions of programs that are there now; None if they do not matter.

    Examples
    --------
    >>> profile_warnings(Profile.load("profile.json"))  # doctest: +SKIP
    ['the profile is 45 days old (2026-01-02); calibrate again']
    """
    found = [
        _age(profile, now or datetime.datetime.now(datetime.timezone.utc)),
        wide_spread(profile.graph, profile.cluster, profile.curves),
    ]
    found += [_wide_links(profile), *(_other_devices(profile, cluster) if cluster is not None else [])]
    found += [_other_programs(profile, versions)] if versions is not None else []
    return [doubt for doubt in found if doubt]


def days_old(profile: Profile, now: datetime.datetime) -> float:
    """Return the days since a profile was measured; below zero for one from the future.

    Parameters
    ----------
    profile : Profile; a date without a zone is taken as UTC.
    now : the time, with its zone.
    """
    made = datetime.datetime.fromisoformat(profile.made.replace("Z", "+00:00"))
    made = made if made.tzinfo else made.replace(tzinfo=datetime.timezone.utc)
    return (now - made) / datetime.timedelta(days=1)


def wide_spread(graph: Any, cluster: ClusterRecord, curves: Sequence[Curve]) -> str:
    """Return a sentence that names the worst of the measurements that scatter widely and matter; "" if there is none.

    Parameters
    ----------
    graph : LayerGraph.
    cluster : the devices.
    curves : the measurements.
    """
    wide = [(spread, curve) for spread, curve in _mattering(curves) if spread > WIDE_SPREAD]
    if not wide:
        return ""
    spread, curve = max(wide, key=lambda entry: entry[0])
    name = f"{graph.layers[curve.layer].name} on {cluster.devices[curve.device].name}"
    many = f"{len(wide)} measurement{'s' * (len(wide) > 1)} scatter{'s' * (len(wide) == 1)} widely"
    return f"{many}, worst {name} by {spread:.0%}; calibrate on quiet devices, or for longer"


def same_device(one: Device, other: Device) -> bool:
    """Return whether what was measured on one device holds for the other; a host may have a new name, and cores not be known.

    Parameters
    ----------
    one, other : devices.
    """
    return _traits(one) == _traits(other) and not _other_cores(one, other)


def _other_cores(one: Device, other: Device) -> bool:
    return 0 < one.cores != other.cores > 0


def _traits(device: Device) -> tuple[Any, ...]:
    return device.name, device.kind, device.model, device.share, device.tf_device


def _mattering(curves: Sequence[Curve]) -> Iterator[tuple[float, Curve]]:
    largest = max((max(curve.seconds) for curve in curves), default=0.0)
    for curve in curves:
        for spread, seconds in zip(curve.spread, curve.seconds):
            if seconds > MATTERING_PART * largest:
                yield spread, curve


def _age(profile: Profile, now: datetime.datetime) -> str:
    days = days_old(profile, now)
    if days > STALE_DAYS:
        return f"the profile is {days:.0f} days old ({profile.made[:10]}); calibrate again"
    if days < -1:
        return f"the profile is from the future ({profile.made[:10]}, now it is {now.date()}); set the clock and calibrate again"
    return ""


def _wide_links(profile: Profile) -> str:
    wide = [link for link in profile.links if link.spread > WIDE_LINK_SPREAD]
    if not wide:
        return ""
    worst = max(wide, key=lambda link: link.spread)
    ends = " and ".join(profile.cluster.devices[end].name for end in (worst.source, worst.destination))
    said = f"the link between {ends} scatters by {worst.spread:.0%} about {seconds_text(worst.latency_s)}"
    return f"{said}; calibrate on quiet devices, or for longer"


def _other_devices(profile: Profile, cluster: ClusterRecord) -> Iterator[str]:
    if len(profile.cluster.devices) != len(cluster.devices):
        counts = f"{len(profile.cluster.devices)} devices, there are {len(cluster.devices)}"
        yield f"the profile was measured on {counts}; calibrate again on this cluster"
        return
    for measured, present in zip(profile.cluster.devices, cluster.devices):
        if _traits(measured) != _traits(present):
            yield f"the profile was measured on {_named(measured)}, in its place is {_named(present)}; calibrate again on this cluster"
        elif _other_cores(measured, present):
            cores = f"{measured.name} with {measured.cores} cores, now it has {present.cores}"
            yield f"the profile was measured on {cores}; calibrate again on this cluster"
        elif measured.host != present.host:
            hosts = f"{measured.name} of host {measured.host}, it is on {present.host} now"
            yield f"the profile was measured on {hosts}; calibrate again if that is another machine"


def _named(device: Device) -> str:
    return " ".join(part for part in (device.name, device.model, f"at {device.share:g}", f"({device.tf_device})") if part)


def _other_programs(profile: Profile, versions: Mapping[str, str]) -> str:
    pairs = [(name, profile.versions.get(name, ""), versions.get(name, "")) for name in PROGRAMS]
    other = [f"{name} {before}, here is {here}" for name, before, here in pairs if before and here and before != here]
    return f"the profile was measured with {' and with '.join(other)}; calibrate again" if other else ""
