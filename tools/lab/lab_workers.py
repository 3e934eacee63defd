"""Workers on the hosts of a `Lab`, each pinned to a core of this machine and limited to a share of it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from hetero_mtf.runtime.limits.cgroup import CpuGroup, parent_folder
from tools.lab.namespaces import Lab, await_text

PORT = 2222
_START_S = 120.0
_ROOT = pathlib.Path(__file__).resolve().parents[2]


@contextlib.contextmanager
def limited_workers(lab: Lab, shares: Sequence[float], options: Sequence[str] = (), port: int = PORT) -> Iterator[list[str]]:
    """Run a worker on every host; yield "HOST:PORT" of each.

    Parameters
    ----------
    lab : with one host for each share.
    shares : of a core, each of another core.
    options : further ones of `hetero-mtf worker`.
    port : of each worker.

    Raises
    ------
    OSError
        If no control group can be made.
    """
    found = parent_folder()
    if found is None:
        raise OSError("no control group can be made here")
    hosts = [f"{lab.address(name)}:{port}" for name in lab.names]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        files = []
        for place, (name, share) in enumerate(zip(lab.names, shares, strict=True)):
            group = CpuGroup.make(*found, port + place)
            stack.callback(group.remove)
            group.set_share(share)
            file = pathlib.Path(folder, name)
            core = sorted(os.sched_getaffinity(0))[place]
            command = ["taskset", "--cpu-list", str(core), sys.executable, "-m", "hetero_mtf", "worker", "--allow-root", *options]
            with file.open("wb") as out:
                process = lab.start(
                    name,
                    [*command, "--hosts", ",".join(hosts), "--index", str(place)],
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                    cwd=_ROOT,
                )
            files.append((file, group, process.pid))
        for file, group, process_id in files:
            await_text(file, "serves on", _START_S)
            group.add(process_id)
        stack.callback(lab.end_processes)
        yield hosts
