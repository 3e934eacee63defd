"""The first line of a command that loads TensorFlow, which takes seconds in which nothing else is printed."""

from __future__ import annotations

import sys

import click

from hetero_mtf import __version__

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
    task : what the command does next, such as "reading scans"; "" says nothing about it.
    """
    if "tensorflow" in sys.modules:
        return
    texts = ["loading TensorFlow", *([] if cluster is None else [cluster_task(cluster)]), *([task] if task else [])]
    click.echo(f"hetero-mtf {__version__}: {', then '.join(text for text in texts if text)}", err=True)


def cluster_task(cluster: str) -> str:
    """Return what opening a cluster does, "" for a text that names none, which is refused when it is opened.

    Parameters
    ----------
    cluster : the option --cluster.

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
    return _TASKS.get(kind, "")
