"""`hetero-mtf worker`: one server of a cluster of several machines."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

import click

from hetero_mtf.commands.options.shared import FiniteRange
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.process.served import check_served
from hetero_mtf.commands.process.start_line import print_start_line
from hetero_mtf.devices import environment
from hetero_mtf.devices.address_forms import split
from hetero_mtf.devices.addresses import Addresses, parse_hosts, parse_tf_config
from hetero_mtf.devices.slurm import parse_slurm
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.ports import await_names


@click.command()
@click.option("--hosts", metavar="HOST:PORT,...", help="All servers, the same list in every worker.  [default: TF_CONFIG, or Slurm's job]")
@click.option("--index", type=click.IntRange(0), help="Which of the servers this is, from 0.  [default: that of TF_CONFIG or Slurm]")
@click.option("--port", type=click.IntRange(1, 65535), help="The port of hosts that are written without one.")
@click.option("--allow", multiple=True, metavar="ADDRESS|NETWORK", help="Close the ports to all but these and the hosts.")
@click.option("--wait", type=FiniteRange(0), default=30.0, metavar="SECONDS", help="Time to wait until its own name is known.")
@click.option("--open", "open_to_all", is_flag=True, help="Serve at an address of the public internet.")
@click.option("--allow-root", is_flag=True, help="Serve as root.")
@click.option("--memory-first", is_flag=True, help="Take less memory for large tensors on CPUs, and 10 to 25 % more time.")
def command(
    hosts: str | None,
    index: int | None,
    port: int | None,
    allow: tuple[str, ...],
    wait: float,
    open_to_all: bool,
    allow_root: bool,
    memory_first: bool,
) -> None:
    """Serve this machine's devices to one training program at a time until interrupted.

    The program reserves the worker on a second port: 20000 plus the last four digits of the worker's own port. When the program is
    killed, the worker starts afresh in the same process.

    The server listens on every interface and has no authentication: run it in trusted networks only, or let it close its ports with
    --allow, which needs nft and the right to write its rules. Ended by SIGTERM, it first waits up to 20 s for the program that uses it.
    """
    _check_port(hosts, port)
    if memory_first:
        environment.execute_with(environment.MEMORY_FIRST)
    addresses = _addresses(hosts, port, environment.variables(), numbered=index is not None)
    task = addresses.task if index is None else index
    if task is None:
        remedy = "add --index, or in a Slurm job start it with srun"
        raise ClusterError(f"the index of this worker among {', '.join(addresses.hosts)} is unknown", remedy)
    if task < len(addresses.hosts):
        await_names(addresses.hosts if allow else addresses.hosts[task : task + 1], wait)
        check_served(addresses.hosts[task], open_to_all, allow_root)
    print_start_line(task=f"serving on {addresses.hosts[task]}" if task < len(addresses.hosts) else "")
    load_tensorflow()
    from hetero_mtf.runtime.worker import serve  # loads NumPy, which no help text waits for

    try:
        said = f"worker {task} serves on {addresses.hosts[task]}; interrupt it to end it"
        serve(addresses.hosts, task, ready=lambda: click.echo(said), allowed=allow or None)
    except KeyboardInterrupt as stop:
        click.echo("hetero-mtf: interrupted", err=True)
        os._exit(128 + getattr(stop, "number", signal.SIGINT))  # TensorFlow's server cannot be stopped, only left


def _check_port(hosts: str | None, port: int | None) -> None:
    """Refuse a port that no host gets."""
    if port is None:
        return
    if hosts is None:
        raise click.UsageError("--port goes with --hosts; TF_CONFIG and a Slurm job have ports of their own")
    if all(_has_port(part) for part in _listed(hosts)):
        raise click.UsageError(f"--port {port} is for hosts without a port, and each of {hosts} has one; leave out one or the other")


def _listed(hosts: str) -> list[str]:
    return [part.strip() for part in hosts.split(",") if part.strip()]


def _has_port(host: str) -> bool:
    return split(host)[0] != host


def _addresses(hosts: str | None, port: int | None, variables: Mapping[str, str], numbered: bool = False) -> Addresses:
    """Return where the servers listen; a worker that is `numbered` by --index need not be the task that TF_CONFIG names."""
    if hosts is not None:
        return parse_hosts([host if port is None or _has_port(host) else f"{host}:{port}" for host in _listed(hosts)])
    if variables.get("TF_CONFIG"):
        return parse_tf_config(variables["TF_CONFIG"], worker=not numbered)
    if variables.get("SLURM_JOB_ID") or variables.get("SLURM_JOBID"):
        return parse_slurm(variables, worker=True)
    raise ClusterError("no servers are named: neither --hosts nor TF_CONFIG nor a Slurm job", "add --hosts HOST:PORT,... and --index")
