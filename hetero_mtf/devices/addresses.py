"""Where the servers of a cluster listen: host lists and TF_CONFIG, read from text alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from hetero_mtf.devices.address_forms import canonical, fault_of_form, fault_of_host, split
from hetero_mtf.errors import ClusterError

_FORM = "write hosts as HOST:PORT,HOST:PORT with ports from 1 to 65535"
_SET = 'set it to {"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'


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
    hosts : (servers,) "HOST:PORT" each; HOST is a name, an IPv4 address, or an IPv6 address in brackets, a link-local one with its
        zone, such as [fe80::1%eth0].

    Raises
    ------
    ClusterError
        If the list is empty, an address has no host or port or is one that no other host reaches, or occurs twice; all faults at once.
    """
    if isinstance(hosts, str):
        raise ClusterError(f"the hosts are the text {hosts!r}", f"write a list of HOST:PORT, such as [{hosts!r}]")
    cleaned = tuple(host.strip() if isinstance(host, str) else host for host in hosts)
    if not cleaned:
        raise ClusterError("the list of hosts is empty", _FORM)
    malformed = {repr(host): fault for host in cleaned if (fault := fault_of_form(host))}
    unreached = {host: fault for host in cleaned if repr(host) not in malformed and (fault := fault_of_host(split(host)[0]))}
    clauses = [f"{', '.join(f'{host} ({fault})' for host, fault in malformed.items())} is no HOST:PORT"] if malformed else []
    clauses += [f"{host} is {fault}" for host, fault in unreached.items()]
    if clauses:
        remedies = [_FORM] * bool(malformed) + ["write the name or address by which other hosts reach the server"] * bool(unreached)
        raise ClusterError(f"{', '.join(clauses)}", f"{' and '.join(remedies)}")
    _check_repeats(cleaned)
    _check_lease_ports(cleaned)
    return Addresses(cleaned)


def _check_repeats(hosts: Sequence[str]) -> None:
    """Refuse servers with one address, however it is written: names by their letters, whatever the case, addresses by their numbers."""
    spellings: dict[str, list[str]] = {}
    for host in hosts:
        spellings.setdefault(canonical(host), []).append(host)
    repeated = [", also written ".join(dict.fromkeys(listed)) for listed in spellings.values() if len(listed) > 1]
    if repeated:
        raise ClusterError(f"{', '.join(sorted(repeated))} is listed more than once", "give every server its own port")


def _check_lease_ports(hosts: Sequence[str]) -> None:
    """Refuse servers of one host whose leases would be granted on one port, or on the port of a server."""
    owners: dict[str, str] = {canonical(host): host for host in hosts}
    for host in hosts:
        name, _, port = host.rpartition(":")
        lease = f"{name}:{lease_port(int(port))}"
        if canonical(lease) in owners:
            owner = owners[canonical(lease)]
            raise ClusterError(f"{host} grants its lease on {lease}, which {owner} uses too", "choose a port with other last digits")
        owners[canonical(lease)] = host


def parse_tf_config(text: str | None, worker: bool = False) -> Addresses:
    """Return the addresses of the "worker" job in the text of a TF_CONFIG variable.

    Other jobs are left aside: the process that trains is a client of the workers and need not be listed.

    Parameters
    ----------
    text : JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}.
    worker : whether this process is to serve as the task of TF_CONFIG, which has to be a worker then.

    Raises
    ------
    ClusterError
        If it is missing, not JSON, or names no workers, or the task of a worker is of another job.
    """
    document = _document(text)
    workers = document["cluster"]["worker"]
    task = document.get("task")
    hosts = parse_hosts(workers).hosts
    if worker and isinstance(task, dict) and task.get("type") != "worker":
        remedy = 'start the training program in this process and hetero-mtf worker in those, or list this one there with type "worker"'
        raise ClusterError(f"TF_CONFIG has the task {json.dumps(task)}, and only cluster.worker serves: {', '.join(hosts)}", remedy)
    return Addresses(hosts, _tf_config_task(task, len(hosts)))


def jobs_without_devices(text: str) -> tuple[str, ...]:
    """Return the names of TF_CONFIG's jobs other than "worker", whose machines are no devices; of a text that cannot be read, none."""
    try:
        return tuple(str(job) for job, hosts in _document(text)["cluster"].items() if job != "worker" and hosts)
    except ClusterError:
        return ()


def _document(text: str | None) -> dict[str, Any]:
    """Return the content of TF_CONFIG, which lists workers."""
    if not text or not text.strip():
        raise ClusterError("TF_CONFIG is not set", _SET)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as fault:
        raise ClusterError(f"TF_CONFIG is not JSON ({fault})", _SET) from fault
    jobs = document.get("cluster") if isinstance(document, dict) else None
    workers = jobs.get("worker") if isinstance(jobs, dict) else None
    if not isinstance(workers, list) or not workers or not all(isinstance(host, str) for host in workers):
        raise ClusterError(f"TF_CONFIG names no workers (cluster.worker is {workers!r})", _SET)
    return dict(document)


def _tf_config_task(task: object, workers: int) -> int | None:
    if task is None or (isinstance(task, dict) and task.get("type") != "worker"):
        return None
    index = task.get("index") if isinstance(task, dict) else None
    if isinstance(index, str) and index.isascii() and index.isdecimal() and len(index) <= len(str(workers)):
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < workers:
        raise ClusterError(f"TF_CONFIG has task {task!r} for {workers} workers", _SET)
    return index
