"""The examples of the documentation: what a terminal shows and what a log file gets, as text."""

import dataclasses
import datetime
import os
import shlex
import sys

import click
import pytest

from hetero_mtf.commands.main import program
from tests.planning.networks import pair_net, profile_of
from tools.doc_examples import examples, record
from tools.terminal_text import Screen, log_text, terminal_text

BAR = """
import sys
from rich.console import Console
from rich.progress import Progress
with Progress(console=Console(stderr=True), transient=True) as bars:
    task = bars.add_task("working", total=3)
    for _ in range(3):
        bars.update(task, advance=1, refresh=True)
print("done in", __import__("os").get_terminal_size(1).columns if sys.stdout.isatty() else "a file")
"""


def test_a_bar_that_has_ended_leaves_nothing_in_a_terminal():
    assert terminal_text([sys.executable, "-c", BAR], 83, ".", os.environ) == (0, "done in 83")


def test_a_log_file_takes_output_and_errors():
    command = [sys.executable, "-c", "import sys; print('out  ', flush=True); sys.exit('failed')"]
    assert log_text(command, ".", os.environ) == (1, "out\nfailed")


def test_the_cursor_moves_up_and_lines_are_erased():
    screen = Screen()
    screen.write("first\r\nsecond\x1b[1A\r\x1b[2Kthird\n\r\x1b[K\x1b[32mfourth\x1b[0m\x1b[?25h\r\n\r\n")
    assert screen.text() == "third\nfourth"


def test_a_long_line_goes_on_in_the_next():
    screen = Screen(4)
    screen.write("abcdef\r\ngh")
    assert screen.text() == "abcd\nef\ngh"


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 140])
def test_a_recorded_profile_fits_in_its_columns(tmp_path, width):
    profile = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6, batch_size=8)
    dataclasses.replace(profile, measured_at=datetime.date.today().isoformat()).save(tmp_path / "profile.json")
    lines = record("explain-profile", ["explain", "profile.json"], width, tmp_path).splitlines()
    assert lines[0] == "$ hetero-mtf explain profile.json" and "Verdict" in lines and max(map(len, lines)) <= width
    assert "\x1b" not in "".join(lines) and not any(line != line.rstrip() for line in lines)


@pytest.mark.slow
def test_a_command_that_fails_is_not_stored(tmp_path):
    with pytest.raises(click.ClickException, match="the example plan ended with 1:"):
        record("plan", ["plan", "none.json"], "log", tmp_path)


@pytest.mark.parametrize("name", examples(1, 1))
def test_the_examples_are_commands_of_the_program(name):
    command, *arguments = shlex.split(shlex.join(examples(1, 1)[name]))
    parsed = program.get_command(click.Context(program), command)
    assert parsed is not None
    with parsed.make_context(command, arguments) as context:
        assert context.params
