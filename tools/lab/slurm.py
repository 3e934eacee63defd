"""A real Slurm on the hosts of a `Lab`: a controller on this machine, a node daemon on each host, and munge between them.

Debian's packages slurm-wlm and munge. Its files are in one folder; nothing of the machine's own configuration is read or changed.
"""

from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO

from tools.lab.namespaces import HERE, Lab, end

_START_S = 30.0
_CONTROLLER_PORT, _NODE_PORT = 6817, 6818
_FEATURES = ("a100", "v100")  # of the first host, and of the others, as a script may ask for unlike nodes
_CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={here}({address})
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_resolution=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
InactiveLimit=0
KillWait=20
MinJobAge=300
RebootProgram=/bin/true
"""


def missing() -> str:
    """Return why there can be no Slurm here, "" where there can."""
    for program in ("slurmctld", "slurmd", "munged"):
        if shutil.which(program, path=_path()) is None:
            return f"the program {program} is missing"
    return ""


class Slurm:
    """A Slurm whose nodes are the hosts of a lab.

    Parameters
    ----------
    lab : with its hosts.
    folder : for its files.
    cores : of each node, as Slurm counts them.
    """

    def __init__(self, lab: Lab, folder: pathlib.Path, cores: int = 2) -> None:
        self.lab, self._folder, self._cores = lab, folder, cores
        self._processes: list[subprocess.Popen[Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def call(self, command: Sequence[str], variables: Mapping[str, str] | None = None, limit_s: float = 120.0) -> str:
        """Return what a command of Slurm prints, both streams, run on this machine.

        Parameters
        ----------
        command : such as ["squeue"].
        variables : further ones.
        limit_s : seconds.
        """
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        ended = subprocess.run(command, env=self.variables(variables), text=True, timeout=limit_s, check=False, **streams)
        return str(ended.stdout)

    def submit(self, script: pathlib.Path, *options: str) -> int:
        """Submit a batch script and return the number of the job.

        Parameters
        ----------
        script : the file.
        options : of sbatch.
        """
        said = self.call(["sbatch", *options, str(script)])
        words = said.split()
        if words[:3] != ["Submitted", "batch", "job"]:
            raise OSError(f"sbatch says {said.strip()}")
        return int(words[3])

    def await_end(self, job: int, limit_s: float) -> str:
        """Return the state in which a job ends, such as "COMPLETED".

        Raises
        ------
        TimeoutError
            If it does not end in time.
        """
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            state = self.state(job)
            if state not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED", ""):
                return state
            time.sleep(0.5)
        raise TimeoutError(f"job {job} is {self.state(job)} after {limit_s:g} s")

    def state(self, job: int) -> str:
        """Return the state of a job."""
        said = self.call(["scontrol", "show", "job", str(job)])
        states = [word.partition("=")[2] for word in said.split() if word.startswith("JobState=")]
        return states[0] if states else ""

    def variables(self, further: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command of Slurm.

        Parameters
        ----------
        further : variables to add.
        """
        own = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        return {**own, "SLURM_CONF": str(self._folder / "slurm.conf"), "PATH": _path(), **(further or {})}

    def close(self) -> None:
        """End the daemons and what they run. Closing twice is harmless."""
        if self._processes:
            self.call(["scancel", "--user=root", "--full", "--signal=KILL"], limit_s=20.0)
        for process in reversed(self._processes):
            end(process)
        self._processes = []

    def __enter__(self) -> Slurm:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _start(self) -> None:
        folder = self._folder
        for name in ("state", *(f"spool-{name}" for name in self.lab.names)):
            (folder / name).mkdir(exist_ok=True)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        ports = {"controller_port": _CONTROLLER_PORT, "node_port": _NODE_PORT}
        head = _CONFIGURATION.format(here=socket.gethostname(), address=self.lab.address(HERE), folder=folder, **ports)
        nodes = [
            f"NodeName={name} NodeHostname={name} NodeAddr={self.lab.address(name)} CPUs={self._cores} Feature={_FEATURES[place > 0]}"
            for place, name in enumerate(self.lab.names)
        ]
        partition = f"PartitionName=all Nodes={','.join(self.lab.names)} Default=YES MaxTime=INFINITE State=UP"
        (folder / "slurm.conf").write_text("\n".join([head, *nodes, partition, ""]))
        (folder / "cgroup.conf").write_text("IgnoreSystemd=yes\n")
        files = [f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")]
        self._run(["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}", *files])
        self._run(["slurmctld", "-D", "-i"])
        for name in self.lab.names:
            with self._out(f"slurmd-{name}") as out:
                streams = {"stdout": out, "stderr": subprocess.STDOUT}
                self._processes.append(self.lab.start(name, ["slurmd", "-D", "-N", name], env=self.variables(), **streams))
        end_s = time.monotonic() + _START_S
        while self.call(["sinfo", "-h", "-o", "%D %t"]).split() != [str(len(self.lab.names)), "idle"]:
            if time.monotonic() > end_s:
                raise TimeoutError(f"Slurm's nodes are not idle: {self.call(['sinfo', '-R', '-l'])}")
            time.sleep(0.2)

    def _run(self, command: Sequence[str]) -> None:
        with self._out(command[0]) as out:
            options: dict[str, Any] = {"env": self.variables(), "start_new_session": True}
            self._processes.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, **options))

    def _out(self, name: str) -> BinaryIO:
        return (self._folder / f"{name}.out").open("wb")


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
