"""What each command reads and writes: the one place where its files are declared."""

from __future__ import annotations

import os
import pathlib

from hetero_mtf.commands.mri.fold_files import FoldFiles
from hetero_mtf.commands.options.requests import EvaluateRequest, PredictRequest, TrainRequest
from hetero_mtf.commands.options.volume_options import VolumeOptions, is_volumes
from hetero_mtf.commands.process.files import CommandFile, CommandFiles, command_file, identity
from hetero_mtf.commands.process.run_files import beside, beside_plan, best_file, curves_beside
from hetero_mtf.commands.workload.model_source import source_files
from hetero_mtf.devices import environment

MAPS = "*_gradcam-*"  # names of maps
BEST_STATE = "the state of the best epoch"
USED_OPTIONS = "the options as they are used"
LOGS = ("epochs.csv", "epochs.jsonl")
RECORD = "the description of the data"  # what is stored beside a checkpoint of a network for volumes


def train_files(request: TrainRequest) -> CommandFiles:
    """Return the files of `train`, those that it writes beside others included.

    Parameters
    ----------
    request : the options of the command.
    """
    split = command_file("--split", request.volumes.split)
    split_is_read = request.volumes.split is not None and os.path.lexists(request.volumes.split)
    inputs = [*model_files(request.model), *data_files(request.data, request.volumes), *checkpoint_files("--resume", request.resume)]
    inputs += [*command_file("--plan", request.plan), *command_file("--profile", request.profile), *(split if split_is_read else ())]
    outputs = [*command_file("--save", request.save), *command_file("--output", request.output)]
    if request.callbacks.best is not None:
        outputs += [*command_file(BEST_STATE, _best(request.save)), *command_file("the model of the best epoch", _best(request.output))]
    if request.callbacks.log_dir is not None and os.path.isdir(request.callbacks.log_dir):
        outputs += [CommandFile("a log in --log-dir", pathlib.Path(request.callbacks.log_dir, name)) for name in LOGS]
    if request.volumes.all_folds:
        outputs = FoldFiles.of(request).written(request.volumes.folds or 0)
    elif is_volumes(request.data):
        outputs += [file for path in request.run_files for file in _record(path)]
    if request.plan is None and request.profile is None and not request.plans_by_trainer:
        outputs += command_file("the profile to be measured", beside(request.run_file, "profile"))
    if request.plan is None and request.config_file is not None and not request.plans_by_trainer:
        outputs += command_file("the plan to be made", beside(request.run_file, "plan"))
    inputs += [*command_file("--config", request.config), *command_file("--measure", request.repeated)]
    outputs += command_file("the plans of the training", request.plans_file)
    outputs += command_file("the last plan of the training", request.last_plan_file)
    outputs += command_file(USED_OPTIONS, request.config_file)
    outputs += [*command_file("--measured" if request.measured is not None else "the measured times", request.measured_file)]
    outputs += [] if split_is_read else split
    return CommandFiles(inputs, outputs, (("--save", "--resume"), (BEST_STATE, "--resume"), (RECORD, RECORD), (USED_OPTIONS, "--config")))


def doctor_files(json_file: str | None, html: str | None) -> CommandFiles:
    """Return the files of `doctor`.

    Parameters
    ----------
    json_file, html : the options of the command.
    """
    return CommandFiles((), [*command_file("--json", json_file), *command_file("--html", html)])


def calibrate_files(model: str, reuse: str | None, output: str) -> CommandFiles:
    """Return the files of `calibrate`.

    Parameters
    ----------
    model, reuse, output : the options of the command.
    """
    inputs = (*model_files(model), *command_file("--reuse", reuse))
    return CommandFiles(inputs, command_file("--output", output), (("--output", "--reuse"),))


def plan_files(model: str | None, profile: str | None, output: str, convergence: str | None) -> CommandFiles:
    """Return the files of `plan`.

    Parameters
    ----------
    model, profile, output, convergence : the options of the command.
    """
    inputs = (*model_files(model), *command_file("PROFILE", profile))
    return CommandFiles(inputs, (*command_file("--output", output), *command_file("--convergence", convergence)))


