"""What `hetero-mtf calibrate` does: reads the earlier profile before TensorFlow is loaded, measures, and shows the new one."""

from __future__ import annotations

import click

from hetero_mtf.commands.options.requests import CalibrateRequest
from hetero_mtf.commands.options.shared import arguments
from hetero_mtf.commands.output.profile_report import profile_json, profile_text
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.commands.workload.model_source import check_model
from hetero_mtf.commands.workload.opened_cluster import started_cluster
from hetero_mtf.planning.profile.profile import Profile


def calibrate(request: CalibrateRequest) -> None:
    """Write the profile of a cluster for a model, and show it.

    Parameters
    ----------
    request : the options of the command.

    Raises
    ------
    HeteroError
        If a file cannot be read or written, or the model or cluster cannot be measured.
    """
    earlier = None if request.reuse is None else Profile.load(request.reuse)
    request.optimizer_choice  # raises where options exclude each other
    check_model(request.model, arguments(request.model_arguments))
    with started_cluster(request.cluster) as started:
        load_tensorflow()
        from hetero_mtf.commands.runs.measured_profile import measured_profile  # needs TensorFlow, which is loaded quietly by now

        profile = measured_profile(request, earlier, started)
    profile.save(request.output)
    if request.as_json:
        click.echo(profile_json(profile))
        return
    click.echo(f"{profile_text(profile)}\n\nwritten to {request.output}")
