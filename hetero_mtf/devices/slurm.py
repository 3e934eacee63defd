"""Where the servers of a Slurm job listen, read from its variables alone."""

from __future__ import annotations

import collections
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

    The nodes of a heterogeneous job are those of all its components, in order; a step over all of them has --het-group. A job that was
    given no number of tasks has one a node, as srun starts them.

    Parameters
    ----------
    variables : environment variables.
    worker : whether this process is to serve. A program is a client and may run in the batch script, or in a step of its own, whose
        nodes and tasks are not the job's; the step of a worker has to cover the job.

    Raises
    ------
    ClusterError
        If this is no Slurm job, a variable cannot be read or contradicts another, or the step of a worker differs from the job.

    References
    ----------
    Slurm Workload Manager, "Heterogeneous Job Support", "Environment Variables"; the variables of Slurm 22.05 as it sets them.
    """
    step, variables = variables, {**variables, **_joined(variables)}
    job, nodelist = _first(variables, "SLURM_JOB_ID", "SLURM_JOBID"), _nodelist(variables)
    if not _is_number(job) or not nodelist:
        remedy = "run inside a job of sbatch, srun or salloc"
        raise ClusterError(f"SLURM_JOB_ID is {job!r} and SLURM_JOB_NODELIST is {nodelist!r}, so this is no Slurm job", remedy)
    nodes = _nodes(step, nodelist)
    counts = _counts(variables, len(nodes))
    difference = _difference_of_step(variables, nodes, counts)
    if difference and worker:
        groups = f" --het-group={','.join(str(group) for group in range(_components(step)))}" if _components(step) > 1 else ""
        remedy = f"start the workers in one step over all nodes of the job with its task counts, srun{groups}, or {_HOSTS}"
        raise ClusterError(f"{difference}", remedy)
    _check_counts(variables, counts, len(nodes))
    first = SLURM_FIRST_PORT + int(job) % SLURM_PORTS
    hosts, taken = [], collections.Counter[str]()
    for node, count in zip(nodes, counts):  # components may share a node
        hosts += [f"{node}:{first + taken[node] + place}" for place in range(count)]
        taken[node] += count
    if first + max(taken.values()) - 1 > _MOST_PORT:
        raise ClusterError(f"{max(taken.values())} tasks of a node have no ports from {first} to {_MOST_PORT}", f"start fewer, or {_HOSTS}")
    return Addresses(tuple(hosts), None if difference else _task(variables, counts), complete=True)


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


def _components(variables: Mapping[str, str]) -> int:
    """Return the number of components of a job, 1 where it is not heterogeneous."""
    size = _first(variables, "SLURM_HET_SIZE", "SLURM_PACK_SIZE") or "1"
    if not _is_number(size) or not 0 <= int(size) <= _MOST_NODES:
        raise ClusterError(f"SLURM_HET_SIZE is {size!r}, which cannot be read", _HOSTS)
    return max(1, int(size))


def _joined(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a heterogeneous job as those of one job over the nodes of all components; none for another job.

    In the batch script the usual ones are those of the first component. A step that covers them all has them joined already, and
    other numbers of nodes in them say that it does not.
    """
    count = _components(variables)
    if count == 1:
        return {}
    lists, counts, totals = list[str](), list[str](), list[str]()
    for group in range(count):
        nodes = _of_group(variables, "SLURM_JOB_NODELIST", group)
        if not nodes:
            raise ClusterError(f"the Slurm job has {count} components and no SLURM_JOB_NODELIST_HET_GROUP_{group}", _HOSTS)
        lists.append(nodes)
        length = len(expand_nodelist(nodes))
        total = _of_group(variables, "SLURM_NTASKS", group) or _of_group(variables, "SLURM_NPROCS", group)
        given = total or _of_group(variables, "SLURM_NTASKS_PER_NODE", group)
        counts.append((_of_group(variables, "SLURM_TASKS_PER_NODE", group) if given else "") or f"1(x{length})")
        totals.append(total or str(sum(_tasks_per_node(counts[-1], "SLURM_TASKS_PER_NODE"))))
    joined = {"SLURM_JOB_NODELIST": ",".join(lists), "SLURM_TASKS_PER_NODE": ",".join(counts)}
    job = _of_group(variables, "SLURM_JOB_ID", 0)
    if all(map(_is_number, totals)):
        joined |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(sum(map(int, totals))))
    return {**joined, **({"SLURM_JOB_ID": job} if job else {})}


def _nodes(variables: Mapping[str, str], nodelist: str) -> tuple[str, ...]:
    """Return the nodes of a job; components of a heterogeneous one may share a node, which is then in the list twice."""
    if _components(variables) == 1:
        return expand_nodelist(nodelist)
    groups = [_of_group(variables, "SLURM_JOB_NODELIST", group) for group in range(_components(variables))]
    return tuple(node for group in groups for node in expand_nodelist(group))


def _of_group(variables: Mapping[str, str], name: str, group: int) -> str:
    """Return the variable of one component: its name of today, or that of Slurm before 20.02."""
    return _first(variables, f"{name}_HET_GROUP_{group}", f"{name}_PACK_GROUP_{group}")


def _counts(variables: Mapping[str, str], nodes: int) -> list[int]:
    """Return the tasks of each node of the job. Without a number of tasks Slurm's counts are of processors, and srun starts one a node."""
    given = _first(variables, "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE")
    text = variables.get("SLURM_TASKS_PER_NODE", "") if given or _in_step(variables) else ""
    return _tasks_per_node(text or f"1(x{nodes})", "SLURM_TASKS_PER_NODE")


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