def evaluate_files(request: EvaluateRequest) -> CommandFiles:
    """Return the files of `evaluate`.

    Parameters
    ----------
    request : the options of the command.
    """
    trained = trained_files(request.model, request.checkpoint, request.plan)
    outputs = (*command_file("--json", request.json), *command_file("--plot", request.plot), *command_file("--html", request.html))
    return CommandFiles((*trained, *data_files(request.data, request.volumes)), outputs)


def predict_files(request: PredictRequest) -> CommandFiles:
    """Return the files of `predict`; of the maps those that lie there from an earlier call, which new ones may replace.

    Parameters
    ----------
    request : the options of the command.
    """
    place = (request.source or "").partition(":")[2]
    samples = command_file("--input", place) if place else data_files(request.data or "", request.volumes)
    maps = [] if request.grad_cam is None else _map_files(pathlib.Path(request.grad_cam), pathlib.Path(request.target))
    inputs = (*trained_files(request.model, request.checkpoint, request.plan), *samples)
    curves = () if request.data is None else command_file("the picture of the curves", curves_beside(request.target))
    return CommandFiles(inputs, (*command_file("--output", request.target), *curves, *maps))


def _map_files(folder: pathlib.Path, target: pathlib.Path) -> list[CommandFile]:
    """Return the maps in a folder, and the target where a map or the folder itself might take its place."""
    place = identity(folder)
    taken = identity(target) == place or (identity(target.parent) == place and target.match(MAPS))
    return [CommandFile("--grad-cam", path) for path in [*sorted(folder.glob(MAPS)), *([target] if taken else [])]]


def explain_files(plan: str, profile: str | None, measured: str | None, html: str | None) -> CommandFiles:
    """Return the files of `explain`, those that it looks for beside the plan included.

    Parameters
    ----------
    plan, profile, measured, html : the options of the command.
    """
    inputs = [*command_file("PLAN", plan)]
    for kind, given in (("profile", profile), ("measured", measured)):
        default = beside_plan(plan, kind)
        inputs += command_file(f"--{kind}", given) or command_file(f"the {kind} file", default if default.is_file() else None)
    return CommandFiles(inputs, command_file("--html", html))


def model_files(model: str | None) -> tuple[CommandFile, ...]:
    """Return the source files behind --model, which is not imported for it.

    Parameters
    ----------
    model : "FILE.py:function", "package.module:function", or None.
    """
    return tuple(CommandFile("the source of --model", path) for path in source_files(model or ""))


def data_files(data: str, volumes: VolumeOptions) -> tuple[CommandFile, ...]:
    """Return the files behind --data, for a table of scans also the scans, the masks and the decoded scans that are kept.

    Parameters
    ----------
    data : --data.
    volumes : where decoded scans are kept.
    """
    if not is_volumes(data):
        from hetero_mtf.data.named import data_set_files  # loads NumPy, which no help text and no wrong option waits for

        return tuple(CommandFile("a file of --data", path) for path in data_set_files(data))
    # these load SciPy and nibabel, which only tables of scans need before the first line
    from hetero_mtf.data.volumes.cache_folder import cache_places, kept_files
    from hetero_mtf.data.volumes.cohort.reading import listed_files

    table = data.partition(":")[2]
    kept = kept_files(cache_places(table, environment.variables(), volumes.cache))
    files = [CommandFile("the table of --data", pathlib.Path(table))] if table else []
    files += [CommandFile("a scan or mask of --data", path) for path in listed_files(table)]
    return (*files, *(CommandFile("a decoded scan in the cache", path) for path in kept))


def trained_files(model: str | None, checkpoint: str, plan: str | None) -> tuple[CommandFile, ...]:
    """Return what a trained network is read from; without --model that is the checkpoint and what is stored beside it.

    Parameters
    ----------
    model, checkpoint, plan : the options of the command.
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


def _best(path: str | None) -> pathlib.Path | None:
    return None if path is None else best_file(path)


def _record(run_file: str | None) -> tuple[CommandFile, ...]:
    return command_file(RECORD, beside(run_file, "data")) if run_file else ()
