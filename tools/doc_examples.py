"""Runs the commands that the documentation shows and stores what they print: docs/examples/NAME-80.txt, NAME-140.txt and NAME-log.txt.

The numbers are those of a terminal's columns; the log is a file that takes output and errors. Each of the three is a run of its own, from
calibrating to the report. Run it on an idle machine, in about six minutes:

    python -m tools.doc_examples
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import textwrap

import click

from tools.terminal_text import log_text, terminal_text

ROOT = pathlib.Path(__file__).resolve().parents[1]
COLUMNS = (80, 140)
LOG = "log"
COMMAND_COLUMNS = 76  # of a line of a command; longer ones go on below
MODEL, CLUSTER = "models/digits.py:wide_digits", "emulate:1.0,0.5"
PROGRAM = "import sys; sys.argv[0] = 'hetero-mtf'; from hetero_mtf.commands.main import main; main()"


def examples(budget: int, epochs: int) -> dict[str, list[str]]:
    """Return name -> arguments of the commands, in the order in which they are run.

    Parameters
    ----------
    budget : seconds that calibrating may take.
    epochs : epochs of training.
    """
    network = ["--cluster", CLUSTER, "--model", MODEL]
    training = ["--data", "digits", "--plan", "plan.json", "--optimizer", "adam", "--epochs", str(epochs), "--compare"]
    calibrating = ["--batch-size", "64", "--optimizer", "adam", "--budget", str(budget), "-o", "profile.json"]
    return {
        "calibrate": ["calibrate", *network, *calibrating],
        "plan": ["plan", "profile.json", "-o", "plan.json"],
        "train": ["train", *network, *training, "--measured", "measured.json"],
        "explain-profile": ["explain", "profile.json"],
        "explain": ["explain", "plan.json", "--measured", "measured.json", "--html", "report.html"],
        "explain-what-if": ["explain", "plan.json", "--scale", "worker:1=2"],
    }


def record(name: str, arguments: list[str], width: int | str, folder: pathlib.Path) -> str:
    """Return the command as one types it and what it shows.

    Parameters
    ----------
    name : name of the example, for the error.
    arguments : arguments of the command.
    width : columns of the terminal, or "log".
    folder : where it is run.

    Raises
    ------
    click.ClickException
        If the command fails.
    """
    variables = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"} | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    if isinstance(width, int):
        code, text = terminal_text(command, width, folder, variables)
    else:
        code, text = log_text(command, folder, variables)
    if code != 0:
        raise click.ClickException(f"the example {name} ended with {code}:\n{text}")
    typed = textwrap.wrap(f"$ hetero-mtf {' '.join(arguments)}", COMMAND_COLUMNS, subsequent_indent="    ", break_on_hyphens=False)
    return " \\\n".join(typed) + f"\n{text}\n"


@click.command()
@click.option(
    "--folder", default=str(ROOT / "docs" / "examples"), show_default=False, help="Where to store them.  [default: docs/examples]"
)
@click.option("--budget", type=click.IntRange(1), default=60, show_default=True, help="Seconds that calibrating may take.")
@click.option("--epochs", type=click.IntRange(1), default=2, show_default=True, help="Epochs of training.")
def main(folder: str, budget: int, epochs: int) -> None:
    """Run the commands that the documentation shows, and store what they print."""
    target = pathlib.Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for width in (*COLUMNS, LOG):
        with tempfile.TemporaryDirectory() as place:
            (pathlib.Path(place) / "models").symlink_to(ROOT / "models")
            for name, arguments in examples(budget, epochs).items():
                click.echo(f"{name} at {width}")
                text = record(name, arguments, width, pathlib.Path(place))
                (target / f"{name}-{width}.txt").write_text(text, encoding="utf-8")
            if width == LOG:
                (target / "report.html").write_bytes((pathlib.Path(place) / "report.html").read_bytes())


if __name__ == "__main__":
    main()
