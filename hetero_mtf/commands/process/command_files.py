"""What each command reads and writes: the one place where its files are declared."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

from hetero_mtf.commands.options.volumes import VolumeOptions, is_volumes
from hetero_mtf.commands.process.files import CommandFile, CommandFiles, command_file, identity

if TYPE_CHECKING:
    from hetero_mtf.commands.evaluate import EvaluateRequest
    from hetero_mtf.commands.predict import PredictRequest
    from hetero_mtf.commands.train import TrainRequest

MAPS = "*_gradcam-*"  # names of maps
RECORD = "the description of the data"  # what is stored beside a checkpoint of a network for volumes


def train_files(run: TrainRequest) -> CommandFiles:
    """Return the files of `train`, those that it writes beside others included.

    Parameters
    ----------
    run : what the command line says.
    """
    from hetero_mtf.commands.workload.preparation import saved_paths

    split = command_file("--split", run.volumes.split)
    split_is_read = run.volumes.split is not None and os.path.lexists(run.volumes.split)
    inputs = [*model_files(run.model), *data_files(run.data, run.volumes), *checkpoint_files("--resume", run.resume)]
    inputs += [*command_file("--plan", run.plan), *command_file("--profile", run.profile), *(split if split_is_read else ())]
    outputs = [*command_file("--save", run.save), *command_file("--output", run.output)]
    if is_volumes(run.data):
        outputs += [*_record(run.save), *_record(run.output)]
    if run.plan is None and run.profile is None:
        profile, plan = saved_paths(run.save or run.output or "train")
        outputs += [*command_file("the profile to be measured", profile), *command_file("the plan to be made", plan)]
    outputs += [*command_file("--measured" if run.measured is not None else "the measured times", run.measured_file)]
    outputs += [] if split_is_read else split
    return CommandFiles(inputs, outputs, (("--save", "--resume"), (RECORD, RECORD)))


def calibrate_files(model: str, reuse: str | None, output: str) -> CommandFiles:
    """Return the files of `calibrate`.

    Parameters
    ----------
    model, reuse, output : what the command line says.
    """
    inputs = (*model_files(model), *command_file("--reuse", reuse))
    return CommandFiles(inputs, command_file("--output", output), (("--output", "--reuse"),))


def plan_files(model: str | None, profile: str | None, output: str, convergence: str | None) -> CommandFiles:
    """Return the files of `plan`.

    Parameters
    ----------
    model, profile, output, convergence : what the command line says.
    """
    inputs = (*model_files(model), *command_file("PROFILE", profile))
    return CommandFiles(inputs, (*command_file("--output", output), *command_file("--convergence", convergence)))


def evaluate_files(asked: EvaluateRequest) -> CommandFiles:
    """Return the files of `evaluate`.

    Parameters
    ----------
    asked : what the command line says.
    """
    trained = trained_files(asked.model, asked.checkpoint, asked.plan)
    return CommandFiles((*trained, *data_files(asked.data, asked.volumes)), command_file("--json", asked.json))


def predict_files(asked: PredictRequest) -> CommandFiles:
    """Return the files of `predict`; of the maps those that lie there from an earlier call, which new ones may replace.

    Parameters
    ----------
    asked : what the command line says.
    """
    place = (asked.source or "").partition(":")[2]
    samples = command_file("--input", place) if place else data_files(asked.data or "", asked.volumes)
    maps = [] if asked.grad_cam is None else _map_files(pathlib.Path(asked.grad_cam), pathlib.Path(asked.target))
    inputs = (*trained_files(asked.model, asked.checkpoint, asked.plan), *samples)
    return CommandFiles(inputs, (*command_file("--output", asked.target), *maps))


def _map_files(folder: pathlib.Path, target: pathlib.Path) -> list[CommandFile]:
    """Return the maps in a folder, and the target where a map or the folder itself might take its place."""
    place = identity(folder)
    taken = identity(target) == place or (identity(target.parent) == place and target.match(MAPS))
    return [CommandFile("--grad-cam", path) for path in [*sorted(folder.glob(MAPS)), *([target] if taken else [])]]


def explain_files(plan: str, profile: str | None, measured: str | None, html: str | None) -> CommandFiles:
    """Return the files of `explain`, those that it looks for beside the plan included.

    Parameters
    ----------
    plan, profile, measured, html : what the command line says.
    """
    from hetero_mtf.commands.explain import beside

    inputs = [*command_file("PLAN", plan)]
    for kind, given in (("profile", profile), ("measured", measured)):
        otherwise = beside(plan, kind)
        inputs += command_file(f"--{kind}", given) or command_file(f"the {kind} file", otherwise if otherwise.is_file() else None)
    return CommandFiles(inputs, command_file("--html", html))


def model_files(model: str | None) -> tuple[CommandFile, ...]:
    """Return the source files behind --model, which is not imported for it.

    Parameters
    ----------
    model : "FILE.py:function", "package.module:function", or None.
    """
    from hetero_mtf.commands.workload.model_file import source_files

    return tuple(CommandFile("the source of --model", path) for path in source_files(model or ""))


def data_files(data: str, volumes: VolumeOptions) -> tuple[CommandFile, ...]:
    """Return the files behind --data, for a table of scans also the scans, the masks and the decoded scans that are kept.

    Parameters
    ----------
    data : --data.
    volumes : where decoded scans are kept.
    """
    from hetero_mtf.data.named import data_set_files

    if not is_volumes(data):
        return tuple(CommandFile("a file of --data", path) for path in data_set_files(data))
    from hetero_mtf.data.volumes.cache_folder import cache_places, kept_files
    from hetero_mtf.data.volumes.cohort.participants import listed_files
    from hetero_mtf.devices import environment

    table = data.partition(":")[2]
    kept = kept_files(cache_places(table, environment.variables(), volumes.cache))
    files = [CommandFile("the table of --data", pathlib.Path(table))] if table else []
    files += [CommandFile("a scan or mask of --data", path) for path in listed_files(table)]
    return (*files, *(CommandFile("a decoded scan in the cache", path) for path in kept))


def trained_files(model: str | None, checkpoint: str, plan: str | None) -> tuple[CommandFile, ...]:
    """Return what a trained network is read from; without --model that is the checkpoint and what is stored beside it.

    Parameters
    ----------
    model, checkpoint, plan : what the command line says.
    """
    return (*model_files(model), *checkpoint_files("--checkpoint", checkpoint), *command_file("--plan", plan))


def checkpoint_files(role: str, checkpoint: str | None) -> tuple[CommandFile, ...]:
    """Return a checkpoint and what is stored beside it.

    Parameters
    ----------
    role : the option that names the checkpoint.
    checkpoint : its path, or None.
    """
    return (*command_file(role, checkpoint), *_record(checkpoint))


def _record(beside: str | None) -> tuple[CommandFile, ...]:
    from hetero_mtf.commands.workload.stored import data_path

    return command_file(RECORD, data_path(beside)) if beside else ()
