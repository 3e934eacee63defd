"""The notebook runs from its first cell to its last, is kept without outputs, and leaves no process behind."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import pytest

from hetero_mtf.training import plan_choice

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"


def _cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def processes_of(folder: pathlib.Path) -> list[int]:
    """Return the processes that live with a cache in a folder: those of a test, and whatever they started."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{plan_choice.CACHE}={folder}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # ended meanwhile, or of another user
            continue
    return found


def left_over(folder: pathlib.Path, limit_s: float = 15.0) -> list[int]:
    """Return the processes that do not end by themselves within a time."""
    end_s = time.monotonic() + limit_s
    while (living := processes_of(folder)) and time.monotonic() < end_s:
        time.sleep(0.2)
    return living


def test_the_notebook_is_kept_without_outputs() -> None:
    """They are of one machine and change with each run; a reader sees his own."""
    document = json.loads(NOTEBOOK.read_text())
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in _cells(document))
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])


def test_the_notebook_is_linked_from_the_first_pages() -> None:
    for page in ("README.md", "docs/index.md", "docs/quickstart.md"):
        assert "quickstart.ipynb" in (ROOT / page).read_text(), page


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("closed", [True, False], ids=["as it is", "never closed"])
def test_the_notebook_runs_and_its_workers_end_with_the_kernel(closed: bool, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    document = json.loads(NOTEBOOK.read_text())
    if not closed:
        assert "close()" in "".join(document["cells"].pop()["source"])
    (tmp_path / "notebook.ipynb").write_text(json.dumps(document))
    own = {"HOME": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "IPYTHONDIR": str(tmp_path / "ipython")}
    environment = {**os.environ, **own, plan_choice.CACHE: str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "notebook.ipynb", "--output", "run.ipynb"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert left_over(tmp_path / "cache") == []
    cells = _cells(json.loads((tmp_path / "run.ipynb").read_text()))
    outputs = ["".join(_text(output) for output in cell["outputs"]) for cell in cells]
    fitted, scores, plan, placed, difference = outputs[3:8]
    assert "Epoch 3/3" in fitted and fitted.count("\n") < 200 and "hetero_mtf: training begins with strategy " in fitted
    assert (
        scores.splitlines()[-1].startswith("[0.")
        and "layer" in plan
        and "logits/kernel: worker:" in placed
        and float(difference.split("(")[-1].rstrip(")")) < 1e-4
    )
    assert (tmp_path / "digits.keras").is_file()


def _text(output: dict[str, Any]) -> str:
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", ""))
