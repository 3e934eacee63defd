"""Ports for servers: free ones, a check of a given one, and the port in an address."""

from __future__ import annotations

import errno
import random
import socket
import time
from collections.abc import Sequence

from hetero_mtf.devices.addresses import lease_port
from hetero_mtf.errors import ClusterError

FIRST_PORT = 61000
LAST_PORT = 65500
RETRY_S = 0.5  # between two lookups of a name


def split_address(host: str) -> tuple[str, int]:
    """Return the name, without brackets, and the port of "HOST:PORT".

    Examples
    --------
    >>> split_address("[::1]:61000")
    ('::1', 61000)
    """
    name, _, port = host.rpartition(":")
    return name.strip("[]"), int(port)


def addresses_of(name: str) -> list[str]:
    """Return the addresses that a name or an address stands for here, without zones, each once.

    Raises
    ------
    OSError, UnicodeError
        If it cannot be looked up.

    Examples
    --------
    >>> addresses_of("127.0.0.1")
    ['127.0.0.1']
    """
    return sorted({str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)})


def await_names(hosts: Sequence[str], limit_s: float) -> None:
    """Wait until the names of hosts can be looked up here, as a pod's can only after its start; what cannot be by then is told by its use.

    Parameters
    ----------
    hosts : "HOST:PORT" each.
    limit_s : seconds to wait at most.
    """
    end_s = time.monotonic() + limit_s
    for host in hosts:
        while not _is_known(split_address(host)[0]) and time.monotonic() < end_s:
            time.sleep(min(RETRY_S, max(0.0, end_s - time.monotonic())))


def _is_known(name: str) -> bool:
    try:
        return bool(addresses_of(name))
    except (OSError, UnicodeError):
        return False


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on `port` of every interface now."""
    families = [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")]
    return all(_can_bind(family, address, port) for family, address in families)


def free_ports(count: int, generator: random.Random | None = None) -> tuple[int, ...]:
    """Return `count` different ports for workers, free with the ports of their leases, above those of outgoing connections.

    Parameters
    ----------
    count : how many.
    generator : source of randomness, so that two clusters starting at once rarely try the same.

    Raises
    ------
    ClusterError
        If there are not so many.
    """
    ports = list(range(FIRST_PORT, LAST_PORT))
    (generator or random.Random()).shuffle(ports)
    free: list[int] = []
    for port in ports:
        if len(free) == count:
            break
        if port_is_free(port) and port_is_free(lease_port(port)):
            free.append(port)
    if len(free) < count:
        raise ClusterError(f"there are {len(free)} free ports from {FIRST_PORT} to {LAST_PORT} and {count} are needed", "end other servers")
    return tuple(free)


def check_port(port: int) -> None:
    """Refuse a port that something else listens on.

    Raises
    ------
    ClusterError
        If it is in use.
    """
    if not port_is_free(port):
        raise ClusterError(f"port {port} is in use by another process", "choose another port or end that process")


def _can_bind(family: int, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
    except OSError as fault:
        return fault.errno not in (errno.EADDRINUSE, errno.EACCES)
    return True
