"""The first line of a command, printed before it loads TensorFlow or SciPy, which takes seconds."""

from __future__ import annotations

import sys

import click

from hetero_mtf import __version__
from hetero_mtf.devices import environment
from hetero_mtf.devices.addresses import jobs_without_devices

_TASKS = {
    "local": "opening the devices of this machine",
    "tf_config": "connecting to the workers of TF_CONFIG",
    "slurm": "connecting to the workers of this Slurm job",
}


def print_start_line(cluster: str | None = None, task: str = "") -> None:
    """Print what a command does first, on the error stream, unless TensorFlow is loaded already and the command starts at once.

    Parameters
    ----------
    cluster : the option --cluster; None where the command opens no cluster.
    task : what the command does next, such as "serving on a:2222"; "" says nothing about it.
    """
    if "tensorflow" in sys.modules:
        return
    opening = "" if cluster is None else cluster_task(cluster, environment.variables().get("TF_CONFIG", ""))
    _print("loading TensorFlow", opening, task)


def print_planning_line(task: str) -> None:
    """Print what a command does that needs no TensorFlow, on the error stream, unless SciPy is loaded already and it starts at once.

    Parameters
    ----------
    task : such as "planning from profile.json".
    """
    if "scipy" not in sys.modules:
        _print(task)


def _print(*tasks: str) -> None:
    click.echo(f"hetero-mtf {__version__}: {', then '.join(task for task in tasks if task)}", err=True)


def cluster_task(cluster: str, tf_config: str = "") -> str:
    """Return what opening a cluster does, "" for a text that names none, which is refused when it is opened.

    Parameters
    ----------
    cluster : the option --cluster.
    tf_config : the text of TF_CONFIG, whose jobs other than "worker" are named as no devices.

    Examples
    --------
    >>> cluster_task("emulate:1.0,0.5")
    'starting 2 emulated workers'
    >>> cluster_task("hosts:a:2222")
    'connecting to 1 worker'
    """
    kind, _, rest = cluster.strip().partition(":")
    count = sum(bool(part.strip()) for part in rest.split(","))
    workers = f"{count} {'emulated ' if kind == 'emulate' else ''}worker{'s' if count != 1 else ''}"
    if count and kind in ("emulate", "hosts"):
        return f"{'starting' if kind == 'emulate' else 'connecting to'} {workers}"
    others = jobs_without_devices(tf_config) if kind == "tf_config" else ()
    return _TASKS.get(kind, "") + (f" (not to its {', '.join(others)})" if others else "")
