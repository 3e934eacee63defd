"""Claim: the first run (`make train`) is faster on two unequal devices than on the faster one alone and than split equally.

`tools/train.py` calibrates, plans and trains the digits network on two emulated devices and compares step times: every device alone, the
equal split and the plan take turns, and a figure is the median over rounds. ideal = 1 / sum over devices of 1 / T_d, T_d the step of
device d alone; efficiency = ideal / planned.

    python -m tools.bench.first_run [--cluster emulate:1.0,0.5]
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Any

import click

from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACCURACY = re.compile(r"^test accuracy\D+(\d\.\d+)$", re.MULTILINE)
TABLE = TableForm(
    "first_run",
    "One training step of the digits network, as `make train` measures it",
    (
        Column("cluster", "cluster"),
        Column("arrangement", "arrangement"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("measured_ms", "measured ms", ".0f"),
        Column("times_planned", "relative to the plan", ".2f"),
    ),
    case=("cluster",),
)


def trained(cluster: str, folder: pathlib.Path) -> str:
    """Train into a folder as `make train` does, and return what was printed.

    Parameters
    ----------
    cluster : as hetero-mtf takes it.
    folder : for the state, the profile, the plan and the measured times.
    """
    saved = ["--cluster", cluster, "--save", str(folder / "digits.npz"), "--measured", str(folder / "measured.json")]
    ended = subprocess.run([sys.executable, "-m", "tools.train", *saved], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    click.echo(ended.stdout, err=True)
    if ended.returncode:
        raise click.ClickException(f"tools/train.py ended with exit code {ended.returncode}; its last lines are above")
    return ended.stdout


def step_times(folder: pathlib.Path) -> Any:
    """Return the `StepTimes` of the run whose files are in a folder."""
    from hetero_mtf.commands.workload.comparison import step_times as beside_predictions
    from hetero_mtf.commands.workload.first_plan import Prepared
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.planning.profile.profile import Profile
    from hetero_mtf.report.measured import Measured

    measured = Measured.load(folder / "measured.json")
    profile, plan = Profile.load(folder / "digits-profile.json"), Plan.load(folder / "digits-plan.json")
    alone = [Plan.single(profile.graph, device, profile.cluster, plan.batch_size) for device in range(len(plan.devices))]
    equal = Plan.equal(profile.graph, profile.cluster, plan.batch_size)
    seconds = {**{str(device): each for device, each in enumerate(measured.alone_s)}, "planned": measured.step_s}
    return beside_predictions(Prepared(plan, profile), alone, {"equal split": equal}, {**seconds, "equal split": measured.equal_s})


def rows(cluster: str, times: Any) -> list[Row]:
    """Return a row an arrangement.

    Parameters
    ----------
    cluster : as hetero-mtf takes it.
    times : `StepTimes`.
    """
    titles = {entry.name: f"{entry.name} alone" for entry in times.alone}
    table = []
    for entry in (*times.alone, times.equal, times.planned, times.ideal):
        figures = {"predicted_ms": entry.predicted_s, "measured_ms": entry.measured_s}
        cells = {key: seconds and 1e3 * seconds for key, seconds in figures.items()}
        name = {"cluster": cluster, "arrangement": titles.get(entry.name, entry.name)}
        table.append(table_row({**name, **cells, "times_planned": times.ratio(entry)}))
    return table


def remark(times: Any, accuracy: float | None) -> str:
    """Return a sentence with the efficiency and the test accuracy.

    Parameters
    ----------
    times : `StepTimes`.
    accuracy : on the test samples; None where it was not printed.
    """
    predicted, measured = times.efficiency(measured=False), times.efficiency(measured=True)
    said = f"Efficiency (ideal / planned): {predicted:.2f} predicted, {measured:.2f} measured"
    return f"{said}; test accuracy {accuracy:.4f}." if accuracy is not None else f"{said}."


@click.command(help=__doc__)
@click.option("--cluster", default="emulate:1.0,0.5", show_default=True, help="The unequal devices.")
@output_options()
def main(cluster: str, output: Output) -> None:
    """Train as `make train` does, and print the step times."""
    with tempfile.TemporaryDirectory(prefix="hetero_mtf-first-run-") as folder:
        text = trained(cluster, pathlib.Path(folder))
        times = step_times(pathlib.Path(folder))
    match = ACCURACY.search(text)
    accuracy = float(match[1]) if match else None
    table, notes = rows(cluster, times), [remark(times, accuracy)]
    output.report(TABLE, table, notes)
    output.record({"seconds": {entry.texts["arrangement"]: entry.numbers for entry in table}})


if __name__ == "__main__":
    main()
