"""Whether a worker may serve where it is started: not for the whole internet, and not as root, unless that is asked for."""

from __future__ import annotations

import ipaddress
import os
import pathlib

from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.ports import addresses_of, split_address

_WHOLE = ["0", "0", "4294967295"]  # the user numbers of a machine that are mapped into none of its namespaces


def check_served(host: str, open_to_all: bool, allow_root: bool) -> None:
    """Refuse to serve at an address of the public internet, or as root.

    Whoever connects to TensorFlow's server may read and write all files of the user that it runs as.

    Parameters
    ----------
    host : "HOST:PORT" of the worker.
    open_to_all : whether a public address is meant.
    allow_root : whether root is meant.

    Raises
    ------
    ClusterError
        If neither is.
    """
    if is_root() and not allow_root:
        fault = "a worker of root would let whoever connects to it read and write every file of this machine"
        raise ClusterError(fault, "start it as another user, or add --allow-root where nothing is on the machine, as in a container")
    public = public_addresses(host)
    if public and not open_to_all:
        fault = f"{host} is {', '.join(public)}, of the public internet, from where whoever connects could read and write your files"
        raise ClusterError(fault, "name a private address, or add --open where a firewall closes the port to others")


def public_addresses(host: str) -> list[str]:
    """Return the addresses of a host that are of the public internet; none where its name cannot be looked up, which is told later.

    Parameters
    ----------
    host : "HOST:PORT".
    """
    try:
        return [address for address in addresses_of(split_address(host)[0]) if ipaddress.ip_address(address).is_global]
    except (OSError, UnicodeError):
        return []


def is_root(uid_map: str = "/proc/self/uid_map") -> bool:
    """Return whether this process has root's rights on the machine; the user 0 of a user namespace has those of another user.

    Parameters
    ----------
    uid_map : file with how users are mapped.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return False
    try:
        return pathlib.Path(uid_map).read_text().split() == _WHOLE
    except OSError:
        return True
