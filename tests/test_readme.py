"""The README does what it says: its Python runs as printed, and its commands have the options it shows."""

import pathlib
import re
import shlex
import subprocess
import sys

import click
import pytest

from hetero_mtf.commands.main import program

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text()


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def _commands():
    lines = [line.partition(" #")[0].strip() for block in _blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("hetero-mtf ")]


def test_its_python_runs_as_printed_in_one_fresh_interpreter(tmp_path):
    blocks = _blocks("python")
    assert len(blocks) >= 2
    (tmp_path / "readme.py").write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, "-W", "ignore", "readme.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    shown = re.search(r"# (\[\(.*\)\])$", TEXT, re.MULTILINE)[1]
    assert shown in done.stdout.splitlines()
    assert (tmp_path / "profile.json").exists() and (tmp_path / "plan.json").exists()


@pytest.mark.parametrize("line", _commands())
def test_its_commands_parse(line):
    name, *arguments = shlex.split(line)[1:]
    command = program.get_command(click.Context(program), name)
    with command.make_context(name, arguments) as context:
        assert context.params
    model = context.params.get("model")
    assert model is None or (ROOT / model.rpartition(":")[0]).is_file()


def test_the_files_it_names_are_there():
    named = set(re.findall(r"`(?:python )?((?:hetero_mtf|tests|tools|models|layers|mesh|program|planning)/[\w/]+(?:\.py)?)", TEXT))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists() and not (ROOT / "hetero_mtf" / name).exists()] == []
