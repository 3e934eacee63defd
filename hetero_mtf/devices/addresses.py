"""Where the servers of a cluster listen: host lists, TF_CONFIG and Slurm, read from text alone."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence

from hetero_mtf.errors import ClusterError

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")
_NODE = re.compile(r"(?P<head>[^\[\],]+)?(?:\[(?P<ranges>[0-9,-]+)\](?P<tail>[^\[\],]*))?")
SLURM_FIRST_PORT = 61000
SLURM_PORTS = 4000


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Addresses of a cluster's servers and, in a server's own process, which of them it is.

    Parameters
    ----------
    hosts : (servers,) "HOST:PORT" each; the place in it is the task's number.
    task : this process's task, or None in a process that is only a client.
    """

    hosts: tuple[str, ...]
    task: int | None = None

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


def parse_slurm(variables: Mapping[str, str]) -> Addresses:
    """Return the addresses of one server a task of a Slurm job.

    Every process of the job computes the same list: the nodes in order, on each as many ports as it has tasks,
    counted from a port that follows from the job's number. A task finds itself by its node and its number on it,
    so the order in which Slurm deals out ranks does not matter.

    Parameters
    ----------
    variables : environment variables.

    Raises
    ------
    ClusterError
        If this is no Slurm job, or a variable cannot be read.
    """
    remedy = "run inside a job of sbatch, srun or salloc"
    job, nodelist = variables.get("SLURM_JOB_ID", ""), variables.get("SLURM_JOB_NODELIST", "")
    if not job.isdigit() or not nodelist:
        raise ClusterError(f"SLURM_JOB_ID is {job!r} and SLURM_JOB_NODELIST is {nodelist!r}, so this is no Slurm job; {remedy}")
    nodes = expand_nodelist(nodelist.strip())
    counts = _tasks_per_node(variables.get("SLURM_TASKS_PER_NODE") or f"1(x{len(nodes)})", len(nodes))
    first = SLURM_FIRST_PORT + int(job) % SLURM_PORTS
    hosts = tuple(f"{node}:{first + place}" for node, count in zip(nodes, counts) for place in range(count))
    return Addresses(hosts, _slurm_task(variables, counts))


def expand_nodelist(text: str) -> tuple[str, ...]:
    """Return the node names in Slurm's short form.

    Raises
    ------
    ClusterError
        If the text is not in that form.

    Examples
    --------
    >>> expand_nodelist("n[08-10,12],gpu1")
    ('n08', 'n09', 'n10', 'n12', 'gpu1')
    """
    nodes: list[str] = []
    parts = re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text)
    for part in parts:
        match = _NODE.fullmatch(part)
        if match is None or ",".join(parts) != text:
            raise ClusterError(f"the node list {text!r} cannot be read at {part!r}; give the hosts with hosts:HOST:PORT,...")
        head, tail = match["head"] or "", match["tail"] or ""
        numbers = _expand_ranges(match["ranges"], text) if match["ranges"] else [""]
        nodes += [f"{head}{number}{tail}" for number in numbers]
    if not nodes:
        raise ClusterError(f"the node list {text!r} names no node; give the hosts with hosts:HOST:PORT,...")
    return tuple(nodes)


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


def _expand_ranges(ranges: str, text: str) -> list[str]:
    numbers: list[str] = []
    for span in ranges.split(","):
        first, _, last = span.partition("-")
        last = last or first
        if not first.isdigit() or not last.isdigit() or int(last) < int(first):
            raise ClusterError(f"the node list {text!r} cannot be read at {span!r}; give the hosts with hosts:HOST:PORT,...")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def _tasks_per_node(text: str, nodes: int) -> list[int]:
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise ClusterError(f"SLURM_TASKS_PER_NODE is {text!r}, which cannot be read; give the hosts with hosts:HOST:PORT,...")
        counts += [int(match[1])] * int(match[2] or 1)
    if len(counts) != nodes:
        raise ClusterError(f"SLURM_TASKS_PER_NODE {text!r} is for {len(counts)} nodes, the job has {nodes}; start the tasks on all nodes")
    return counts


def _slurm_task(variables: Mapping[str, str], counts: Sequence[int]) -> int | None:
    if "SLURM_PROCID" not in variables or "SLURM_STEP_ID" not in variables:
        return None
    node, local = variables.get("SLURM_NODEID", ""), variables.get("SLURM_LOCALID", "")
    if not node.isdigit() or not local.isdigit() or int(node) >= len(counts) or int(local) >= counts[int(node)]:
        place = f"SLURM_NODEID is {node!r} and SLURM_LOCALID {local!r}"
        raise ClusterError(f"{place} in a job with {list(counts)} tasks on its nodes; start the task with srun")
    return sum(counts[: int(node)]) + int(local)
