"""`hetero-mtf train`: train a model under a plan; without one, plans are tried as training steps."""

from __future__ import annotations

import os
from typing import Any

import click

from hetero_mtf.commands.command_files import train_files
from hetero_mtf.commands.options import shared
from hetero_mtf.commands.options.callbacks import CallbackOptions, callback_options
from hetero_mtf.commands.options.config_file import HEADER, config_option
from hetero_mtf.commands.options.loss_options import objective_options
from hetero_mtf.commands.options.measure_choice import default_measure, measure_option
from hetero_mtf.commands.options.model import model_options
from hetero_mtf.commands.options.pipeline_options import allow_stale_option
from hetero_mtf.commands.options.requests import TrainRequest
from hetero_mtf.commands.options.typed import refuse_unused
from hetero_mtf.commands.options.volume_options import SIZES, VolumeOptions, data_option, volume_options
from hetero_mtf.commands.process.files import check_files, identity
from hetero_mtf.commands.process.output_file import check_folder
from hetero_mtf.commands.process.start_line import print_start_line
from hetero_mtf.planning.names import EARLIER_NAMES
from hetero_mtf.scratch_file import sole_writer


@click.command()
@config_option
@model_options()
@data_option
@shared.cluster_option
@click.option("--plan", metavar="FILE", help="The plan to train by.")
@click.option("--profile", metavar="FILE", help="A profile to plan from. Without it and --plan, by --measure.")
@click.option(
    "--strategy",
    type=shared.RenamedChoice(shared.STRATEGIES, EARLIER_NAMES),
    default="auto",
    help="How to plan where there is no --plan.",
)
@allow_stale_option
@measure_option
@click.option("--epochs", type=click.IntRange(1), default=5, help="Epochs in all, those before a --resume counted.")
@click.option("--batch-size", type=click.IntRange(1), help=f"Batch size, samples/step.  [default: the plan's, or {SIZES}]")
@shared.collective_option
@shared.optimizer_options(compiled=True)
@shared.learning_rate_option
@objective_options()
@shared.budget_option
@shared.refine_options(default=True)
@click.option(
    "--rebalance/--no-rebalance",
    default=None,
    help="Go on under another plan where a device becomes slower or faster and that pays.  [default: rebalance where --strategy is auto]",
)
@click.option("--elastic/--no-elastic", default=False, help="Go on without workers that are lost, with the numbers of all devices.")
@click.option("--save", metavar="FILE", help="Where to save all state: at the end, at a signal, and with --save-every on the way.")
@click.option(
    "--save-every",
    type=click.IntRange(1),
    metavar="STEPS",
    help="Steps between saves.  [default: a save each minute with workers on other hosts, else none on the way]",
)
@callback_options
@click.option("--keep-going", is_flag=True, help="Go on training where the loss is NaN or infinite, rather than stop.")
@click.option("--resume", metavar="FILE", help="Go on from a file that --save wrote; auto: from that of --save, if it is there.")
@click.option("--output", metavar="FILE.keras", help="Where to save the trained Keras model.")
@shared.seed_option
@click.option("--measured", metavar="FILE", help="Where to write measured step times, for explain.  [default: beside what is saved]")
@volume_options
@click.option("--verbose", is_flag=True, help="Print the plan in full: layouts, alternatives and contributions.  [default: in a few lines]")
@click.option("--compare", is_flag=True, help="Then time each device alone, an equal split, simpler pipelines and the plan.")
def command(**options: Any) -> None:
    """Train a Keras model and print its test metrics.

    Without --plan or --profile training begins at once and its steps try plans. Which were in force when is saved beside the file of
    --save or --output, or else in the working directory: state-plans.json, or train-plans.json; the last one is in state-plan.json. So
    are all options: train --config state-config.yaml repeats the training of state.npz. With --measure first the devices are measured
    and a plan is made before training, and saved as state-profile.json and state-plan.json.

    Volumes (--data nifti:TABLE) come from a table of tab-separated columns participant_id, path and the labels', and where wanted
    session and mask. Every file is read before anything else, all faults are listed at once, and what evaluate and predict need to
    know is stored beside the state: state-data.json beside state.npz.
    """
    volumes, callbacks = VolumeOptions.taken(options), CallbackOptions.taken(options)
    options["resume"] = _resumed(options["resume"], options["save"])
    options["measure"] = options["measure"] or default_measure(options, volumes)
    request = TrainRequest(volumes=volumes, callbacks=callbacks, **options)
    request.optimizer_choice  # raises where options exclude each other
    _check_used(request)
    check_files(train_files(request))
    _check_replaced(request)
    check_folder(request.callbacks.log_dir, "--log-dir")
    if request.save is not None:
        click.get_current_context().with_resource(sole_writer(request.save))  # until the command ends
    print_start_line(request.cluster)
    from hetero_mtf.commands.runs.train import train  # loads NumPy, which no help text and no wrong option waits for

    train(request)


def _resumed(resume: str | None, save: str | None) -> str | None:
    """Return the file to go on from: for "auto", as in a job that is started again, that of --save where there is one."""
    if resume != "auto":
        return resume
    if save is None:
        raise click.UsageError("--resume auto goes on from the file of --save FILE, which is missing")
    return save if os.path.exists(save) else None


def _check_used(request: TrainRequest) -> None:
    """Refuse options that are typed beside others under which they have no effect."""
    if request.plan is not None and request.strategy != "auto":
        refuse_unused(("strategy",), f"training is by the plan {request.plan}; leave out one or the other")
    if request.refine and (request.plan is not None or request.collective is not None or request.strategy != "auto"):
        refuse_unused(("refine",), "it goes with --strategy auto, without --plan and --collective; leave out one or the other")


def _check_replaced(request: TrainRequest) -> None:
    """Refuse to replace a file of options that somebody wrote by hand with those that are used.

    Parameters
    ----------
    request : the options.

    Raises
    ------
    click.UsageError
        If --config names the place where they are written, and not a file that was written there.
    """
    if request.config is None or request.config_file is None or identity(request.config) != identity(request.config_file):
        return
    with open(request.config, "rb") as file:
        if not file.read(len(HEADER)) == HEADER.encode():
            raise click.UsageError(f"--config {request.config} would be replaced by the options as they are used; rename it")
