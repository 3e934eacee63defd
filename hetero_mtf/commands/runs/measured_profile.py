"""The profile that `hetero-mtf calibrate` measures; imported after TensorFlow is."""

from __future__ import annotations

from hetero_mtf.commands.options.requests import CalibrateRequest
from hetero_mtf.commands.options.shared import arguments
from hetero_mtf.commands.output.profile_report import print_profile_warnings
from hetero_mtf.commands.workload.first_plan import measure
from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.commands.workload.opened_cluster import open_cluster
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.runtime.cluster import Cluster


def measured_profile(request: CalibrateRequest, earlier: Profile | None, started: Cluster | None = None) -> Profile:
    """Return the profile of the model on the cluster.

    Parameters
    ----------
    request : the options of the command.
    earlier : a profile, of which what still holds is kept.
    started : the cluster, where it was opened before; None opens it.

    Raises
    ------
    HeteroError
        If the model cannot be made, or the cluster cannot be opened.
    """
    network = load_model(request.model, arguments(request.model_arguments), request.precision)
    with started or open_cluster(request.cluster) as live:
        if earlier is not None:
            print_profile_warnings(earlier, live.record)
        return measure(live, network, request.batch_size, request.optimizer_choice, request.budget, earlier)
