"""Validity of a profile: whether it is of a network and cluster; warnings about its age, its noise, another machine, other programs."""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hetero_mtf.devices import ClusterRecord, Device
from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
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
    """Return the warnings of a profile, a sentence each; none for a recent profile of these devices with little noise.

    Parameters
    ----------
    cluster : the present devices; None to compare none.
    now : the time, with its zone; None for that of the clock.
    versions : the present versions of programs; None to compare none.

    Examples
    --------
    >>> profile_warnings(Profile.load("profile.json"))  # doctest: +SKIP
    ['the profile is 45 days old (2026-01-02); calibrate again']
    """
    sentences = [
        _age(profile, now or datetime.datetime.now(datetime.timezone.utc)),
        wide_spread(profile.graph, profile.cluster, profile.curves),
    ]
    sentences += [_wide_links(profile), *(_other_devices(profile, cluster) if cluster is not None else [])]
    sentences += [_other_programs(profile, versions)] if versions is not None else []
    return [sentence for sentence in sentences if sentence]


def outdated(profile: Profile, now: datetime.datetime, versions: Mapping[str, str]) -> str:
    """Return a sentence that says why a profile should be measured again, whatever the devices; "" if it should not.

    Parameters
    ----------
    now : the time, with its zone.
    versions : the present versions of programs.
    """
    return _age(profile, now) or _other_programs(profile, versions)


def check_profile(profile: Profile, graph: LayerGraph, cluster: ClusterRecord, name: str = "the profile") -> None:
    """Refuse a profile that was measured for another network or on other devices, compared by their traits.

    Parameters
    ----------
    profile : the profile.
    graph : the network to train.
    cluster : the devices to train on.
    name : what messages call the profile, such as its path.

    Raises
    ------
    ProfileError
        If they differ.
    """
    if profile.graph.digest != graph.digest:
        measured, wanted = _network(profile.graph), _network(graph)
        raise ProfileError(f"{name} was measured for a network of {measured}, this model has {wanted}", "calibrate again with this model")
    if [d.traits for d in profile.cluster.devices] != [d.traits for d in cluster.devices]:
        measured, wanted = _listed(profile.cluster), _listed(cluster)
        raise ProfileError(f"{name} was measured on {measured}, this cluster has {wanted}", "calibrate again on this cluster")


def _network(graph: LayerGraph) -> str:
    return f"{len(graph.layers)} layers in {graph.dtype_text} (digest {graph.digest})"


def _listed(cluster: ClusterRecord) -> str:
    return ", ".join(" ".join(part for part in (d.name, d.model, f"at {d.share_text}") if part) for d in cluster.devices)


def days_old(profile: Profile, now: datetime.datetime) -> float:
    """Return the days since a profile was measured; below zero for one from the future.

    Parameters
    ----------
    profile : Profile; a date without a zone is taken as UTC.
    now : the time, with its zone.
    """
    measured_at = datetime.datetime.fromisoformat(profile.measured_at.replace("Z", "+00:00"))
    measured_at = measured_at if measured_at.tzinfo else measured_at.replace(tzinfo=datetime.timezone.utc)
    return (now - measured_at) / datetime.timedelta(days=1)


def age_text(profile: Profile, now: datetime.datetime | None = None) -> str:
    """Return how many days ago a profile was measured, such as "3 days ago"; "" for less than a day.

    Parameters
    ----------
    profile : Profile.
    now : the time, with its zone; None for that of the clock.
    """
    days = math.floor(days_old(profile, now or datetime.datetime.now(datetime.timezone.utc)))
    return f"{days} day{'s' * (days > 1)} ago" if days >= 1 else ""


def wide_spread(graph: Any, cluster: ClusterRecord, curves: Sequence[Curve]) -> str:
    """Return a sentence that names the worst of the measurements that scatter widely and matter; "" if there is none."""
    wide = [(spread, curve) for spread, curve in _mattering(curves) if spread > WIDE_SPREAD]
    if not wide:
        return ""
    spread, curve = max(wide, key=lambda entry: entry[0])
    name = f"{graph.layers[curve.layer].name} on {cluster.devices[curve.device].name}"
    many = f"{len(wide)} measurement{'s' * (len(wide) > 1)} scatter{'s' * (len(wide) == 1)} widely"
    return f"{many}, worst {name} by {spread:.0%}; calibrate on quiet devices, or for longer"


