"""A profile as commands print it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from hetero_mtf.devices import ClusterRecord
from hetero_mtf.installed import installed_versions
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import PROGRAMS, age_text, profile_warnings
from hetero_mtf.report.profile.profile_facts import profile_facts
from hetero_mtf.report.profile.sections import profile_sections
from hetero_mtf.report.section import Section, sections_text


def profile_report(profile: Profile, what_if: Sequence[str] = ()) -> tuple[Section, ...]:
    """Return the sections of a profile: the speeds of its devices and links, and what they suggest.

    Parameters
    ----------
    what_if : hypothetical changes, for a profile that was changed.
    """
    return profile_sections(profile_facts(profile), profile_warnings(profile), what_if, age_text(profile))


def profile_text(profile: Profile) -> str:
    """Return the sections of a profile for a terminal."""
    return sections_text(profile_report(profile))


def profile_json(profile: Profile) -> str:
    """Return the facts of a profile as JSON, for scripts."""
    return json.dumps(profile_facts(profile).to_json(), indent=1, allow_nan=False)


def print_profile_warnings(profile: Profile, cluster: ClusterRecord | None = None) -> None:
    """Write each warning of a profile to stderr.

    Parameters
    ----------
    cluster : the devices that are there; None where only planning is asked for, then neither they nor the programs matter.
    """
    for warning in profile_warnings(profile, cluster, versions=installed_versions(PROGRAMS) if cluster is not None else None):
        click.echo(f"hetero-mtf: warning: {warning}", err=True)
