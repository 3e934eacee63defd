"""Run the benches one after the other and write the pages of results.

A bench that fails does not stop the others; at the end the command says which failed, with the last lines of each, and exits with 1. Run it
on an idle machine. Durations are those expected on two idle cores; a bench that takes five times as long, and ten minutes more, is ended.

    python -m tools.bench.all --at-most 10
    python -m tools.bench.all --only planner --only mixing
    python -m tools.bench.all --list
"""

from __future__ import annotations

import dataclasses
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import click

from hetero_mtf.report.table import Table
from tools.results.publication import RESULTS, ROOT

COHORT = pathlib.Path("runs/mri/cohort/participants.tsv")
OTHERS = pathlib.Path("runs/others")
LAYER_GRAPHS, PROFILES = OTHERS / "dnn-partitioning", OTHERS / "pipedream"
LAST_LINES = 15


@dataclasses.dataclass(frozen=True)
class BenchRun:
    """One command.

    Parameters
    ----------
    name : to choose it by.
    command : what is run in the clone, after "python -m".
    minutes : expected duration.
    results : names of the tables that it writes.
    torch : whether it takes --torch-python.
    needs : file or folder that has to be there.
    maker : command that makes it, after "python -m"; empty where the user fetches it.
    """

    name: str
    command: str
    minutes: float
    results: tuple[str, ...]
    torch: bool = False
    needs: pathlib.Path | None = None
    maker: str = ""

    @property
    def lacks(self) -> bool:
        """Whether what it needs is to be fetched by the user, and is not there."""
        return self.needs is not None and not self.maker and not (ROOT / self.needs).exists()


