"""Hosts as network namespaces, with workers on them, for `make test-hosts`; where there can be none, a sentence says why."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tools.lab import namespaces, slurm
from tools.lab.namespaces import HERE, Lab, await_text, end

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "hetero_mtf"]
START_S = 120.0


@pytest.fixture
def lab():
    """Two hosts, alpha and beta."""
    why = namespaces.missing()
    if why:
        pytest.skip(f"there can be no hosts here: {why}")
    with Lab(["alpha", "beta"]) as made:
        yield made


@pytest.fixture
def slurm_jobs(tmp_path):
    """A Slurm on three hosts, alpha, beta and gamma."""
    why = namespaces.missing() or slurm.missing()
    if why:
        pytest.skip(f"there can be no Slurm here: {why}")
    tmp_path.chmod(0o755)
    with Lab(["alpha", "beta", "gamma"]) as made, slurm.Slurm(made, tmp_path / "slurm") as jobs:
        yield jobs


class Workers:
    """Workers on hosts, and a program on this machine that trains on them.

    Parameters
    ----------
    lab : with its hosts.
    folder : for files.
    """

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.hosts = [f"{lab.address(name)}:2222" for name in lab.names]
        self.variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.processes = [self._start(place, name) for place, name in enumerate(lab.names)]
        for name in lab.names:
            await_text(self.said(name), "serves on", START_S)

    def said(self, name):
        """Return the file with what a worker has said."""
        return self.folder / f"{name}.out"

    def _start(self, place, name):
        command = [*COMMAND, "worker", "--hosts", ",".join(self.hosts), "--index", str(place), "--allow-root"]
        with self.said(name).open("wb") as out:
            return self.lab.start(name, command, stdout=out, stderr=subprocess.STDOUT, env=self.variables, cwd=ROOT)

    def plan(self, strategy="filters"):
        """Write the plan of a network over both hosts, and return its file."""
        file = self.folder / "plan.json"
        code = f"""
import hetero_mtf as hm
from models.digits import wide_digits
with hm.Cluster.hosts({self.hosts!r}) as cluster:
    hm.Plan.{strategy}(wide_digits(), [1, 1], cluster, 64).save({str(file)!r})
"""
        subprocess.run([sys.executable, "-c", code], check=True, env=self.variables, cwd=ROOT, capture_output=True, timeout=START_S)
        return file

    def train(self, *options, plan=None):
        """Start a training without end that saves every 20 steps; return it once it has saved."""
        state = self.folder / "state.npz"
        given = ["--plan", str(plan or self.plan()), "--epochs", "1000", "--save", str(state), "--save-every", "20"]
        command = [*COMMAND, "train", "--cluster", f"hosts:{','.join(self.hosts)}", "--model", "models/digits.py:wide_digits"]
        with (self.folder / "train.out").open("wb") as out:
            whole = [*command, "--data", "digits", *given, *options]
            process = subprocess.Popen(whole, stdout=out, stderr=subprocess.STDOUT, env=self.variables, cwd=ROOT)
        self.lab._processes.append(process)
        for _ in range(int(START_S * 5)):
            if state.exists():
                return process
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(self.output)
        raise AssertionError(f"nothing was saved: {self.output}")

    @property
    def output(self):
        """What the training has said."""
        return (self.folder / "train.out").read_text(errors="replace")


@pytest.fixture
def workers(lab, tmp_path):
    """Workers on alpha and beta."""
    return Workers(lab, tmp_path)


__all__ = ["HERE", "end"]
