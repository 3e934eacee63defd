"""The option --measure of train: when plans are measured, and what it does not go with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from hetero_mtf.commands.options.shared import Command
from hetero_mtf.commands.options.typed import typed_options
from hetero_mtf.commands.options.volume_options import VolumeOptions
from hetero_mtf.planning.names import FIRST, MEASURES, NEVER, STEPS

_HELP = (
    "When plans are measured: steps, as training steps, so that training begins at once; first, before training; never, by --plan, "
    "--profile, or what is kept. Or the plans of an earlier training, STATE-plans.json or its state, to repeat it bit for bit.  "
    "[default: first with --plan, --profile, --strategy, --compare, --measured, --fold all, or options of what is done first; else steps]"
)
_BEFORE = ("budget", "refine", "refine_time")  # what is done before the first step


def measure_option(command: Command) -> Command:
    """Add --measure."""
    return click.option("--measure", metavar="steps|first|never|FILE", help=_HELP)(command)


def default_measure(options: Mapping[str, Any], volumes: VolumeOptions) -> str:
    """Return when plans are measured where that is not said: as training steps, unless there has to be a plan before the first one.

    Parameters
    ----------
    options : of the command, by their names.
    volumes : the options of volumes.
    """
    named = ("plan", "profile", "collective", "allow_stale", "compare", "measured", "budget", "refine_time")
    before = any(options[name] for name in named) or options["strategy"] != "auto" or not options["refine"] or volumes.all_folds
    return FIRST if before or typed_options(_BEFORE) else STEPS


def check_measure(request: Any) -> None:
    """Refuse what does not go with --measure.

    Parameters
    ----------
    request : TrainRequest.

    Raises
    ------
    click.UsageError
        If something does not, or it is no file.
    """
    measure = request.measure
    if measure == FIRST:
        return
    if measure not in MEASURES and not os.path.exists(measure):
        raise click.UsageError(f"--measure is {measure!r}, which is no file; write {FIRST}, {STEPS}, {NEVER}, or the plans of a training")
    option = f"--measure {measure}"
    chosen = "plans are tried as training steps" if measure == STEPS else "the plans of the file are repeated"
    if measure != NEVER:
        given = {"--plan": request.plan, "--profile": request.profile, "--collective": request.collective}
        given |= {"--strategy": request.strategy != "auto", "--allow-stale": request.allow_stale}
        others = [name for name, value in given.items() if value]
        if others:
            raise click.UsageError(f"{' and '.join(others)} would have no effect: with {option} {chosen}; leave one or the other out")
        if request.rebalance and measure != STEPS:
            raise click.UsageError(f"--rebalance does not go with {option}: {chosen}; leave one or the other out")
    if request.volumes.all_folds and (measure != NEVER or (request.plan is None and request.profile is None)):
        wrong = f"--fold all goes with --plan or --profile, not with {option} alone: all folds are trained by one plan"
        raise click.UsageError(f"{wrong}; name one of them and --measure never, or one fold")
    before = typed_options(name for name in _BEFORE if name != "refine" or request.refine)
    if before:
        unused = f"{' and '.join(before)} would have no effect"
        raise click.UsageError(f"{unused}: with {option} nothing is measured before training; leave it out")
