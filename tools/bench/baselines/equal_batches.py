"""The baselines: other libraries' data parallelism, a process a device with its part of the batch, under the same limits."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hetero_mtf.devices.records import LIMITS
from hetero_mtf.errors import HeteroError
from hetero_mtf.planning.solvers.apportionment import proportional
from tools.bench.baselines.limited import LimitedWorkers, Places
from tools.bench.baselines.tasks import Trained

MIRRORED, DDP = "MultiWorkerMirroredStrategy", "DistributedDataParallel"
UNEQUAL_DDP = f"{DDP}, unequal by hand"
NO_TORCH = f"{DDP} was left out: name a Python with torch by `--torch-python`."


class Baseline(NamedTuple):
    """A baseline: its Python, its script with further words of the command, and the samples of each device."""

    name: str
    python: str
    words: tuple[str, ...]
    samples: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Baselines:
    """What the baselines train, and where.

    Parameters
    ----------
    trained : the network.
    shares : (devices,) share of a core of each.
    batch : samples per step of all devices together.
    torch_python : a Python with torch, or None to leave PyTorch out.
    limit : what the shares limit, as `Cluster.emulate`.
    method : how emulated devices are limited, as `Cluster.method`, which the baselines then have to be too; None leaves it to them.
    unequal : (devices,) speed of each; with it `UNEQUAL_DDP` takes part, with samples in proportion and losses weighted by hand.
    places : where the processes run; None for here.
    """

    trained: Trained
    shares: Sequence[float]
    batch: int
    torch_python: str | None
    limit: str = LIMITS[0]
    method: str | None = None
    unequal: Sequence[float] | None = None
    places: Places | None = None

    def chosen(self) -> Iterator[Baseline]:
        """Yield the baselines that take part."""
        equal = proportional(self.batch, [1.0] * len(self.shares)).sizes
        network = json.dumps(dataclasses.asdict(self.trained))
        if self.places is None:
            yield Baseline(MIRRORED, sys.executable, ("mirrored_worker.py", network), equal)
        if self.torch_python is not None:
            python, script = os.path.expanduser(self.torch_python), "distributed_data_parallel.py"
            yield Baseline(DDP, python, (script, network), equal)
            if self.unequal is not None:
                yield Baseline(UNEQUAL_DDP, python, (script, network, "weighted"), proportional(self.batch, self.unequal).sizes)

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
        steps = {}
        method = self.method and self.method.partition(",")[0]
        for number, (name, python, words, samples) in enumerate(self.chosen()):
            places = None if self.places is None else self.places.beside(number)
            workers = LimitedWorkers((python, *words), self.shares, samples, method, limit=self.limit, places=places)
            stack.callback(workers.close)
            if workers.weights != self.trained.weights:
                there = f"{name} trains {workers.weights} weights of {self.trained.network} and this project {self.trained.weights}"
                raise HeteroError(f"{there}", "make them one network")
            steps[name] = workers.step
        return steps
