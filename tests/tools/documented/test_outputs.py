"""Outputs in the pages are replaced by what their commands print, and by nothing else."""

import os
import pathlib
import subprocess

import pytest

from tools.documented.outputs import Command, run_commands, with_outputs

PAGE = """before
<!-- output: train, from "epoch", to "test loss" -->
```text
old
```
<!-- output: plan -->

```text
old plan
```
after
"""


def test_the_lines_from_the_first_to_the_last_one_named_are_shown_and_the_rest_of_the_page_stays():
    shown = with_outputs(PAGE, {"train": "the plan\n\n  epoch  loss\n  1/1\ntest loss 0.1\nsaved it"})
    assert shown == PAGE.replace("old\n", "  epoch  loss\n  1/1\ntest loss 0.1\n")


def test_the_line_after_before_is_not_shown():
    page = PAGE.replace('to "test loss"', 'before "test loss"')
    assert with_outputs(page, {"train": "epoch\n1/1\n\ntest loss 0.1"}) == page.replace("old\n", "epoch\n1/1\n", 1)


def test_an_output_without_limits_is_shown_in_full():
    assert with_outputs(PAGE, {"plan": "a\nb\n\n"}) == PAGE.replace("old plan", "a\nb")


def test_backslashes_of_an_output_stay_as_they_are():
    assert "a\\1\\n" in with_outputs(PAGE, {"plan": "a\\1\\n"})


@pytest.mark.parametrize("printed", ["nothing of it", "epoch, but no end"])
def test_a_block_whose_lines_are_not_printed_stays_and_its_comment_is_named(printed, capsys):
    assert with_outputs(PAGE, {"train": printed}) == PAGE
    assert "output: train" in capsys.readouterr().err


def test_commands_and_modules_of_the_clone_run_in_one_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    root, folder = tmp_path / "clone", tmp_path / "run"
    root.mkdir()
    folder.mkdir()
    (root / "say.py").write_text("import pathlib\nprint(pathlib.Path.cwd().name, ' ')\n")
    monkeypatch.setenv("PYTHONPATH", str(root), prepend=os.pathsep)
    output = run_commands([Command("module", ("-m", "say")), Command("help", ("plan", "--help"))], folder)
    assert output["module"] == "run"
    assert "hetero-mtf plan" in output["help"] and "--strategy" in output["help"]


@pytest.mark.slow
def test_a_command_that_fails_ends_the_run(tmp_path: pathlib.Path):
    with pytest.raises(subprocess.CalledProcessError):
        run_commands([Command("plan", ("plan", "none.json"))], tmp_path)
