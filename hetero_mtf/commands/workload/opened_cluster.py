"""The cluster that --cluster names."""

from __future__ import annotations

import click

from hetero_mtf.commands.options.shared import used_timeout
from hetero_mtf.runtime.cluster import Cluster


def open_cluster(text: str) -> Cluster:
    """Return the cluster that --cluster names, with the limit of --worker-timeout.

    Parameters
    ----------
    text : as in `Cluster.parse`, whose errors are raised.
    """
    context = click.get_current_context(silent=True)
    timeout_s = None if context is None else used_timeout(context)
    return Cluster.parse(text) if timeout_s is None else Cluster.parse(text, timeout_s)
