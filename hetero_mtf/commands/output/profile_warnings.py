"""Doubts about a profile, told on the terminal before it is planned from."""

from __future__ import annotations

import importlib.metadata

import click

from hetero_mtf.devices import ClusterRecord
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import PROGRAMS, profile_warnings


def print_profile_warnings(profile: Profile, cluster: ClusterRecord | None = None) -> None:
    """Write each reason to doubt a profile to stderr, as a warning.

    Parameters
    ----------
    profile : Profile.
    cluster : the devices that are there; None where only planning is asked for, then neither they nor the programs matter.
    """
    for doubt in profile_warnings(profile, cluster, versions=_versions() if cluster is not None else None):
        click.echo(f"hetero-mtf: warning: {doubt}", err=True)


def _versions() -> dict[str, str]:
    """Return the versions of the programs that are installed here."""
    found = {}
    for name in PROGRAMS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
