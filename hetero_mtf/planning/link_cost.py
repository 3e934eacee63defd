"""Seconds of the collectives of a mesh, from measured links."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.devices import Link
from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.profile import Profile


@dataclasses.dataclass(frozen=True)
class Ring:
    """The ring that a mesh sends around, as slow as its slowest link.

    Parameters
    ----------
    devices : number of devices p on it.
    latency_s : largest latency a of its links.
    seconds_per_byte : largest time b of a byte on its links.
    """

    devices: int
    latency_s: float
    seconds_per_byte: float

    def all_gather_s(self, whole_bytes: float) -> float:
        """Return the seconds to make a tensor whole on every device: (p-1)/p * n * b + (p-1) * a.

        Parameters
        ----------
        whole_bytes : n, bytes of the whole tensor.
        """
        steps = self.devices - 1
        return steps / self.devices * whole_bytes * self.seconds_per_byte + steps * self.latency_s

    def all_reduce_s(self, whole_bytes: float) -> float:
        """Return the seconds to add a tensor up over all devices: 2 * (p-1)/p * n * b + 2 * (p-1) * a.

        Parameters
        ----------
        whole_bytes : n, bytes of the whole tensor.
        """
        return 2 * self.all_gather_s(whole_bytes)


def ring(profile: Profile, devices: Sequence[int]) -> Ring:
    """Return the ring over devices of a cluster, in the order given.

    Parameters
    ----------
    profile : Profile with measured links.
    devices : indices of the devices.

    Raises
    ------
    ProfileError
        If the link between two neighbours was not measured.

    Notes
    -----
    Processors on one and the same TensorFlow device hand tensors over in place: their link costs nothing.
    """
    neighbours = [(d, devices[(at + 1) % len(devices)]) for at, d in enumerate(devices)] if len(devices) > 1 else []
    links = [_link(profile, a, b) for a, b in neighbours]
    found = [link for link in links if link is not None]
    latency_s = max((link.latency_s for link in found), default=0.0)
    return Ring(len(devices), latency_s, max((1 / link.bandwidth_bytes_per_s for link in found), default=0.0))


def _link(profile: Profile, source: int, destination: int) -> Link | None:
    records = profile.cluster.devices
    if records[source].tf_device == records[destination].tf_device:
        return None
    links = [*profile.links, *profile.cluster.links]
    for ends in ((source, destination), (destination, source)):
        for link in links:
            if (link.source, link.destination) == ends:
                return link
    raise ProfileError(f"the profile has no link between {records[source].name} and {records[destination].name}; calibrate again")
