"""Hosts as network namespaces: each with an address, a host name, and a link whose speed can be set and that can be cut.

All hang on one bridge of this machine, which is the host of the program that starts them. Nothing of the machine's own network is
changed; rules, links and files go with the `Lab`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

HERE = "control"  # this machine's name in the hosts' files
_LIMIT_S = 30.0
_ENDED_S = 10.0
_BURST_S = 0.0005  # of a link's speed that may pass at once
_LEAST_BURST_BYTES = 16_384
_QUEUE_MS = 50


def missing() -> str:
    """Return why there can be no hosts here, "" where there can."""
    for program in ("ip", "tc", "nft", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"the program {program} is missing"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    trial = f"hm-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", trial], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", trial], capture_output=True, check=False)
    return "" if made.returncode == 0 else f"ip netns add says {made.stderr.strip()}"


class Lab:
    """Hosts that reach each other and this machine.

    Parameters
    ----------
    names : of the hosts.

    Attributes
    ----------
    prefix : that the names of its namespaces begin with.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        number = os.getpid()
        self._subnet = f"10.213.{number % 250}"
        self.prefix = f"hm{number % 100_000}"
        self._processes: list[subprocess.Popen[Any]] = []
        self._hosts_file = pathlib.Path(tempfile.gettempdir()) / f"{self.prefix}.hosts"
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def address(self, name: str) -> str:
        """Return the IPv4 address of a host, or of this machine as `HERE`."""
        return f"{self._subnet}.{254 if name == HERE else self.names.index(name) + 1}"

    def processes(self, name: str) -> list[int]:
        """Return the process ids of the programs on a host."""
        listed = subprocess.run(["ip", "netns", "pids", self._space(name)], capture_output=True, text=True, check=True)
        return [int(number) for number in listed.stdout.split()]

    def start(self, name: str, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on a host, in a session of its own; it ends with the lab at the latest.

        Parameters
        ----------
        name : of the host.
        command : program and arguments.
        options : of `subprocess.Popen`.
        """
        # not `ip netns exec`, which mounts another /sys, without control groups
        named = ["sh", "-c", 'mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"', str(self._hosts_file), name, *command]
        entered = ["nsenter", f"--net=/run/netns/{self._space(name)}", "unshare", "--uts", "--mount", "--", *named]
        process = subprocess.Popen(entered, start_new_session=True, **options)
        self._processes.append(process)
        return process

    def rate(self, mbit_per_s: float | None, names: Sequence[str] = ()) -> None:
        """Set the speed of links, both ways.

        Parameters
        ----------
        mbit_per_s : None for as fast as it goes.
        names : hosts; empty for all.
        """
        for name in names or self.names:
            for where in (["-n", self._space(name)], []):
                device = "eth0" if where else self._link(name)
                _call(["tc", *where, "qdisc", "del", "dev", device, "root"], check=False)
                if mbit_per_s is not None:
                    burst = max(_LEAST_BURST_BYTES, int(mbit_per_s * 1e6 / 8 * _BURST_S))
                    shape = ["tbf", "rate", f"{mbit_per_s:g}mbit", "burst", str(burst), "latency", f"{_QUEUE_MS}ms"]
                    _call(["tc", *where, "qdisc", "add", "dev", device, "root", *shape])

    def cut(self, one: str, other: str) -> None:
        """Drop all packets between two hosts, of which one may be `HERE`, without a word to either."""
        if one == HERE:
            one, other = other, one
        address = self.address(other)
        rules = f"table inet cut {{\nchain into {{\ntype filter hook input priority 0\nip saddr {address} drop\n}}\n"
        rules += f"chain out {{\ntype filter hook output priority 0\nip daddr {address} drop\n}}\n}}\n"
        _call(["ip", "netns", "exec", self._space(one), "nft", "-f", "-"], text=rules)

    def heal(self, names: Sequence[str] = ()) -> None:
        """Let all packets pass again.

        Parameters
        ----------
        names : hosts that were the first of two between which they were cut; empty for all.
        """
        for name in names or self.names:
            _call(["ip", "netns", "exec", self._space(name), "nft", "delete", "table", "inet", "cut"], check=False)

    def rules(self, name: str) -> str:
        """Return the firewall rules of a host."""
        return _call(["ip", "netns", "exec", self._space(name), "nft", "list", "ruleset"])

    def end_processes(self) -> None:
        """End what was started."""
        for process in self._processes:
            end(process)
        self._processes = []

    def close(self) -> None:
        """End what was started and remove the hosts. Closing twice is harmless."""
        self.end_processes()
        for name in self.names:
            for number in _call(["ip", "netns", "pids", self._space(name)], check=False).split():
                with contextlib.suppress(OSError):
                    os.kill(int(number), signal.SIGKILL)
            _call(["ip", "netns", "del", self._space(name)], check=False)
            _call(["ip", "link", "del", self._link(name)], check=False)
        _call(["ip", "link", "del", self._bridge], check=False)
        self._hosts_file.unlink(missing_ok=True)

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _bridge(self) -> str:
        return f"{self.prefix}b"

    def _space(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def _link(self, name: str) -> str:
        return f"{self.prefix}x{self.names.index(name)}"

    def _make(self) -> None:
        _call(["ip", "link", "add", self._bridge, "type", "bridge"])
        _call(["ip", "address", "add", f"{self.address(HERE)}/24", "dev", self._bridge])
        _call(["ip", "link", "set", self._bridge, "up"])
        hosts = "".join(f"{self.address(name)} {name}\n" for name in (*self.names, HERE))
        self._hosts_file.write_text(f"127.0.0.1 localhost\n{hosts}")
        for name in self.names:
            space, link = self._space(name), self._link(name)
            _call(["ip", "netns", "add", space])
            _call(["ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space])
            _call(["ip", "link", "set", link, "master", self._bridge, "up"])
            _call(["ip", "-n", space, "address", "add", f"{self.address(name)}/24", "dev", "eth0"])
            for device in ("lo", "eth0"):
                _call(["ip", "-n", space, "link", "set", device, "up"])


def end(process: subprocess.Popen[Any], number: int = signal.SIGTERM) -> int:
    """End a program that a `Lab` started with what it started, and return its exit code; what does not end is killed.

    Parameters
    ----------
    number : the signal to try first.
    """
    for each in (number, signal.SIGKILL):
        if process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, each)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDED_S)
    return process.wait()


def await_text(path: pathlib.Path, text: str, limit_s: float) -> float:
    """Return the seconds until a text stands in a file.

    Raises
    ------
    TimeoutError
        If it does not in time; with the end of the file.
    """
    begun = time.monotonic()
    while True:
        found = path.read_text(errors="replace") if path.exists() else ""
        if text in found:
            return time.monotonic() - begun
        if time.monotonic() > begun + limit_s:
            raise TimeoutError(f"{text!r} is not in {path.name} after {limit_s:g} s: {found[-500:]}")
        time.sleep(0.05)


def _call(command: Sequence[str], check: bool = True, text: str | None = None) -> str:
    ended = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if check and ended.returncode != 0:
        raise OSError(f"{' '.join(command)} says {ended.stderr.strip()}")
    return ended.stdout
