"""The environment of this process and of its children."""

import os
import pathlib
import subprocess
import sys

import pytest

import hetero_mtf
from hetero_mtf.devices import environment


def test_variables_are_a_copy(monkeypatch):
    monkeypatch.setenv("HETERO_TEST", "1")
    found = environment.variables()
    monkeypatch.delenv("HETERO_TEST")
    assert found["HETERO_TEST"] == "1"


@pytest.mark.parametrize(
    ("given", "wanted"), [({}, "a,::1"), ({"no_proxy": "x, a"}, "x,a,::1"), ({"no_grpc_proxy": "y", "no_proxy": "x"}, "y,a,::1")]
)
def test_a_proxy_is_passed_by_for_the_servers(monkeypatch, given, wanted):
    monkeypatch.setattr(os, "environ", {"http_proxy": "http://proxy:1", **given})
    environment.bypass_proxy(["a:1", "a:2", "[::1]:3"])
    assert os.environ["no_grpc_proxy"] == wanted


def test_without_a_proxy_nothing_is_set(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    environment.bypass_proxy(["a:1"])
    assert os.environ == {}


def test_a_child_finds_this_package_first_and_keeps_the_rest(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    changed = environment.child_variables({"HETERO_TEST": "2"})
    root = str(pathlib.Path(hetero_mtf.__path__[0]).resolve().parent)
    assert changed["PYTHONPATH"] == os.pathsep.join([root, str(tmp_path)]) and changed["HETERO_TEST"] == "2"
    command = [sys.executable, "-c", "import hetero_mtf; print(hetero_mtf.__path__[0])"]
    assert subprocess.run(command, env=changed, cwd=tmp_path, capture_output=True, text=True).stdout.strip().startswith(root)


def test_a_child_computes_with_onednn_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    assert environment.child_variables({})["TF_ENABLE_ONEDNN_OPTS"] == "1"
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert environment.child_variables({})["TF_ENABLE_ONEDNN_OPTS"] == "0"


def test_a_process_is_executed_again_with_what_has_to_be_set_when_it_starts():
    program = """
import os, sys
from hetero_mtf.devices.environment import execute_with
os.environ["TIMES"] = str(int(os.environ.get("TIMES", "0")) + 1)
execute_with({"HETERO_ONE": "1", "HETERO_OWN": "2"})
print(os.environ["HETERO_ONE"], os.environ["HETERO_OWN"], os.environ["TIMES"], *sys.argv[1:])
"""
    given = {**environment.child_variables({}), "HETERO_OWN": "of the user"}
    ended = subprocess.run([sys.executable, "-c", program, "a b"], env=given, capture_output=True, text=True)
    assert ended.stdout == "1 of the user 2 a b\n", ended.stderr
