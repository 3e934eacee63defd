"""A profile as commands print it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import profile_warnings
from hetero_mtf.report.profile.facts import profile_facts
from hetero_mtf.report.profile.sections import profile_sections
from hetero_mtf.report.section import Section, sections_text


def profile_report(profile: Profile, what_if: Sequence[str] = ()) -> tuple[Section, ...]:
    """Return the sections of a profile: the speeds of its devices and links, and what they suggest.

    Parameters
    ----------
    what_if : hypothetical changes, for a profile that was changed.
    """
    return profile_sections(profile_facts(profile), profile_warnings(profile), what_if)


def profile_text(profile: Profile) -> str:
    """Return the sections of a profile for a terminal."""
    return sections_text(profile_report(profile))


def profile_json(profile: Profile) -> str:
    """Return the facts of a profile as JSON, for scripts."""
    return json.dumps(profile_facts(profile).to_json(), indent=1, allow_nan=False)
