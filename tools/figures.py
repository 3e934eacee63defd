"""Draw the figures of README and documentation; with --measure, first repeat the run that they show.

    python -m tools.figures             # draws docs/figures/*.svg from the run in docs/figures/run
    python -m tools.figures --measure   # some ten minutes on an idle machine with two cores
    python -m tools.figures --mri       # the commands of docs/mri.md; some ten minutes more

--measure calibrates two emulated devices, plans, trains and compares, and keeps the plan and the measured times in docs/figures/run. Both
options write what the commands print into README.md and docs/*.md, wherever a comment `<!-- output: NAME -->` stands above a block.
"""

from __future__ import annotations

import functools
import pathlib
import shutil
import tempfile
from collections.abc import Sequence

import click

from tools.documented.concepts import draw_clock_tables, draw_layouts, draw_shares
from tools.documented.outputs import Command, run_commands, with_outputs
from tools.documented.result_pictures import draw_efficiency, draw_elsewhere, draw_memory, draw_predictions
from tools.documented.speed_up import draw_speed_ups
from tools.documented.step_times import draw_step_times
from tools.documented.style import save_figure
from tools.documented.terminal import draw_terminal, shown_lines

ROOT = pathlib.Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "figures"
RUN = FIGURES / "run"
RESULTS = ROOT / "docs" / "results"
EXAMPLES = ROOT / "docs" / "examples"
TERMINAL = {
    "calibrate": (("Verdict", "  is predicted"), ("                       relative", "worker:1")),
    "train": (("  epoch", "test loss"), ("one training step", "efficiency")),
}
"""Name of an example -> the passages of it that the picture of a terminal shows."""
SPEED_UPS = RESULTS / "paper_speedup.json"
CLUSTER = "emulate:1.0,0.5"
_WORKLOAD = ("--cluster", CLUSTER, "--model", "hetero_mtf.models.digits:wide_digits")
_TRAIN = ("train", *_WORKLOAD, "--data", "digits", "--plan")
_EPOCHS = ("--optimizer", "adam", "--epochs", "2")
_KEPT = ("plan.json", "measured.json")
COMMANDS = (
    Command("make-train", ("-m", "tools.train")),
    Command("devices", ("devices", "--cluster", CLUSTER)),
    Command("calibrate", ("calibrate", *_WORKLOAD, "--batch-size", "64", "--optimizer", "adam", "--budget", "60", "-o", "profile.json")),
    Command("plan", ("plan", "profile.json", "-o", "plan.json")),
    Command("train", (*_TRAIN, "plan.json", *_EPOCHS, "--compare", "--measured", "measured.json")),
    Command("explain", ("explain", "plan.json", "--measured", "measured.json", "--html", "page.html")),
    Command("what-if", ("explain", "plan.json", "--scale", "worker:1=2")),
    Command("pipeline", ("plan", "profile.json", "--strategy", "pipeline", "--microbatches", "8", "--stages", "2", "-o", "pipeline.json")),
    Command("train-pipeline", (*_TRAIN, "pipeline.json", *_EPOCHS, "--measured", "pipeline-measured.json")),
    Command("explain-pipeline", ("explain", "pipeline.json", "--measured", "pipeline-measured.json")),
)
_SCANS = ("--data", "nifti:cohort/participants.tsv")
_NETWORK = ("--model", "hetero_mtf.models.resattnet3d:resattnet18", "--model-arg", "size=48", "--model-arg", "width=8")
_PREPARED = ("--spacing", "4", "--mask", "otsu", "--flip", "--shift", "2")
_CHOICES = (*_PREPARED, "--split", "split.json", "--batch-size", "4")
_ADAM = ("--optimizer", "adam", "--learning-rate", "0.002", "--decay", "cosine")
_LEARNING = (*_ADAM, "--epochs", "10", "--save", "state.npz")
_FOLDS = (*_ADAM, "--epochs", "5", "--folds", "3", "--fold", "all", "--save", "cv.npz")
_MAPS = ("-o", "predictions.tsv", "--grad-cam", "maps", "--participant", "sub-001")
MRI_COMMANDS = (
    Command("make-cohort", ("-m", "tools.make_cohort", "cohort", "--subjects", "60")),
    Command("train-mri", ("train", "--cluster", CLUSTER, *_SCANS, *_NETWORK, *_CHOICES, *_LEARNING)),
    Command("evaluate-mri", ("evaluate", *_SCANS, "--checkpoint", "state.npz")),
    Command("predict-mri", ("predict", *_SCANS, "--checkpoint", "state.npz", *_MAPS)),
    Command("train-folds-mri", ("train", "--cluster", CLUSTER, "--plan", "state-plan.json", *_SCANS, *_NETWORK, *_PREPARED, *_FOLDS)),
)


def write_outputs(commands: Sequence[Command], kept: Sequence[str] = ()) -> None:
    """Run documented commands, keep some of their files, and write what they print into the pages.

    Parameters
    ----------
    commands : commands to run, in a folder that is removed afterwards.
    kept : names of files to copy from there to docs/figures/run.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        output = run_commands(commands, folder)
        for file in kept:
            shutil.copy(folder / file, RUN / file)
    for page in (ROOT / "README.md", *sorted(FIGURES.parent.glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        if (shown := with_outputs(text, output)) != text:
            page.write_text(shown, encoding="utf-8")
            print(page.relative_to(ROOT))


def draw(folder: pathlib.Path = FIGURES) -> None:
    """Draw all figures.

    Parameters
    ----------
    folder : where they are written.
    """
    workload = "A training step of wide_digits at batch size 64"
    run = functools.partial(draw_step_times, folder=RUN, cluster=CLUSTER, workload=workload)
    save_figure(folder / "step_times.svg", (8.0, 4.6), run)
    save_figure(folder / "layouts.svg", (11.0, 2.7), draw_layouts)
    save_figure(folder / "shares.svg", (9.0, 2.2), draw_shares)
    save_figure(folder / "clock_tables.svg", (8.0, 3.8), draw_clock_tables)
    recorded = [shown_lines((EXAMPLES / f"{name}-80.txt").read_text(encoding="utf-8"), wanted) for name, wanted in TERMINAL.items()]
    draw_terminal(folder / "terminal.svg", recorded)
    save_figure(folder / "efficiency.svg", (8.0, 9.0), functools.partial(draw_efficiency, folder=RESULTS))
    save_figure(folder / "predictions.svg", (7.0, 6.4), functools.partial(draw_predictions, folder=RESULTS))
    save_figure(folder / "elsewhere.svg", (6.0, 5.6), functools.partial(draw_elsewhere, folder=RESULTS))
    save_figure(folder / "memory.svg", (5.0, 4.8), functools.partial(draw_memory, folder=RESULTS))
    if SPEED_UPS.exists():
        save_figure(folder / "speed_up.svg", (10.0, 3.2), functools.partial(draw_speed_ups, path=SPEED_UPS))


@click.command(help=__doc__)
@click.option("--measure", "measuring", is_flag=True, help="Repeat the run first; let nothing else run meanwhile.")
@click.option("--mri", is_flag=True, help="Repeat the commands of docs/mri.md.")
def main(measuring: bool, mri: bool) -> None:
    """Draw, after measuring if asked to."""
    if measuring:
        write_outputs(COMMANDS, _KEPT)
    if mri:
        write_outputs(MRI_COMMANDS)
    draw()
    for path in sorted(FIGURES.glob("*.svg")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
