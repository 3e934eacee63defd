"""Warnings of a profile, printed before a plan is made from it."""

from __future__ import annotations

import importlib.metadata

import click

from hetero_mtf.devices import ClusterRecord
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import PROGRAMS, profile_warnings


def print_profile_warnings(profile: Profile, cluster: ClusterRecord | None = None) -> None:
    """Write each warning of a profile to stderr.

    Parameters
    ----------
    cluster : the devices that are there; None where only planning is asked for, then neither they nor the programs matter.
    """
    for warning in profile_warnings(profile, cluster, versions=_versions() if cluster is not None else None):
        click.echo(f"hetero-mtf: warning: {warning}", err=True)


def _versions() -> dict[str, str]:
    """Return the versions of the programs that are installed here."""
    versions = {}
    for name in PROGRAMS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
