"""The figures of the documentation are those that the script draws from the committed run."""

import dataclasses
import math
import pathlib
import re

import click
import pytest

from hetero_mtf.commands.main import program
from hetero_mtf.errors import PlanError
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured
from tools.documented.step_times import step_times
from tools.documented.style import LARGEST_BYTES
from tools.figures import COMMANDS, FIGURES, MRI_COMMANDS, ROOT, RUN, draw

EVERY = (*COMMANDS, *MRI_COMMANDS)
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


@pytest.mark.slow
def test_every_figure_is_drawn_again_in_a_size_for_a_page(tmp_path: pathlib.Path):
    draw(tmp_path)
    drawn = {path.name: path for path in tmp_path.iterdir()}
    assert set(drawn) == {path.name for path in FIGURES.glob("*.svg")}
    assert max(path.stat().st_size for path in drawn.values()) <= LARGEST_BYTES
    texts = {name: set(re.findall("<!-- (.*?) -->", path.read_text())) for name, path in drawn.items()}
    assert texts == {path.name: set(re.findall("<!-- (.*?) -->", path.read_text())) for path in FIGURES.glob("*.svg")}
    assert {"equal split", "planned", "ideal", "worker:0 alone (1 core)"} <= texts["step_times.svg"]


def test_the_times_are_those_measured_beside_those_that_the_plan_predicts():
    plan, measured = Plan.load(RUN / "plan.json"), Measured.load(RUN / "measured.json")
    times = step_times(plan, measured)
    assert [entry.measured_s for entry in times.alone] == list(measured.alone_s)
    assert (times.equal.measured_s, times.planned.measured_s) == (measured.equal_s, measured.step_s)
    predicted = {alternative.strategy: alternative.step_s for alternative in plan.alternatives}
    assert times.equal.predicted_s == predicted["equal"]
    if "single" in predicted:
        fastest_s = min(entry.predicted_s for entry in times.alone if entry.predicted_s is not None)
        assert math.isclose(fastest_s, predicted["single"], rel_tol=0.01)


def test_times_of_another_plan_are_refused():
    plan, measured = Plan.load(RUN / "plan.json"), Measured.load(RUN / "measured.json")
    with pytest.raises(PlanError, match="plan"):
        step_times(plan, dataclasses.replace(measured, batch_size=measured.batch_size + 1))


@pytest.mark.parametrize("command", [c for c in EVERY if c.arguments[0] != "-m"], ids=lambda command: command.name)
def test_the_commands_of_the_run_parse(command):
    name, *arguments = command.arguments
    with program.get_command(click.Context(program), name).make_context(name, arguments) as context:
        assert context.params


def test_the_outputs_that_pages_show_are_of_commands_of_the_run_that_pages_print():
    shown = {name for page in PAGES for name in re.findall(r"<!-- output: ([\w-]+)", page.read_text())}
    assert shown and shown <= {command.name for command in EVERY}
    texts = " ".join(" ".join(page.read_text().split()) for page in PAGES)
    commands = {command.name: command for command in EVERY}
    printed = [name for name in sorted(shown - {"make-train"}) if f"hetero-mtf {' '.join(commands[name].arguments)}" not in texts]
    assert printed == []
