"""The shell commands of the README and of each page exist with the options shown, and run."""

from __future__ import annotations

import pathlib
import re
import shutil

import numpy as np
import pytest

from tests.docs.pages import ROOT, Page, pages
from tests.docs.reduced import faults, reduced, run

_WITH_COMMANDS = [page for page in pages() if page.commands()]
_MODEL = "--model models/digits.py:wide_digits"
_EARLIER = (  # what a reader of a later page has run before, and the files that are left
    f"hetero-mtf calibrate --cluster emulate:1.0,0.5 {_MODEL} -o profile.json",
    "hetero-mtf plan profile.json -o plan.json",
    f"hetero-mtf train --cluster emulate:1.0,0.5 {_MODEL} --data digits --plan plan.json --measured measured.json --save state.npz",
)


def own_files(page: Page) -> list[str]:
    """Return the files that a page tells its reader to write: blocks of Python that begin with `# NAME.py`."""
    firsts = [block.text.partition("\n")[0] for block in page.blocks("python")]
    return [first[2:] for first in firsts if first.startswith("# ") and first.endswith(".py")]


@pytest.mark.fast("docs/mri.md", "docs/training.md")
@pytest.mark.parametrize("page", _WITH_COMMANDS, ids=lambda page: page.name)
def test_the_commands_of_a_page_parse(page: Page) -> None:
    wrong = {line: faults(line, own_files(page)) for line in page.commands()}
    assert {line: found for line, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    "line, fault",
    [
        ("hetero-mtf plan profile.json --no-such-option 1", "no-such-option"),
        ("hetero-mtf trian", "trian"),
        ("srun hetero-mtf worker --no-such-option &", "no-such-option"),
        ("hetero-mtf calibrate --model models/gone.py:network", "models/gone.py"),
        ("hetero-mtf calibrate --model hetero_mtf.models.digits:gone", "gone"),
        ("hetero-mtf train --model own.py:network", "--data"),
        ("make no-such-target", "no-such-target"),
        ("python -m tools.gone", "tools.gone"),
        ("frobnicate", "frobnicate"),
    ],
)
def test_a_command_that_does_not_exist_is_reported(line: str, fault: str) -> None:
    assert fault in " ".join(faults(line))
    assert faults("hetero-mtf calibrate --model own.py:network", ["own.py"]) == []


def test_a_reduced_command_does_less_and_servers_are_not_run() -> None:
    assert reduced("hetero-mtf train --data synthetic:32x32x3:10:512 --model a.py:b --epochs 9") == (
        "hetero-mtf train --data synthetic:8x8x1:10:128 --model a.py:b --epochs 1"
    )
    assert (reduced("hetero-mtf train --model a.py:b --measure first --epochs 1") or "").endswith("--epochs 1 --budget 4")
    assert reduced("hetero-mtf calibrate --model a.py:b --batch-size 128 --budget 60") == (
        "hetero-mtf calibrate --model a.py:b --batch-size 32 --budget 4"
    )
    assert reduced("hetero-mtf worker --hosts a:1,b:2 --index 0") is None
    assert reduced("hetero-mtf devices --cluster hosts:a:1") is None
    assert reduced("pip install .") is None


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with the profile, plan, state and measured times of the quick start's network."""
    folder = tmp_path_factory.mktemp("earlier")
    (folder / "models").symlink_to(ROOT / "models")
    for line in map(reduced, _EARLIER):
        assert line is not None
        run(line, folder)
    return folder


def own_lines(page: Page) -> list[str]:
    """Return the reduced commands of a page that are run and that no page before it has; `earlier` has their files."""
    before = {reduced(line) for other in _WITH_COMMANDS[: _WITH_COMMANDS.index(page)] for line in other.commands()}
    return [line for line in dict.fromkeys(map(reduced, page.commands())) if line is not None and line not in before]


@pytest.mark.slow
def test_every_command_that_is_run_is_run_once() -> None:
    run_lines = [line for page in _WITH_COMMANDS for line in own_lines(page)]
    assert len(run_lines) == len(set(run_lines))
    assert set(run_lines) == {reduced(line) for page in _WITH_COMMANDS for line in page.commands()} - {None}


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("page", [page for page in _WITH_COMMANDS if own_lines(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_run_reduced(page: Page, earlier: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(earlier, folder, symlinks=True)
    for name, block in zip(own_files(page), [block for block in page.blocks("python") if block.text.startswith("# ")]):
        (folder / name).write_text(block.text)
    lines = own_lines(page)
    for name in re.findall(r"npz:([\w./-]+)", " ".join(lines)):
        np.savez(folder / name, x=np.random.default_rng(0).normal(size=(96, 28, 28, 1)), y=np.arange(96) % 10)
    for line in lines:
        run(line, folder)
    assert lines
