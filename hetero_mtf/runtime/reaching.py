"""Servers that are still starting: waiting until they are reached, and for how many of them."""

from __future__ import annotations

import socket
import time

from hetero_mtf.devices.addresses import Addresses
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.liveness.lease import check_list
from hetero_mtf.runtime.ports import split_address

SPARE_S = 2.0  # that spare servers are waited for once all others are reached: they may have been started with them
_CONNECT_S = 5.0
_AGAIN_S = 0.2


def await_reachable(addresses: Addresses, end_s: float, spare: int = 0) -> frozenset[int]:
    """Wait until servers are reached, and return the numbers of those that are not and need not be.

    Those that are reached before others tell with which list they were started.

    Parameters
    ----------
    addresses : where they listen.
    end_s : time of the monotonic clock until which to wait.
    spare : how many need not be reached, the last ones first: it is waited for the others, and so many may be missing at the end.

    Raises
    ------
    ClusterError
        If more are not reached, naming all that are not, or one was started with another list.
    """
    obstacles: dict[str, str | None] = dict.fromkeys(addresses.hosts, "")
    needed, spare_end_s = set(addresses.hosts[: len(addresses.hosts) - spare]), end_s
    while True:
        # Names are asked for again too: those of containers are known only once these have started.
        late = {host: _obstacle(host) for host, reason in obstacles.items() if reason is not None}
        obstacles |= late
        missing = [host for host, reason in obstacles.items() if reason is not None]
        if not missing:
            return frozenset()  # the leases tell all
        for host in (host for host, reason in late.items() if reason is None):
            check_list(host, addresses.hosts, addresses.complete)
        now_s = time.monotonic()
        if needed.isdisjoint(missing):
            spare_end_s = min(spare_end_s, now_s + SPARE_S)
        if now_s >= min(end_s, spare_end_s):
            break
        time.sleep(_AGAIN_S)
    if len(missing) <= spare:
        return frozenset(map(addresses.hosts.index, missing))
    silent = [host for host in missing if obstacles[host] == ""]
    unresolved = {split_address(host)[0]: reason for host, reason in obstacles.items() if reason}
    clauses = [f"the name {name} cannot be resolved here ({reason})" for name, reason in unresolved.items()]
    clauses += [f"no server answers on {', '.join(silent)}"] if silent else []
    remedies = ["correct the list of hosts"] * bool(unresolved) + ["start one there with hetero-mtf worker"] * bool(silent)
    raise ClusterError(", ".join(clauses), " and ".join(remedies))


def _obstacle(host: str) -> str | None:
    """Return None where a server answers, "" where none does, and the resolver's reason where its name cannot be resolved."""
    try:
        with socket.create_connection(split_address(host), timeout=_CONNECT_S):
            return None
    except socket.gaierror as fault:
        return str(fault.strerror)
    except OSError:
        return ""
