"""Runs the commands that the documentation shows, and writes what they print into the pages.

In a page, a comment names the output that the block below it shows, and from which to which line (`before`: without the last one):

    <!-- output: train, from "epoch", to "test loss" -->
    ```text
    ...
    ```
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping

from hetero_mtf.devices.environment import child_variables

_LINES = r'(?:, from "(?P<first>[^"]*)")?(?:, (?P<end>to|before) "(?P<last>[^"]*)")?'
_SHOWN = re.compile(
    rf"^(?P<mark><!-- output: (?P<name>\S+?){_LINES} -->\n+```text\n)(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclasses.dataclass(frozen=True)
class Command:
    """A command whose output is shown.

    Parameters
    ----------
    name : what the comments in the pages call its output.
    arguments : the words after `hetero-mtf`, or after `python` where the first two are `-m` and a module of the clone.
    """

    name: str
    arguments: tuple[str, ...]


def run_commands(commands: Iterable[Command], folder: pathlib.Path) -> dict[str, str]:
    """Return what each command prints on its standard output; they run in order, in one folder.

    Parameters
    ----------
    commands : commands to run.
    folder : working directory.

    Raises
    ------
    subprocess.CalledProcessError
        If a command fails.
    """
    output: dict[str, str] = {}
    for command in commands:
        is_module = command.arguments[0] == "-m"
        # The sentence that the installed `hetero-mtf` consists of: it works with and without an installation.
        program = [] if is_module else ["-c", "import sys; from hetero_mtf.commands.main import main; sys.argv[0] = 'hetero-mtf'; main()"]
        print("+", "python" if is_module else "hetero-mtf", *command.arguments, file=sys.stderr, flush=True)
        line = [sys.executable, *program, *command.arguments]
        done = subprocess.run(line, cwd=folder, env=child_variables({}), stdout=subprocess.PIPE, text=True, check=True)
        output[command.name] = "\n".join(text.rstrip() for text in done.stdout.splitlines())
    return output


def with_outputs(page: str, output: Mapping[str, str]) -> str:
    """Return a page with the outputs that it shows replaced; those that are not given stay.

    Parameters
    ----------
    page : text of the page in Markdown.
    output : name -> text.

    Notes
    -----
    A block stays, with a message on the standard error output, where no line of the output begins as its comment says.

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
        lines = _between(output[match["name"]].splitlines(), match["first"], match["last"], match["end"] != "before")
        if not lines:
            print(f"{match['mark'].splitlines()[0]}: no such lines are printed; correct this comment in the page", file=sys.stderr)
            return match[0]
        return "\n".join([match["mark"].rstrip("\n"), *lines, "```"])

    return _SHOWN.sub(replaced, page)


def _between(lines: list[str], first: str | None, last: str | None, inclusive: bool) -> list[str]:
    """Return the lines from the one that begins with `first` to the next one that begins with `last`; none where one is missing."""
    begin = 0 if first is None else _index(lines, first, 0)
    if begin is None:
        return []
    end = len(lines) if last is None else _index(lines, last, begin)
    return [] if end is None else "\n".join(lines[begin : end + inclusive]).strip("\n").splitlines()


def _index(lines: list[str], beginning: str, begin: int) -> int | None:
    return next((index for index in range(begin, len(lines)) if lines[index].strip().startswith(beginning)), None)
