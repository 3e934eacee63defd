"""The environment of this process: the one place that reads it, and sets anything in it."""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

import hetero_mtf

# TensorFlow computes convolutions without oneDNN on x86 CPUs that lack instructions for neural networks (VNNI, AMX), unless this is set
# when it is loaded. Steps take up to three times as long then. A value that the user gives stays.
FAST_KERNELS = {"TF_ENABLE_ONEDNN_OPTS": "1"}
# TensorFlow's CPU allocator beside oneDNN grows by doubling regions, takes blocks up to twice as large as asked and returns none. With
# these it leaves large tensors to the C library, which maps and returns each; smaller ones are in few arenas, of which each keeps the most
# that it ever held. glibc reads its own when a process starts.
MEMORY_FIRST = {
    "TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "MALLOC_ARENA_MAX": "2",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")


def variables() -> Mapping[str, str]:
    """Return a copy of this process's environment variables."""
    return dict(os.environ)


def set_default(name: str, value: str) -> None:
    """Set a variable of this process's environment, and of its children's, unless it is set."""
    os.environ.setdefault(name, value)


def execute_with(defaults: Mapping[str, str]) -> None:
    """Execute this process again, with its arguments, where some variables are not set that have to be when it starts.

    Parameters
    ----------
    defaults : the variables; a value that the user gives stays.
    """
    if not all(name in os.environ for name in defaults):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**defaults, **os.environ})


def user_caches(variables: Mapping[str, str]) -> pathlib.Path | None:
    """Return the user's folder for caches of this project, None where the environment names neither one nor a home.

    Parameters
    ----------
    variables : environment variables: `XDG_CACHE_HOME`, else `HOME`; `LOCALAPPDATA` on Windows.

    References
    ----------
    XDG Base Directory Specification, 0.8.
    """
    home = variables.get("HOME")
    if sys.platform == "win32":
        caches = variables.get("LOCALAPPDATA")
    elif sys.platform == "darwin":
        caches = home and f"{home}/Library/Caches"
    else:
        caches = variables.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    return pathlib.Path(caches) / "hetero_mtf" if caches else None


def bypass_proxy(hosts: Sequence[str]) -> None:
    """Let TensorFlow's connections to the servers of a cluster pass by an HTTP proxy, where one is set.

    gRPC sends every connection through the proxy of the environment, loopback included, and waits for ever where that
    does not lead to the server. It reads `no_grpc_proxy`, which nothing else does, so that is where the hosts are added.
    Child processes inherit it.

    Parameters
    ----------
    hosts : (servers,) "HOST:PORT".
    """
    if not any(os.environ.get(name) for name in _PROXIES):
        return
    listed = os.environ.get("no_grpc_proxy") or os.environ.get("no_proxy") or ""
    past = [name.strip() for name in listed.split(",") if name.strip()]
    names = dict.fromkeys(host.rpartition(":")[0].strip("[]") for host in hosts)
    os.environ["no_grpc_proxy"] = ",".join([*past, *(name for name in names if name not in past)])


def child_variables(changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a child process that has to find this package where this process found it.

    Parameters
    ----------
    changes : variables to set on top of this process's own.
    """
    root = str(pathlib.Path(next(iter(hetero_mtf.__path__))).resolve().parent)
    inherited = os.environ.get("PYTHONPATH", "")
    other_paths = [part for part in inherited.split(os.pathsep) if part and part != root]
    # from Python 3.11 on this keeps the child's own folder off its sys.path
    return {**FAST_KERNELS, **os.environ, "PYTHONPATH": os.pathsep.join([root, *other_paths]), "PYTHONSAFEPATH": "1", **changes}
