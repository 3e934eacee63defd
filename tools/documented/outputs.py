"""Runs the commands that the documentation shows, and writes what they print into the pages.

In a page, a comment names the output that the block below it shows, and from which to which line:

    <!-- output: train, from "epoch", to "test loss" -->
    ```text
    ...
    ```
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping

_SHOWN = re.compile(
    r'^(?P<mark><!-- output: (?P<name>\S+?)(?:, from "(?P<first>[^"]*)")?(?:, to "(?P<last>[^"]*)")? -->\n+```text\n)(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Command:
    """A command whose output is shown.

    Parameters
    ----------
    name : what the comments in the pages call its output.
    arguments : the words after `hetero-mtf`, or after `python` where the first one ends in .py.
    """

    name: str
    arguments: tuple[str, ...]


def run_commands(commands: Iterable[Command], folder: pathlib.Path, root: pathlib.Path) -> dict[str, str]:
    """Return what each command prints on its standard output; they run in order, in one folder.

    Parameters
    ----------
    commands : commands to run.
    folder : working directory of `hetero-mtf`.
    root : the clone, working directory of its scripts.

    Raises
    ------
    subprocess.CalledProcessError
        If a command fails.
    """
    output: dict[str, str] = {}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    for command in commands:
        script = command.arguments[0].endswith(".py")
        # The sentence that the installed `hetero-mtf` consists of: it works with and without an installation.
        program = [] if script else ["-c", "import sys; from hetero_mtf.commands.main import main; sys.argv[0] = 'hetero-mtf'; main()"]
        print("+", "python" if script else "hetero-mtf", *command.arguments, file=sys.stderr, flush=True)
        line = [sys.executable, *program, *command.arguments]
        done = subprocess.run(line, cwd=root if script else folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        output[command.name] = "\n".join(text.rstrip() for text in done.stdout.splitlines())
    return output


def with_outputs(page: str, output: Mapping[str, str]) -> str:
    """Return a page with the outputs that it shows replaced; those that are not given stay.

    Parameters
    ----------
    page : text of the page in Markdown.
    output : name -> text.

    Raises
    ------
    ValueError
        If an output has no line that begins as the comment says.

    Examples
    --------
    >>> page = '<!-- output: train, from "epoch" -->\\n```text\\nold\\n```\\n'
    >>> print(with_outputs(page, {"train": "the plan\\n  epoch\\n    1/1"}))
    <!-- output: train, from "epoch" -->
    ```text
      epoch
        1/1
    ```
    """

    def replaced(match: re.Match[str]) -> str:
        if match["name"] not in output:
            return match[0]
        return f"{match['mark']}{_between(output[match['name']], match['first'], match['last'], match['name'])}\n```"

    return _SHOWN.sub(replaced, page)


def _between(text: str, first: str | None, last: str | None, name: str) -> str:
    lines = text.splitlines()
    begin = 0 if first is None else _index(lines, first, 0, name)
    end = len(lines) if last is None else _index(lines, last, begin, name) + 1
    return "\n".join(lines[begin:end]).strip("\n")


def _index(lines: list[str], beginning: str, begin: int, name: str) -> int:
    for index in range(begin, len(lines)):
        if lines[index].strip().startswith(beginning):
            return index
    raise ValueError(f"the output {name} has no line that begins with {beginning!r}; correct the comment in the page")
