"""The cluster that --cluster names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import click

from hetero_mtf.commands.options.shared import used_spare, used_timeout, used_wait
from hetero_mtf.runtime.cluster import Cluster


def open_cluster(text: str) -> Cluster:
    """Return the cluster that --cluster names, with --worker-timeout, --wait and --spare.

    Parameters
    ----------
    text : as in `Cluster.parse`, whose errors are raised.
    """
    context = click.get_current_context(silent=True)
    given: dict[str, Any] = {}
    if context is not None:
        given = {"worker_timeout_s": used_timeout(context), "wait_s": used_wait(context), "spare": used_spare(context)}
    return Cluster.parse(text, **{name: value for name, value in given.items() if value is not None})


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
