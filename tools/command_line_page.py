"""Write the options of every command into docs/command_line.md, from the commands themselves.

    python -m tools.command_line_page

What stands above the line of `MARK` is written by hand and kept. A test checks that the page is up to date.
"""

from __future__ import annotations

import inspect
import pathlib
import re
from collections.abc import Iterator

import click

from hetero_mtf.commands.main import program

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "command_line.md"
MARK = "<!-- below: written by tools/command_line_page.py -->"
PREFIXES = {"Volumes": "Volumes (`--data nifti:...`)", "Pipeline": "Pipelines", "What if": "What if"}
"""What help texts of some options begin with -> the group that they are in."""
GROUPS = {
    "Model and data": ("model", "model_arguments", "precision", "data", "loss", "metrics", "source", "checkpoint", "part", "positive"),
    "Cluster": (
        *("cluster", "worker_timeout", "wait", "spare", "hosts", "index", "port", "allow", "open_to_all", "allow_root", "memory_first"),
    ),
    "Plan": (
        *("plan", "profile", "profile_file", "measure", "strategy", "shares", "batch_size", "budget", "reuse", "collective"),
        *("gradient_sync", "extrapolate", "allow_stale", "refine", "refine_time", "rebalance", "elastic"),
    ),
    "Training": (
        *("epochs", "optimizer", "learning_rate", "momentum", "decay", "seed", "validation_split", "early_stopping", "patience"),
        *("restore_best_weights", "keep_going", "resume", "config"),
    ),
    "Output": (
        *("output", "save", "save_every", "best", "keep", "log_dir", "measured", "measured_file", "verbose", "compare", "as_json", "json"),
        "json_file",
        *("plot", "html", "grad_cam", "grad_cam_layer", "grad_cam_class", "participant"),
    ),
}
"""Title of a group -> the names of its options in Python; an option that is in none stands under `OTHERS`."""
OTHERS = "Others"


def page(text: str) -> str:
    """Return the page with the present options.

    Parameters
    ----------
    text : the page as it is.
    """
    by_hand, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"{PAGE} has no line {MARK}; add it where the options shall begin")
    return f"{by_hand}{MARK}\n\n{generated()}"


def generated() -> str:
    """Return a section of Markdown for each command."""
    context = click.Context(program, info_name="hetero-mtf", **program.context_settings)
    commands = [(name, program.get_command(context, name)) for name in program.list_commands(context)]
    return "\n".join(section(name, command, context) for name, command in commands if command is not None and not command.hidden)


def section(name: str, command: click.Command, parent: click.Context) -> str:
    """Return the section of one command: its usage, what it does, and its options by group."""
    with click.Context(command, info_name=name, parent=parent) as context:
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        lines = [f"## hetero-mtf {name}", "", "```text", usage, "```", ""]
        for paragraph in inspect.cleandoc(command.help or "").replace("\b", "").split("\n\n"):
            lines += [_coded(" ".join(paragraph.split())), ""]
        rows = list(_options(command, context))
        for title in (*GROUPS, *PREFIXES.values(), OTHERS):
            items = [row for group, row in rows if group == title]
            lines += [f"| {title} | |", "|---|---|", *items, ""] if items else []
    return "\n".join(lines)


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the group and the row of a table for each option that the help shows."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or not isinstance(parameter, click.Option) or "--help" in parameter.opts:
            continue
        names, text = (" ".join(part.split()) for part in record)
        prefix = next((prefix for prefix in PREFIXES if re.match(f"{prefix}\\b:?", text)), "")
        text = text.removeprefix(f"{prefix}: ") if prefix else text
        group = PREFIXES.get(prefix) or next((title for title, own in GROUPS.items() if parameter.name in own), OTHERS)
        cells = f"`{names.replace(' RANGE', '')}`", _coded(text[:1].upper() + text[1:])
        yield group, "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _coded(text: str) -> str:
    """Return a text with the names of options as code."""
    return re.sub(r"(?<![`\w-])(--\w[\w-]*)", r"`\1`", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
