"""The environment of this process and of its children."""

import os
import pathlib
import subprocess
import sys

import hetero_mtf
from hetero_mtf.devices import environment


def test_variables_are_a_copy(monkeypatch):
    monkeypatch.setenv("HETERO_TEST", "1")
    found = environment.variables()
    monkeypatch.delenv("HETERO_TEST")
    assert found["HETERO_TEST"] == "1"


def test_a_child_finds_this_package_first_and_keeps_the_rest(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    changed = environment.child_variables({"HETERO_TEST": "2"})
    root = str(pathlib.Path(hetero_mtf.__path__[0]).resolve().parent)
    assert changed["PYTHONPATH"] == os.pathsep.join([root, str(tmp_path)]) and changed["HETERO_TEST"] == "2"
    command = [sys.executable, "-c", "import hetero_mtf; print(hetero_mtf.__path__[0])"]
    assert subprocess.run(command, env=changed, cwd=tmp_path, capture_output=True, text=True).stdout.strip().startswith(root)
