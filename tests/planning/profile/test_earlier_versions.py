from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.profile.earlier_versions import optimizer_of_text
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import pair_net, profile_of

RENAMED = {"launch_s": "call_s", "measured_at": "made"}
PROFILE = dataclasses.replace(profile_of(pair_net(), [1e6, 5e5]), launch_s=0.25)


def _document(version: int, optimizer: Any) -> dict[str, Any]:
    names = RENAMED if version == 1 else {}
    document = {names.get(key, key): value for key, value in PROFILE.to_json().items()}
    return {**document, "version": version, "optimizer": optimizer}


@pytest.mark.parametrize("version", [1, 2])
def test_a_profile_of_an_earlier_version_is_read(version: int, tmp_path: pathlib.Path) -> None:
    (tmp_path / "profile.json").write_text(json.dumps(_document(version, "sgd(momentum=0.9)")))
    assert Profile.load(tmp_path / "profile.json") == PROFILE


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("sgd", OptimizerSpec("sgd")),
        ("SGD", OptimizerSpec("sgd")),
        ("sgd(momentum=1e-05)", OptimizerSpec("sgd", momentum=1e-5)),
        ("rmsprop(momentum=1)", OptimizerSpec("rmsprop", momentum=1.0)),
        ("adam(amsgrad=True)", OptimizerSpec("adam", amsgrad=True)),
        ("schedulefreeadamw", OptimizerSpec("schedulefreeadamw")),
        ("adam(0.001)", OptimizerSpec("adam")),
        ("", OptimizerSpec("")),
    ],
)
def test_the_text_of_an_optimizer_becomes_its_record(text: str, spec: OptimizerSpec) -> None:
    assert optimizer_of_text(text) == spec


@given(st.from_regex(r"[a-z]+", fullmatch=True), st.floats(0, 1).map(lambda value: float(f"{value:g}")))
def test_the_record_of_a_text_has_that_text(name: str, momentum: float) -> None:
    spec = OptimizerSpec(name, momentum=momentum)
    assert optimizer_of_text(str(spec)) == spec


@given(st.text())
def test_every_text_becomes_a_record(text: str) -> None:
    assert isinstance(optimizer_of_text(text), OptimizerSpec)


@pytest.mark.parametrize(("version", "optimizer"), [(2, 3), (2, None), (3, "sgd")])
def test_what_is_no_optimizer_of_its_version_is_refused(version: int, optimizer: Any) -> None:
    with pytest.raises(ProfileError, match="1 fault: optimizer: .*; calibrate again"):
        Profile.from_json(_document(version, optimizer))
