"""Clusters that a process has once, whatever asks for them: of this machine's devices, of a set of shares, of a text that names one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.runtime.cluster import Cluster

_open: dict[str, Cluster] = {}
_lock = threading.Lock()


def cluster_of(given: Any) -> Cluster:
    """Return a cluster: the one that is given, or the process's own for what is given.

    A function that is called in a loop so starts no further workers. One that was closed, or lost a worker, is replaced.

    Parameters
    ----------
    given : a Cluster; shares of cores, for emulated devices; a text as for `Cluster.parse`; None for the devices of this process.

    Raises
    ------
    UnsupportedError
        If it is something else.
    ClusterError
        If there is no such cluster.
    """
    if isinstance(given, Cluster) or hasattr(given, "devices"):
        return given  # type: ignore[no-any-return]
    text = _text(given)
    with _lock:
        present = _open.get(text)
        if present is not None and not present.closed and present.fault() is not None:
            present.close()
        if present is None or present.closed:
            _open[text] = Cluster.parse(text)
        return _open[text]


def _text(given: Any) -> str:
    if given is None:
        return "local"
    if isinstance(given, str):
        return given.strip()
    numbers = isinstance(given, Sequence) and given and all(isinstance(each, (int, float)) for each in given)
    if not numbers:
        raise UnsupportedError(f"the cluster is {given!r}", "give a Cluster, shares of cores such as [1.0, 0.5], or a text such as 'slurm'")
    return "emulate:" + ",".join(f"{share:g}" for share in given)