_LEARNT = ("", "_claims", "_accuracy")
PAPERS = (
    BenchRun("paper_filters", "tools.papers.filters", 60, tuple(f"paper_filters{part}" for part in (*_LEARNT, "_equivalence"))),
    BenchRun(
        "paper_genetic_pipeline",
        "tools.papers.genetic_pipeline",
        60,
        tuple(f"paper_genetic_pipeline{part}" for part in ("", "_claims", "_auc")),
        torch=True,
    ),
    BenchRun("paper_layerwise", "tools.papers.layerwise", 60, tuple(f"paper_layerwise{part}" for part in (*_LEARNT, "_memory"))),
    BenchRun(
        "paper_butterfly",
        "tools.papers.butterfly",
        60,
        (*(f"paper_butterfly{part}" for part in (*_LEARNT, "_equivalence")), "paper_speedup"),
    ),
)
RUNS = (
    BenchRun("simulator", "tools.bench.simulator", 0.5, ("simulator",)),
    BenchRun("mixing", "tools.bench.mixing", 2, ("mixing",)),
    BenchRun("feeding", "tools.bench.step.feeding", 3, ("feeding",)),
    BenchRun("exposed", "tools.bench.step.exposed", 12, ("exposed",)),
    BenchRun("kernel_gradients", "tools.bench.step.kernel_gradients", 2, ("kernel_gradients",)),
    BenchRun("emulation_sending", "tools.bench.emulation.sending", 3, ("emulation_sending",)),
    BenchRun("emulation_periods", "tools.bench.emulation.periods", 6, ("emulation_periods",)),
    BenchRun("graph_size", "tools.bench.graph_size", 2, ("graph_size",)),
    BenchRun("collectives", "tools.bench.collectives", 2, ("collectives", "collective_crossovers")),
    BenchRun("planner", "tools.bench.planner", 3, ("planner",)),
    BenchRun("uneven_split_paper_a", "tools.bench.uneven_split --paper-a --batch 64 --rounds 5", 3, ("uneven_split_paper_a",)),
    BenchRun("first_run", "tools.bench.first_run", 4, ("first_run",)),
    BenchRun("time_to_train", "tools.bench.start.time_to_train", 150, ("time_to_train", "time_to_gain")),
    BenchRun("regret", "tools.bench.start.regret", 40, ("start_simulation", "start_regret", "start_gain")),
    BenchRun("overhead", "tools.bench.overhead", 5, ("overhead",)),
    BenchRun("auto_comparison", "tools.bench.auto --part comparison", 4, ("auto_comparison",), torch=True),
    BenchRun("hybrid", "tools.bench.hybrid", 5, ("hybrid",)),
    BenchRun("allocation_bound", "tools.bench.allocation_bound", 5, ("allocation_bound",)),
    BenchRun("uneven_batch", "tools.bench.uneven_batch", 6, ("uneven_batch",), torch=True),
    BenchRun("rivals", "tools.bench.baselines.rivals", 20, ("rivals",), torch=True),
    BenchRun("rivals_one_device", "tools.bench.baselines.one_device", 4, ("rivals_one_device",), torch=True),
    BenchRun("batch_sizes", "tools.bench.batch_sizes", 6, ("batch_sizes",)),
    BenchRun(
        "voxels",
        f"tools.voxels {COHORT}",
        6,
        ("voxels",),
        needs=COHORT,
        maker=f"tools.make_cohort {COHORT.parent} --subjects 200 --size 48",
    ),
    BenchRun("others_sailor", "tools.bench.others.sailor", 1, ("others_sailor", "others_sailor_plans"), needs=OTHERS / "sailor"),
    BenchRun("others_virtualflow", "tools.bench.others.virtualflow", 1, ("others_virtualflow",), needs=OTHERS / "tf-logs"),
    BenchRun("others_amp", "tools.bench.others.amp", 1, ("others_amp",), needs=OTHERS / "AMP"),
    BenchRun("others_neusight", "tools.bench.others.neusight", 2, ("others_neusight",), needs=OTHERS / "NeuSight"),
    BenchRun("unlike", "tools.bench.emulation.unlike", 25, ("unlike",)),
    BenchRun("hosts_predictions", "tools.bench.hosts.predictions", 20, ("hosts_predictions",)),
    BenchRun("hosts_rivals", "tools.bench.hosts.hosts_rivals", 40, ("hosts_rivals",), torch=True),
    BenchRun("closed_ports", "tools.bench.hosts.closed_ports", 2, ("closed_ports",)),
    BenchRun("whole_volumes", "tools.bench.space.whole_volumes", 5, ("sliding_windows", "whole_volumes"), torch=True),
    BenchRun("slab_speed", "tools.bench.space.slab_speed", 20, ("slab_speed", "slab_curves")),
    BenchRun("slab_memory", "tools.bench.space.slab_memory", 5, ("slab_memory",)),
    BenchRun("written", "tools.bench.today.speed", 7, ("written",)),
    BenchRun("rebalancing", "tools.bench.today.rebalancing", 7, ("rebalancing",)),
    BenchRun("faults", "tools.bench.faults.campaign", 70, ("faults",)),
    BenchRun("faults_between_hosts", "tools.bench.faults.host_campaign", 20, ("faults_between_hosts",)),
    BenchRun("long_training", "tools.bench.faults.long_training", 92, ("long_training",)),
    BenchRun("changing_devices", "tools.bench.faults.changing_devices", 8, ("changing_devices",)),
    BenchRun("genetic", "tools.bench.genetic", 8, ("genetic", "genetic_operations", "genetic_large")),
    BenchRun("others_layer_graphs", "tools.bench.others.layer_graphs", 3, ("others_layer_graphs",), needs=LAYER_GRAPHS),
    BenchRun("others_profiles", "tools.bench.others.profiles", 8, ("others_profiles",), needs=PROFILES),
    BenchRun("resattnet", "tools.bench.resattnet --rounds 3", 8, ("resattnet",)),
    BenchRun("uneven_split", "tools.bench.uneven_split", 9, ("uneven_split",)),
    BenchRun("mri", "tools.mri", 11, ("mri",)),
    BenchRun("late_memory", "tools.bench.late.memory", 12, ("late_memory",)),
    BenchRun("pipeline", "tools.bench.pipeline --rounds 3", 16, ("pipeline", "pipeline_arrangements")),
    BenchRun("auto_efficiency", "tools.bench.auto --part efficiency", 20, ("auto_efficiency",)),
    BenchRun("calibration", "tools.calibration", 20, ("calibration", "predictor_terms")),
    BenchRun("late_cohort", "tools.bench.late.cohort", 25, ("late_cohort",)),
    BenchRun("memory", "tools.bench.memory", 40, ("memory",)),
    BenchRun("late_speed", "tools.bench.late.speed", 45, ("late_speed", "late_speed_arrangements")),
    BenchRun("prediction", "tools.bench.prediction", 70, ("prediction", "prediction_ranks")),
    BenchRun("precision_speed", "tools.bench.today.precision_speed", 1, ("precision_speed",)),
    BenchRun("precision", "tools.bench.today.precision", 25, ("precision",)),
    BenchRun("late_accuracy", "tools.bench.late.accuracy", 90, ("late_accuracy",)),
    BenchRun("unseen", "tools.bench.unseen", 130, ("unseen",)),
    *PAPERS,
)


