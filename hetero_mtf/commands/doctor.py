"""`hetero-mtf doctor`: whether this installation works on this machine, and whether a second device makes it faster."""

from __future__ import annotations

import click

from hetero_mtf.commands.command_files import doctor_files
from hetero_mtf.commands.options.shared import cluster_option
from hetero_mtf.commands.process.files import check_files
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.process.start_line import print_start_line


@click.command()
@cluster_option
@click.option("--full", is_flag=True, help="Try every pair of devices and a larger network too, up to fifteen minutes.")
@click.option("--json", "json_file", metavar="FILE", help="A file to write for others, without names of hosts, users or folders.")
@click.option("--html", metavar="FILE", help="A page to write: the same findings in one file.")
def command(cluster: str, full: bool, json_file: str | None, html: str | None) -> None:
    """Look whether everything works on this machine, in about two minutes, and whether a second device makes training faster.

    Versions and GPUs, devices and links, a split network against one device, steps beside Keras's fit, a plan with its predicted and
    measured step, memory. Where there is one device only, two emulated ones stand in for a second. The exit code is 1 where anything
    is at fault.
    """
    check_files(doctor_files(json_file, html))
    print_start_line(None if cluster == "local" else cluster)
    load_tensorflow()
    from hetero_mtf.commands.runs.doctor import doctor  # needs TensorFlow, which is loaded quietly by now

    doctor(cluster, full, json_file, html)
