"""Where the servers of a Slurm job listen, read from its variables alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from hetero_mtf.devices.addresses import Addresses
from hetero_mtf.errors import ClusterError

SLURM_FIRST_PORT = 61000
SLURM_PORTS = 4000
_MOST_PORT = 65535
_MOST_NODES = 65536  # of a Slurm cluster
_ENTRY = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_NO_STEPS = ("4294967291", "-5", "4294967292", "-4")  # of the batch script and of what is started beside Slurm, as unsigned and signed
_HOSTS = "give the hosts with hosts:HOST:PORT,... and worker --hosts HOST:PORT,... --index N"


def parse_slurm(variables: Mapping[str, str], worker: bool = False) -> Addresses:
    """Return the addresses of one server a task of a Slurm job.

    Every process of the job computes the same list: the nodes in order, on each as many ports as it has tasks,
    counted from a port that follows from the job's number. A task finds itself by its node and its number on it,
    so the order in which Slurm deals out ranks does not matter.

    Parameters
    ----------
    variables : environment variables.
    worker : whether this process is to serve. A program is a client and may run in the batch script, or in a step of its own, whose
        nodes and tasks are not the job's; the step of a worker has to cover the job.

    Raises
    ------
    ClusterError
        If this is no Slurm job, the job is heterogeneous, a variable cannot be read or contradicts another, or the step of a worker
        differs from the job.
    """
    _refuse_heterogeneous(variables)
    job, nodelist = _first(variables, "SLURM_JOB_ID", "SLURM_JOBID"), _nodelist(variables)
    if not _is_number(job) or not nodelist:
        remedy = "run inside a job of sbatch, srun or salloc"
        raise ClusterError(f"SLURM_JOB_ID is {job!r} and SLURM_JOB_NODELIST is {nodelist!r}, so this is no Slurm job", remedy)
    nodes = expand_nodelist(nodelist)
    counts = _tasks_per_node(variables.get("SLURM_TASKS_PER_NODE") or f"1(x{len(nodes)})", "SLURM_TASKS_PER_NODE")
    difference = _difference_of_step(variables, nodes, counts)
    if difference and worker:
        raise ClusterError(f"{difference}", f"start the workers in one step over all nodes of the job with its task counts, or {_HOSTS}")
    _check_counts(variables, counts, len(nodes))
    first = SLURM_FIRST_PORT + int(job) % SLURM_PORTS
    if first + max(counts) - 1 > _MOST_PORT:
        raise ClusterError(f"{max(counts)} tasks of a node have no ports from {first} to {_MOST_PORT}", f"start fewer, or {_HOSTS}")
    hosts = tuple(f"{node}:{first + place}" for node, count in zip(nodes, counts) for place in range(count))
    return Addresses(hosts, None if difference else _task(variables, counts), complete=True)


def expand_nodelist(text: str) -> tuple[str, ...]:
    """Return the node names in Slurm's short form.

    Raises
    ------
    ClusterError
        If the text is not in that form, names a node twice, or more nodes than Slurm manages.

    Examples
    --------
    >>> expand_nodelist("n[08-10,12],gpu1")
    ('n08', 'n09', 'n10', 'n12', 'gpu1')
    >>> expand_nodelist("rack[0-1]node[2-3].example")
    ('rack0node2.example', 'rack0node3.example', 'rack1node2.example', 'rack1node3.example')
    """
    remedy = "give the hosts with hosts:HOST:PORT,..."
    compact = re.sub(r"\s*,\s*", ",", text.strip())
    entries = _ENTRY.findall(compact)
    if ",".join(entries) != compact:
        raise ClusterError(f"the node list {text!r} cannot be read", remedy)
    nodes = [node for entry in entries for node in _expand(entry, text)]
    if not nodes:
        raise ClusterError(f"the node list {text!r} names no node", remedy)
    if len(nodes) > _MOST_NODES or len(set(nodes)) < len(nodes):
        fault = f"more than {_MOST_NODES} nodes" if len(nodes) > _MOST_NODES else "a node twice"
        raise ClusterError(f"the node list {text!r} names {fault}", remedy)
    return tuple(nodes)


def _expand(entry: str, text: str) -> list[str]:
    """Return the nodes of one entry of a list; of several brackets the last changes fastest, as in Slurm."""
    pieces = _BRACKETS.split(entry)  # text, ranges, text, ranges, ..., text
    choices = [_expand_ranges(piece, text) if place % 2 else [piece] for place, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > _MOST_NODES:
        raise _unreadable(text, f"{entry} has {count} nodes")
    nodes = ["".join(parts) for parts in itertools.product(*choices)]
    # the nodes of one entry differ in digits only: the first stands for all
    if not _NAME.fullmatch(nodes[0]):
        raise _unreadable(text, repr(entry))
    return nodes


def _expand_ranges(ranges: str, text: str) -> list[str]:
    numbers: list[str] = []
    for span in ranges.split(","):
        match = _SPAN.fullmatch(span)
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if not 0 <= int(last) - int(first) < _MOST_NODES:
            raise _unreadable(text, repr(span))
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers


def _unreadable(text: str, place: str) -> ClusterError:
    return ClusterError(f"the node list {text!r} cannot be read at {place}", "give the hosts with hosts:HOST:PORT,...")


def _first(variables: Mapping[str, str], *names: str) -> str:
    """Return the value of the first variable that is set: its name of today, or that of an earlier Slurm."""
    return next((variables[name].strip() for name in names if variables.get(name, "").strip()), "")


def _nodelist(variables: Mapping[str, str]) -> str:
    return _first(variables, "SLURM_JOB_NODELIST", "SLURM_NODELIST")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _refuse_heterogeneous(variables: Mapping[str, str]) -> None:
    """Refuse a job of several components, of which Slurm gives each variables of its own: the usual ones are those of the first."""
    size = _first(variables, "SLURM_HET_SIZE", "SLURM_PACK_SIZE")
    lists = sorted(name for name in variables if re.fullmatch(r"SLURM_JOB_NODELIST_(HET|PACK)_GROUP_\d+", name))
    if size in ("", "0", "1") and not any(not name.endswith("_0") for name in lists):
        return
    current = [name for name in lists if "_HET_" in name] or lists
    listed = ", ".join(f"{name} {variables[name]!r}" for name in current)
    raise ClusterError(
        f"the Slurm job is heterogeneous (SLURM_HET_SIZE {size!r}, {listed}), which cluster slurm does not read", _HOSTS
    )


def _tasks_per_node(text: str, name: str) -> list[int]:
    counts: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part.strip())
        if match is None or int(match[2] or 1) > _MOST_NODES:
            raise ClusterError(f"{name} is {text!r}, which cannot be read", "give the hosts with hosts:HOST:PORT,...")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _in_step(variables: Mapping[str, str]) -> bool:
    """Return whether this process is a task of a step of srun, or of the step that is the shell of salloc."""
    step = _first(variables, "SLURM_STEP_ID", "SLURM_STEPID")
    return bool(step) and step not in _NO_STEPS and "SLURM_PROCID" in variables


def _difference_of_step(variables: Mapping[str, str], nodes: Sequence[str], counts: Sequence[int]) -> str:
    """Return in what the step of this process differs from its job, "" where it does not or there is no step."""
    if not _in_step(variables):
        return ""
    own_nodes, own_counts = variables.get("SLURM_STEP_NODELIST"), variables.get("SLURM_STEP_TASKS_PER_NODE")
    if own_nodes and expand_nodelist(own_nodes) != tuple(nodes):
        return f"SLURM_STEP_NODELIST is {own_nodes!r} and SLURM_JOB_NODELIST {_nodelist(variables)!r}"
    if own_counts and _tasks_per_node(own_counts, "SLURM_STEP_TASKS_PER_NODE") != list(counts):
        return f"SLURM_STEP_TASKS_PER_NODE is {own_counts!r} and SLURM_TASKS_PER_NODE {variables.get('SLURM_TASKS_PER_NODE')!r}"
    for name, number, what in (("SLURM_STEP_NUM_NODES", len(nodes), "nodes"), ("SLURM_STEP_NUM_TASKS", sum(counts), "tasks")):
        if variables.get(name, str(number)).strip() != str(number):
            return f"{name} is {variables[name]!r} and the job has {number} {what}"
    return ""


def _check_counts(variables: Mapping[str, str], counts: Sequence[int], nodes: int) -> None:
    """Refuse counts of tasks that are for other nodes, or another number in all than the job's."""
    text = variables.get("SLURM_TASKS_PER_NODE")
    if len(counts) != nodes:
        fault = f"SLURM_TASKS_PER_NODE {text!r} is for {len(counts)} nodes, the job has {nodes}"
        kept = "start the program in the batch script, or with srun --preserve-env, which passes on the job's"
        raise ClusterError(fault, f"{kept if _in_step(variables) else 'start the tasks on all nodes'}, or {_HOSTS}")
    for name in ("SLURM_NTASKS", "SLURM_NPROCS"):
        total = variables.get(name, "").strip()
        if total and total != str(sum(counts)):
            fault = f"{name} is {total!r} and SLURM_TASKS_PER_NODE {text!r}, which are {sum(counts)} tasks"
            raise ClusterError(fault, f"request the tasks of the job with --ntasks or --ntasks-per-node, or {_HOSTS}")
    if not sum(counts):
        raise ClusterError(f"SLURM_TASKS_PER_NODE {text!r} has no tasks", f"start the workers with srun, or {_HOSTS}")


def _task(variables: Mapping[str, str], counts: Sequence[int]) -> int | None:
    """Return the number of this process among the servers, None where it is no task of a step."""
    if not _in_step(variables):
        return None
    node, local = variables.get("SLURM_NODEID", ""), variables.get("SLURM_LOCALID", "")
    if not _is_number(node) or not _is_number(local) or int(node) >= len(counts) or int(local) >= counts[int(node)]:
        place = f"SLURM_NODEID is {node!r} and SLURM_LOCALID {local!r}"
        raise ClusterError(f"{place} in a job with {list(counts)} tasks on its nodes", "start the task with srun")
    return sum(counts[: int(node)]) + int(local)
