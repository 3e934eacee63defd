"""Versions of TensorFlow and Keras: too old ones are refused, newer ones than were tested are named once."""

from __future__ import annotations

import warnings

import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.mesh import framework_versions
from hetero_mtf.mesh.framework_versions import NEWEST_TESTED, OLDEST, UntestedVersionWarning, check_frameworks, check_versions


def test_the_oldest_and_the_newest_that_were_tested_are_taken_without_a_word() -> None:
    for versions in (OLDEST, NEWEST_TESTED):
        check_versions({name: f"{major}.{minor}.1" for name, (major, minor) in versions.items()})


def test_an_older_one_is_refused_with_what_to_install() -> None:
    with pytest.raises(UnsupportedError, match=r'Keras 3\.7\.0 is older than 3\.8.*pip install "keras>=3\.8"'):
        check_versions({"TensorFlow": "2.18.1", "Keras": "3.7.0"})
    with pytest.raises(UnsupportedError, match=r'TensorFlow 2\.15\.1 .* and Keras 2\.15\.0 .*"tensorflow>=2\.16" "keras>=3\.8"'):
        check_versions({"TensorFlow": "2.15.1", "Keras": "2.15.0"})


def test_a_newer_one_is_named_and_no_refusal() -> None:
    for version in ("3.16.0", "3.16.0.dev2026110103", "4.0"):
        with pytest.warns(UntestedVersionWarning, match=rf"^Keras {version} is newer than 3\.15"):
            check_versions({"TensorFlow": "2.21.0", "Keras": version})
    with pytest.warns(UntestedVersionWarning, match=r"^TensorFlow 2\.22\.0-rc0 is newer than 2\.21"):
        check_versions({"TensorFlow": "2.22.0-rc0", "Keras": "3.15.1"})


def test_it_is_said_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework_versions, "NEWEST_TESTED", {"TensorFlow": (9, 0), "Keras": (3, 0)})
    check_frameworks.cache_clear()
    with pytest.warns(UntestedVersionWarning, match="Keras"):
        check_frameworks()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_frameworks()
    check_frameworks.cache_clear()
