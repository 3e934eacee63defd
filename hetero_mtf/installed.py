"""Which programs are installed here, by their packages."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable


def installed_versions(names: Iterable[str]) -> dict[str, str]:
    """Return package -> version of those that are installed.

    Parameters
    ----------
    names : packages, as an installer knows them.

    Examples
    --------
    >>> installed_versions(["there-is-no-such-package"])
    {}
    """
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
