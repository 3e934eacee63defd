"""Commands of the documentation, checked without running them, and reduced so that they run in seconds."""

from __future__ import annotations

import itertools
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

import click

from hetero_mtf.commands.main import program
from hetero_mtf.devices.environment import child_variables
from tests.docs.pages import ROOT, module_file

_SMALLER = (  # in a command as text: a pattern, and what is written instead
    (r"--budget \S+", "--budget 4"),
    (r"--epochs \d+", "--epochs 1"),
    (r"--subjects \d+", "--subjects 12"),
    (r"\bsize=\d+", "size=16"),
    (r"--spacing \S+", "--spacing 12"),
    (r"--cluster local\b", "--cluster local:cpu:0,cpu:0"),
    (r"hetero_mtf\.models\.(\w+):", r"models/\1.py:"),
    (r"models/resattnet3d\.py:resattnet18", "models/resattnet3d.py:resattnet_small"),
    (r"models/vgg\.py:vgg11", "models/digits.py:wide_digits"),
    (r"models/digits\.py:wide_digits", "models/digits.py:wide_digits --model-arg filters=16,16 --model-arg kernel_size=3"),
    (r"synthetic:\w+:\d+:\d+", "synthetic:8x8x1:10:128"),
)
_SHELL = frozenset({".", "source", "cd", "git", "pip", "python", "python3", "make", "sbatch", "export", "ls", "cat", "head"})
_NOT_RUN = frozenset({"worker", "bench", "--version", "--help"})  # among them a server, which does not end
_NOT_POSSIBLE = ("hosts:", "tf_config", "slurm", "butterfly_mixing")  # other hosts; mixing, for which small networks have one device


def faults(line: str, own_files: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with a command: options that do not exist, programs, targets and models that are not there.

    Parameters
    ----------
    line : the command.
    own_files : files that a reader has written by then.
    """
    words = [word for word in shlex.split(line) if word != "&" and not re.fullmatch(r"[A-Z_]+=.*", word)]
    if words[:1] == ["srun"]:
        words = list(itertools.dropwhile(lambda word: word == "srun" or word.startswith("--"), words))
    if not words:
        return []
    if words[0] == "hetero-mtf":
        return _command_faults(words[1:], own_files)
    if words[0] == "make":
        return [f"no target {word}" for word in words[1:] if "=" not in word and f"\n{word}:" not in (ROOT / "Makefile").read_text()]
    if words[:2] == ["python", "-m"] and words[2].startswith("tools."):
        return [] if module_file(words[2]).exists() else [f"no module {words[2]}"]
    if words[0].startswith("python") and words[1].endswith(".py"):
        return [] if (ROOT / words[1]).is_file() or words[1] in own_files else [f"no file {words[1]}"]
    return [] if words[0] in _SHELL else [f"{words[0]} is not a program that the pages may use"]


def _command_faults(words: list[str], own_files: Sequence[str]) -> list[str]:
    if words == ["--version"] or words == ["--help"]:
        return []
    command = program.get_command(click.Context(program), words[0])
    if command is None:
        return [f"no command {words[0]}"]
    if words[1:] == ["--help"]:
        return []
    if "--config" in words:  # a file that an earlier command has written names the model and the data
        at = words.index("--config")
        words = [*words[:at], *words[at + 2 :], "--model", "hetero_mtf.models.digits:wide_digits", "--data", "digits"]
    try:
        with command.make_context(words[0], list(words[1:])) as context:
            return _model_faults(context.params.get("model"), own_files)
    except click.ClickException as fault:
        return [fault.format_message()]


def _model_faults(model: str | None, own_files: Sequence[str]) -> list[str]:
    if model is None or model.endswith(".keras"):
        return []
    name, _, function = model.rpartition(":")
    if name in own_files:
        return []
    path = ROOT / (name if name.endswith(".py") else name.removeprefix("hetero_mtf.").replace(".", "/") + ".py")
    if not path.is_file():
        return [f"no model file {name}"]
    return [] if f"\ndef {function}(" in path.read_text() else [f"no function {function} in {name}"]


def reduced(line: str) -> str | None:
    """Return a command that does the same on less, or None where it is not run: servers, other hosts, installation and the like."""
    words = shlex.split(line)
    is_own = words[0] == "hetero-mtf" and words[1] not in _NOT_RUN
    if not (is_own or words[:3] == ["python", "-m", "tools.make_cohort"]) or any(name in line for name in _NOT_POSSIBLE):
        return None
    for pattern, replacement in _SMALLER:
        line = re.sub(pattern, replacement, line)
    line = re.sub(r"--batch-size (\d+)", lambda match: f"--batch-size {max(4, int(match[1]) // 4)}", line)
    if words[1] == "calibrate":
        line += " --budget 4" * ("--budget" not in words) + " --batch-size 16" * ("--batch-size" not in words)
    if words[1] == "train":
        line += " --budget 4" * ("first" in words and "--budget" not in words)  # others measure nothing before training
        line = line.replace("--epochs 1", "--epochs 2") if "--resume" in words else line
        line += " --epochs 1" * ("--epochs" not in words)
    return line


def run(line: str, folder: pathlib.Path) -> str:
    """Return the output of a command run in a folder; raise AssertionError, with its end, where it fails."""
    words = shlex.split(line)
    start = [sys.executable, *(["-m", "hetero_mtf.commands.main"] if words[0] == "hetero-mtf" else [])]
    variables = child_variables({"HETERO_MTF_CACHE": str(folder / "cache")})
    done = subprocess.run([*start, *words[1:]], cwd=folder, env=variables, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, f"{line}\n{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
    return done.stdout