def chosen(most_minutes: float | None, names: Sequence[str], with_torch: bool) -> list[BenchRun]:
    """Return the runs of some names, or else all, that are expected to take at most so many minutes.

    Parameters
    ----------
    most_minutes : None for no limit.
    names : empty for all.
    with_torch : whether there is a Python with torch; without it, runs that compare with PyTorch have to be named.
    """
    named = [run for run in RUNS if run.name in names or (not names and (with_torch or not run.torch))]
    return [run for run in named if most_minutes is None or run.minutes <= most_minutes]


def failure(run: BenchRun, results: pathlib.Path, torch_python: str | None) -> str | None:
    """Run a bench, and return why it failed with its last lines; None where it did not.

    Parameters
    ----------
    run : the bench.
    results : folder of the result tables.
    torch_python : a Python with torch, or None to leave PyTorch out.
    """
    commands = [run.maker] if run.maker and run.needs is not None and not (ROOT / run.needs).exists() else []
    extra = ["--torch-python", torch_python] if run.torch and torch_python else []
    lines = [[*shlex.split(command)] for command in commands] + [[*shlex.split(run.command), *extra, "--results", str(results.resolve())]]
    for words in lines:
        with tempfile.TemporaryFile("w+") as log:
            try:
                ended = subprocess.run(
                    [sys.executable, "-m", *words], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, timeout=60 * (5 * run.minutes + 10)
                )
                reason = f"exit code {ended.returncode}" if ended.returncode else None
            except subprocess.TimeoutExpired as late:
                reason = f"still running after {late.timeout:.0f} s"
            log.seek(0)
            text = log.read()
        if reason is not None:
            return "\n".join([reason, *text.splitlines()[-LAST_LINES:]])
        click.echo(text)
    return None


def overview() -> str:
    """Return a Markdown table of the runs."""
    files = {run: ", ".join(f"`{name}.json`" for name in run.results) for run in RUNS}
    rows = tuple((run.name, f"`python -m {run.command}`", f"{run.minutes:g}", files[run]) for run in RUNS)
    return Table(("name", "command", "minutes", "files in docs/results"), rows, left=2).markdown()


@click.command(help=__doc__)
@click.option("--at-most", "most_minutes", type=float, metavar="MINUTES", help="Only benches expected to take so long.  [default: all]")
@click.option("--only", "names", multiple=True, type=click.Choice([run.name for run in RUNS]), help="A bench, several times for more.")
@click.option(
    "--torch-python", metavar="FILE", help="Python of an environment with torch; without it benches that compare with PyTorch are left out."
)
@click.option("--results", type=click.Path(path_type=pathlib.Path), default=RESULTS, help="Folder of the tables.  [default: docs/results]")
@click.option("--list", "listed", is_flag=True, help="List the benches and run none.")
def main(most_minutes: float | None, names: tuple[str, ...], torch_python: str | None, results: pathlib.Path, listed: bool) -> None:
    """Run the benches that are chosen."""
    if listed:
        click.echo(overview())
        return
    failures = {}
    runs = chosen(most_minutes, names, torch_python is not None)
    if not names and torch_python is None:
        omitted = ", ".join(run.name for run in RUNS if run.torch)
        click.echo(f"{omitted} are left out, they compare with PyTorch; give --torch-python, or name them by --only")
    lacking = [] if names else [run for run in runs if run.lacks]
    for run in lacking:
        click.echo(f"{run.name} is left out, {run.needs} is not there; fetch it as {shlex.split(run.command)[0]} says")
    for run in (run for run in runs if run not in lacking):
        click.echo(f"\n{run.name}: python -m {run.command} (about {run.minutes:g} min)")
        start_s = time.monotonic()
        reason = failure(run, results, torch_python)
        click.echo(f"{run.name}: {'FAILED' if reason else 'done'} after {(time.monotonic() - start_s) / 60:.1f} min")
        failures |= {run.name: reason} if reason else {}
    if results.resolve() == RESULTS.resolve():
        subprocess.run([sys.executable, "-m", "tools.render_results"], cwd=ROOT, check=True)
    for name, reason in failures.items():
        click.echo(f"\n{name} failed: {reason}", err=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
