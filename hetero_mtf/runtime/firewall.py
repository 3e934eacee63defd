"""The firewall of emulated workers: nftables rules that close their ports to other users and to other hosts.

TensorFlow's server listens on every interface and does not authenticate clients. A table of the cluster's own, with two rules, refuses

- connections that come in by an interface other than loopback, and
- connections over loopback, also to another address of this machine, of processes of other users.

Only the segment that opens a connection is looked at, so connections need not be tracked, and connections from these ports, such as
those of another program in a wider range of outgoing ports, are as before.

The process that holds the table is `nft -i`, a child of the supervisor that ends with it: the kernel removes a table that is owned by a
process with that process, killed or not, and lets nobody else remove it, as a reload of the machine's own rules would. Where the kernel
(before 5.12) or nft (before 0.9.9) knows no owned tables, the supervisor removes the table. What a killed one leaves is removed by the
program that started it or, where that was killed too, by the next start of a cluster.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import re
import select
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence

from hetero_mtf.devices.environment import variables
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.ports import addresses_of, split_address
from hetero_mtf.runtime.processes.parent_death import start_time

LIMIT_S = 2.0
_COMMAND_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")  # before those of PATH, where another program may have this short name
_NAME = re.compile(r"\btable inet (hetero_mtf_(\d+)_(\d+)_(\d+))$", re.MULTILINE)
_LOGGER = logging.getLogger("hetero_mtf")
_SAID: set[str] = set()  # what this process has been told, as a program may open many clusters


class RulesError(Exception):
    """The rules cannot be set here; the text says why."""


class ClosedPorts:
    """Ports that are closed to other users and hosts, until `remove` or the end of this process.

    Parameters
    ----------
    nft : path of the command.
    table : name of the table.
    holder : the process that owns the table; None where the table belongs to no process.
    """

    def __init__(self, nft: str, table: str, holder: subprocess.Popen[bytes] | None) -> None:
        self.table = table
        self._nft = nft
        self._holder = holder

    @property
    def line(self) -> int | None:
        """The descriptor whose end tells that the table is gone; None where nothing tells it."""
        return None if self._holder is None else self._holder.stdout.fileno()  # type: ignore[union-attr]

    def remove(self) -> None:
        """Remove the table. Removing twice is harmless."""
        if self._holder is not None:
            _end(self._holder)
            return
        with contextlib.suppress(RulesError):
            _run(self._nft, f"delete table inet {self.table}")


def close_ports(ports: Sequence[int], allowed: Sequence[str] = ()) -> ClosedPorts:
    """Close ports that nothing listens on yet, in the network namespace of this process, to all but this process's user.

    Root is refused like any other user, where this process is not root's: it can remove the rules, but need not connect.

    Parameters
    ----------
    allowed : networks of other hosts that may connect.

    Raises
    ------
    RulesError
        If there is no nft, it is not allowed to set the rules, or they would refuse this process too.
    """
    nft = _nft()
    if nft is None:
        raise RulesError("nft is not installed")
    table = table_name()
    try:
        closed = ClosedPorts(nft, table, _hold(nft, table, rules(table, ports, os.geteuid(), True, allowed)))
    except RulesError:
        _sweep(nft)
        _run(nft, rules(table, ports, os.geteuid(), False, allowed))
        closed = ClosedPorts(nft, table, None)
    if not _reaches_itself(ports[0]):
        closed.remove()
        raise RulesError("the rules refuse this user too, whose number is another one in this network namespace")
    return closed


def close_to_others(ports: Sequence[int], allowed: Sequence[str]) -> ClosedPorts:
    """Close ports of this machine to all hosts but some, and to other users of it.

    Parameters
    ----------
    allowed : "HOST:PORT", addresses, networks such as 192.0.2.0/24, or names, which are looked up now.

    Raises
    ------
    ClusterError
        If one of them is neither, or the rules cannot be set here.
    """
    networks = [network for each in allowed for network in _networks(each)]
    try:
        return close_ports(ports, networks)
    except RulesError as fault:
        remedy = "let the worker write nftables rules, as root or with CAP_NET_ADMIN, or close the ports otherwise and leave out --allow"
        raise ClusterError(f"the ports {', '.join(map(str, ports))} cannot be closed to others ({fault})", remedy) from fault


def _networks(text: str) -> list[str]:
    """Return the networks that "HOST:PORT", an address, a network or a name stands for."""
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_network(text, strict=False))]
    name = split_address(text)[0] if re.search(r"[^:]:\d+$|\]:\d+$", text) else text.strip("[]")
    try:
        return [str(ipaddress.ip_network(address)) for address in addresses_of(name)]
    except (OSError, ValueError) as fault:
        raise ClusterError(f"{text!r} is no address, network or known name ({fault})", "correct --allow or the list of hosts") from fault


def rules(table: str, ports: Sequence[int], user: int, owned: bool, allowed: Sequence[str] = ()) -> str:
    """Return nft's command for a table that closes ports, in one line, as `nft -i` executes each line at once.

    Parameters
    ----------
    table : name of the table.
    ports : (ports,) ports of servers on this machine.
    user : id of the user who may connect over loopback.
    owned : whether the table ends with the process that makes it.
    allowed : networks of other hosts that may connect.
    """
    opening = "tcp flags & (syn | ack) == syn tcp dport @ports"
    parts = [
        *(["flags owner"] if owned else []),
        f"set ports {{ type inet_service; elements = {{ {', '.join(map(str, ports))} }}; }}",
        *_sets(allowed),
        _chain("input", *(f'iifname != "lo" {source}{opening}' for source in _sources(allowed))),
        _chain("output", f'oifname "lo" meta skuid != {user} {opening}'),  # the user of a socket is known in this hook only
    ]
    return f"add table inet {table} {{ {'; '.join(parts)}; }}"


def _sets(allowed: Sequence[str]) -> list[str]:
    """Return the sets of the networks that may connect, one a family that has any."""
    networks = [ipaddress.ip_network(network) for network in allowed]
    return [
        f"set from{version} {{ type ipv{version}_addr; flags interval; auto-merge; elements = {{ {', '.join(own)} }}; }}"
        for version in (4, 6)
        if (own := [str(network) for network in networks if network.version == version])
    ]


def _sources(allowed: Sequence[str]) -> list[str]:
    """Return what matches connections from other hosts than those that may connect; one match for all where none may."""
    versions = {ipaddress.ip_network(network).version for network in allowed}
    families = {4: "ip", 6: "ip6"}
    if not versions:
        return [""]
    of_family = {version: f"{family} saddr != @from{version} " for version, family in families.items()}
    return [match if version in versions else f"meta nfproto ipv{version} " for version, match in of_family.items()]


def table_name() -> str:
    """Return the name of this process's table, by which it can be swept when the process is gone.

    It has the process id, the start of the process and the namespace in which the id counts: processes of several containers may share
    one network namespace.

    Raises
    ------
    RulesError
        If these cannot be read.
    """
    if start_time(os.getpid()) is None:
        raise RulesError("/proc cannot be read")
    return f"hetero_mtf_{os.getpid()}_{start_time(os.getpid())}_{_process_namespace()}"


def orphans(listing: str, ended: Callable[[int, int], bool], namespace: int) -> list[str]:
    """Return the tables of ours whose process is gone.

    Parameters
    ----------
    listing : what `nft list tables inet` has written.
    ended : whether the process with this id and start is gone.
    namespace : the namespace of processes in which `ended` looks.
    """
    tables = (match.groups() for match in _NAME.finditer(listing))
    return [name for name, process, start, of in tables if int(of) == namespace and ended(int(process), int(start))]


def sweep() -> list[str]:
    """Remove the tables whose process is gone, which only the kill of a process that owns none leaves, and return their names."""
    nft = _nft()
    with contextlib.suppress(RulesError):
        return [] if nft is None else _sweep(nft)
    return []


def has_ended(process: int, start: int) -> bool:
    """Return whether the process that started then is gone; not where it cannot be known, as of a hidden process of another user."""
    current = start_time(process)
    if current is not None:
        return current != start
    try:
        os.kill(process, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def tell_once(text: str) -> None:
    """Log that ports are open, once in this process: on the error stream, unless the program has set up logging."""
    if text not in _SAID:
        _SAID.add(text)
        _LOGGER.warning(text)


def open_text(reason: str) -> str:
    """Return what is told where the ports of emulated workers are open.

    Parameters
    ----------
    reason : why they cannot be closed.
    """
    return (
        f"other users of this machine and other hosts can connect to the emulated workers, and read and write your files ({reason}); "
        "let the program write nftables rules, as root or with CAP_NET_ADMIN, run it in a network of its own "
        "(unshare --map-root-user --net, docs/hosts.md), or use a machine and a network that you trust"
    )


def served_text(port: int) -> str:
    """Return what a worker that serves other hosts tells about its port."""
    return (
        f"all users of this machine and all hosts that reach port {port} can connect to this worker, and read and write your files; "
        "close the port by a firewall to all but the hosts of the list, and use machines and a network that you trust"
    )


def _chain(hook: str, *matches: str) -> str:
    # before priority 0, where the machine's own filters are, and behind -100, where destinations are translated
    refused = " ".join(f"{match} reject with tcp reset;" for match in matches)
    return f"chain {hook} {{ type filter hook {hook} priority -10; policy accept; {refused} }}"


def _nft() -> str | None:
    folders = [folder for folder in variables().get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    return shutil.which("nft", path=os.pathsep.join([*_COMMAND_FOLDERS, *folders]))


def _nft_variables() -> dict[str, str]:
    return {**variables(), "LC_ALL": "C", "HOME": "/nonexistent"}  # nft -i writes a history into the home folder


def _hold(nft: str, table: str, rules_line: str) -> subprocess.Popen[bytes]:
    """Return a process of nft that owns a new table, once the table exists; tables without their process are swept by it."""
    pipe = subprocess.PIPE
    try:
        holder = subprocess.Popen([nft, "-i"], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, bufsize=0, env=_nft_variables())
    except OSError as fault:
        raise RulesError(f"nft: {fault.strerror}") from fault
    try:
        _write(holder, rules_line, "list tables inet")
        listing = _listing(holder, table, time.monotonic() + LIMIT_S)
        _write(holder, *(f"delete table inet {name}" for name in orphans(listing, has_ended, _process_namespace())))
    except BaseException:
        holder.kill()
        _end(holder)
        raise
    return holder


def _write(holder: subprocess.Popen[bytes], *commands: str) -> None:
    try:
        holder.stdin.write("".join(f"{command}\n" for command in commands).encode())  # type: ignore[union-attr]
    except OSError as fault:
        raise RulesError("nft -i ended") from fault


def _listing(holder: subprocess.Popen[bytes], table: str, end_s: float) -> str:
    """Return the list of tables, once `table` is in it."""
    line, text = holder.stdout.fileno(), ""  # type: ignore[union-attr]
    while f"table inet {table}\n" not in text:
        ready, _, _ = select.select([line], [], [], max(0.0, end_s - time.monotonic()))
        chunk = os.read(line, 65536) if ready else b""
        text += chunk.decode(errors="replace")
        if not chunk or "Error:" in text:
            raise RulesError(f"nft -i: {text or 'no answer'}")
    return text


def _end(holder: subprocess.Popen[bytes]) -> None:
    holder.stdin.close()  # type: ignore[union-attr]
    try:
        holder.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()
    holder.stdout.close()  # type: ignore[union-attr]


def _run(nft: str, script: str) -> str:
    try:
        done = subprocess.run(
            [nft, "-f", "-"], input=script + "\n", capture_output=True, text=True, errors="replace", timeout=LIMIT_S, env=_nft_variables()
        )
    except subprocess.TimeoutExpired as fault:
        raise RulesError(f"nft did not answer in {LIMIT_S:g} s") from fault
    except OSError as fault:
        raise RulesError(f"nft: {fault.strerror}") from fault
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if line.strip()), f"exit code {done.returncode}")
        raise RulesError(f"nft: {said.rpartition(': ')[2].strip()}")
    return done.stdout


def _sweep(nft: str) -> list[str]:
    names = orphans(_run(nft, "list tables inet"), has_ended, _process_namespace())
    for name in names:
        with contextlib.suppress(RulesError):  # another start has swept it
            _run(nft, f"delete table inet {name}")
    return names


def _process_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _reaches_itself(port: int) -> bool:
    """Return whether this process can connect to a port that it has closed to others; True where something else listens there."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:  # which the worker will tell
            return True
        try:
            socket.create_connection(("127.0.0.1", port), LIMIT_S).close()
        except OSError:
            return False
    return True
