"""The baselines: other libraries' data parallelism, a process a device with an equal part of the batch, under the same limits."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence

from hetero_mtf.devices.records import LIMITS
from hetero_mtf.errors import HeteroError
from hetero_mtf.planning.solvers.apportionment import proportional
from tools.bench.baselines.limited import LimitedWorkers

MIRRORED, DDP = "MultiWorkerMirroredStrategy", "DistributedDataParallel"
NO_TORCH = f"{DDP} was left out: name a Python with torch by `--torch-python`."


@dataclasses.dataclass(frozen=True)
class Baselines:
    """What the baselines train, and where.

    Parameters
    ----------
    network : "resnet18" or "vgg8".
    weights : its trainable weights, to see that they train the same network.
    shares : (devices,) share of a core of each.
    batch : samples per step of all devices together.
    torch_python : a Python with torch, or None to leave PyTorch out.
    limit : what the shares limit, as `Cluster.emulate`.
    """

    network: str
    weights: int
    shares: Sequence[float]
    batch: int
    torch_python: str | None
    limit: str = LIMITS[0]

    def start(self, stack: contextlib.ExitStack) -> dict[str, Callable[[], float]]:
        """Return name -> function that takes a step, of each baseline; their processes end with the stack.

        Parameters
        ----------
        stack : what ends them.

        Raises
        ------
        HeteroError
            If one of them has another number of trainable weights, or does not start.
        """
        samples = proportional(self.batch, [1.0] * len(self.shares)).sizes
        steps = {}
        for name, python, script in (
            (MIRRORED, sys.executable, "mirrored_worker.py"),
            (DDP, self.torch_python, "distributed_data_parallel.py"),
        ):
            if python is None:
                continue
            workers = LimitedWorkers((os.path.expanduser(python), script, self.network), self.shares, samples, limit=self.limit)
            stack.callback(workers.close)
            if workers.weights != self.weights:
                there = f"{name} trains {workers.weights} weights of {self.network} and this project {self.weights}"
                raise HeteroError(f"{there}; make them one network")
            steps[name] = workers.step
        return steps