def scatter(curves: Sequence[Curve], device: int) -> float:
    """Return the median spread of the measurements on a device that take at least 5 % of the seconds of its longest one; 0 without any.

    Parameters
    ----------
    curves : of a profile.
    device : index of the device.
    """
    spreads = _device_spreads(curves, device)
    return statistics.median(spreads) if spreads else 0.0


def mattering_spreads(profile: Profile, device: int) -> list[float]:
    """Return the spreads of the measurements on a device that take at least 5 % of the seconds of its longest one.

    Parameters
    ----------
    device : index of the device.
    """
    return _device_spreads(profile.curves, device)


def _device_spreads(curves: Sequence[Curve], device: int) -> list[float]:
    return [spread for spread, _ in _mattering([curve for curve in curves if curve.device == device])]


def same_device(one: Device, other: Device) -> bool:
    """Return whether measurements of one device hold for the other: equal traits, and as many cores where both are known."""
    return one.traits == other.traits and not _other_cores(one, other)


def _other_cores(one: Device, other: Device) -> bool:
    return 0 < one.cores != other.cores > 0


def _mattering(curves: Sequence[Curve]) -> Iterator[tuple[float, Curve]]:
    largest = max((max(curve.seconds) for curve in curves), default=0.0)
    for curve in curves:
        for spread, seconds in zip(curve.spread, curve.seconds):
            if seconds > MATTERING_PART * largest:
                yield spread, curve


def _age(profile: Profile, now: datetime.datetime) -> str:
    days = days_old(profile, now)
    if days > STALE_DAYS:
        return f"the profile is {days:.0f} days old ({profile.measured_at[:10]}); calibrate again"
    if days < -1:
        return f"the profile is from the future ({profile.measured_at[:10]}, now it is {now.date()}); set the clock and calibrate again"
    return ""


def _wide_links(profile: Profile) -> str:
    wide = [link for link in profile.links if link.spread > WIDE_LINK_SPREAD]
    if not wide:
        return ""
    worst = max(wide, key=lambda link: link.spread)
    device_names = " and ".join(profile.cluster.devices[end].name for end in (worst.source, worst.destination))
    said = f"the link between {device_names} scatters by {worst.spread:.0%} about {seconds_text(worst.latency_s)}"
    return f"{said}; calibrate on quiet devices, or for longer"


def _other_devices(profile: Profile, cluster: ClusterRecord) -> Iterator[str]:
    if len(profile.cluster.devices) != len(cluster.devices):
        counts = f"{len(profile.cluster.devices)} devices, there are {len(cluster.devices)}"
        yield f"the profile was measured on {counts}; calibrate again on this cluster"
        return
    for measured, present in zip(profile.cluster.devices, cluster.devices):
        if measured.traits != present.traits:
            yield f"the profile was measured on {_named(measured)}, in its place is {_named(present)}; calibrate again on this cluster"
        elif _other_cores(measured, present):
            cores = f"{measured.name} with {measured.cores} cores, now it has {present.cores}"
            yield f"the profile was measured on {cores}; calibrate again on this cluster"
        elif measured.host != present.host:
            hosts = f"{measured.name} of host {measured.host}, it is on {present.host} now"
            yield f"the profile was measured on {hosts}; calibrate again if that is another machine"


def _named(device: Device) -> str:
    return " ".join(part for part in (device.name, device.model, f"at {device.share_text}", f"({device.tf_device})") if part)


def _other_programs(profile: Profile, versions: Mapping[str, str]) -> str:
    pairs = [(name, profile.versions.get(name, ""), versions.get(name, "")) for name in PROGRAMS]
    other = [f"{name} {before}, here is {here}" for name, before, here in pairs if before and here and before != here]
    return f"the profile was measured with {' and with '.join(other)}; calibrate again" if other else ""
