"""What the sessions of noxfile.py leave becomes a table: by Python, from the lowest versions to the newest."""

from __future__ import annotations

import configparser
import json
import pathlib
from typing import Any

import pytest

from tools import versions

nox = pytest.importorskip("nox")  # which the sessions do not have themselves
noxfile = pytest.importorskip("noxfile")


def _left(session: str, failed: int = 0) -> dict[str, Any]:
    texts = {"session": session, "python": "3.10.1", "tensorflow": "2.16.1", "keras": "3.8.0", "numpy": "1.26.0", "scipy": "1.12.0"}
    return {**texts, "passed": 5, "skipped": 1, "failed": failed, "failed_tests": []}


def test_rows_come_by_python_and_only_pre_releases_may_fail(tmp_path: pathlib.Path) -> None:
    for session in ("next", "default-3.10", "lowest-3.11", "lowest-3.10"):
        (tmp_path / f"{session}.json").write_text(json.dumps(_left(session, failed=2)))
    rows = versions.rows(tmp_path)
    assert [row.texts["session"] for row in rows] == ["lowest-3.10", "default-3.10", "lowest-3.11", "next"]
    failed = next(column for column in versions.TABLE.columns if column.key == "failed")
    assert [row.misses(failed) for row in rows] == [True, True, True, False]


@pytest.mark.parametrize("python", noxfile.PYTHONS)
def test_the_lowest_versions_are_the_bounds_of_the_requirements(python: str) -> None:
    bounds = dict(bound.split("==") for bound in noxfile.lower_bounds(python))
    setup = configparser.ConfigParser()
    setup.read(pathlib.Path(noxfile.__file__).with_name("setup.cfg"))
    names = {line.partition(">")[0].partition("=")[0] for line in setup["options"]["install_requires"].split("\n") if line}
    assert set(bounds) == names - ({"tomli"} if python != "3.10" else set())
    assert bounds["tensorflow"] == ("2.20" if python == "3.13" else "2.16.1") and bounds["mesh-tensorflow"] == "0.1.21"


def test_every_python_has_versions_between_and_a_session_of_each_kind() -> None:
    assert set(noxfile.BETWEEN) == set(noxfile.PYTHONS) and nox.options.sessions == ["lowest", "between", "default", "package"]
