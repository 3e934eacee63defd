"""The cluster that --cluster names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from hetero_mtf.commands.options.shared import LIMITS, used_limits
from hetero_mtf.runtime.cluster import Cluster


def open_cluster(text: str) -> Cluster:
    """Return the cluster that --cluster names, with --worker-timeout, --wait and --spare.

    Parameters
    ----------
    text : as in `Cluster.parse`, whose errors are raised.
    """
    context = click.get_current_context(silent=True)
    given = {} if context is None else used_limits(context)
    return Cluster.parse(text, **{LIMITS[name]: value for name, value in given.items() if value is not None})


@contextlib.contextmanager
def started_cluster(text: str) -> Iterator[Cluster | None]:
    """Yield the cluster that --cluster names where its workers can start while the program loads TensorFlow, else None.

    That is one of emulated devices, which is closed at the end of the block at the latest; others are reached when they are needed.

    Parameters
    ----------
    text : as for `open_cluster`.
    """
    if not text.strip().startswith("emulate:"):
        yield None
        return
    with open_cluster(text) as live:
        yield live
