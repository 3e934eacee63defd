"""Where the servers of a cluster listen: host lists and TF_CONFIG, read from text alone."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence

from hetero_mtf.errors import ClusterError

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Addresses of a cluster's servers and, in a server's own process, which of them it is.

    Parameters
    ----------
    hosts : (servers,) "HOST:PORT" each; the place in it is the task's number.
    task : this process's task, or None in a process that is only a client.
    complete : whether servers that are not in it are a fault; a list that somebody wrote may name the first ones only.
    """

    hosts: tuple[str, ...]
    task: int | None = None
    complete: bool = dataclasses.field(default=False, compare=False)

    def port(self, task: int) -> int:
        """Return the port that `task` listens on."""
        return int(self.hosts[task].rsplit(":", 1)[1])


def lease_port(port: int) -> int:
    """Return the port on which the worker that serves on `port` grants its lease: 20000 and the last four digits of `port`.

    These are below the ports that the kernel gives to outgoing connections. A worker on one of them has 10000 and the digits.

    Examples
    --------
    >>> lease_port(61000), lease_port(2222), lease_port(21000)
    (21000, 22222, 11000)
    """
    return (10_000 if 20_000 <= port < 30_000 else 20_000) + port % 10_000


def parse_hosts(hosts: Sequence[str]) -> Addresses:
    """Return the addresses in a list of "HOST:PORT".

    Parameters
    ----------
    hosts : (servers,) "HOST:PORT" each.

    Raises
    ------
    ClusterError
        If the list is empty, or an address has no host or port, or occurs twice; all faults at once.
    """
    if isinstance(hosts, str):
        raise ClusterError(f"the hosts are the text {hosts!r}; write a list of HOST:PORT, such as [{hosts!r}]")
    cleaned = tuple(host.strip() for host in hosts)
    faults = [f"{host!r}" for host in cleaned if not _is_address(host)]
    if not cleaned or faults:
        listed = f"{', '.join(faults)} is no HOST:PORT" if faults else "the list of hosts is empty"
        raise ClusterError(f"{listed}; write hosts as HOST:PORT,HOST:PORT with ports from 1 to 65535")
    twice = sorted({host for host in cleaned if cleaned.count(host) > 1})
    if twice:
        raise ClusterError(f"{', '.join(twice)} is listed more than once; give every server its own port")
    _check_lease_ports(cleaned)
    return Addresses(cleaned)


def _check_lease_ports(hosts: Sequence[str]) -> None:
    """Refuse servers of one host whose leases would be granted on one port, or on the port of a server."""
    owners: dict[str, str] = {host: host for host in hosts}
    for host in hosts:
        name, _, port = host.rpartition(":")
        lease = f"{name}:{lease_port(int(port))}"
        if lease in owners:
            raise ClusterError(f"{host} grants its lease on {lease}, which {owners[lease]} uses too; choose a port with other last digits")
        owners[lease] = host


def parse_tf_config(text: str | None) -> Addresses:
    """Return the addresses of the "worker" job in the text of a TF_CONFIG variable.

    Other jobs are left aside: the process that trains is a client of the workers and need not be listed.

    Parameters
    ----------
    text : JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}.

    Raises
    ------
    ClusterError
        If it is missing, not JSON, or names no workers.
    """
    remedy = 'set it to {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'
    if not text or not text.strip():
        raise ClusterError(f"TF_CONFIG is not set; {remedy}")
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise ClusterError(f"TF_CONFIG is not JSON ({fault}); {remedy}") from fault
    jobs = document.get("cluster") if isinstance(document, dict) else None
    workers = jobs.get("worker") if isinstance(jobs, dict) else None
    if not isinstance(workers, list) or not workers or not all(isinstance(host, str) for host in workers):
        raise ClusterError(f"TF_CONFIG names no workers (cluster.worker is {workers!r}); {remedy}")
    hosts = parse_hosts(workers).hosts
    return Addresses(hosts, _tf_config_task(document.get("task"), len(hosts), remedy))


def _is_address(text: str) -> bool:
    match = _ADDRESS.fullmatch(text)
    return match is not None and 1 <= int(match["port"]) <= 65535


def _tf_config_task(task: object, workers: int, remedy: str) -> int | None:
    if task is None or (isinstance(task, dict) and task.get("type") != "worker"):
        return None
    index = task.get("index") if isinstance(task, dict) else None
    if isinstance(index, str) and index.isdigit():
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < workers:
        raise ClusterError(f"TF_CONFIG has task {task!r} for {workers} workers; {remedy}")
    return index
