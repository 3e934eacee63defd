"""Predicting scans: a table of probabilities, scores where the truth is known, and maps of what the network attends to."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
from typing import Any

import click
import nibabel

from hetero_mtf.commands.mri.predictions import UNKNOWN, Predictions, predicted
from hetero_mtf.commands.mri.score_report import score_report
from hetero_mtf.commands.mri.volume_workload import centre_column, opened_cache, stored_network
from hetero_mtf.commands.options.requests import PredictRequest
from hetero_mtf.commands.options.volume_options import BATCH_SIZE, table_of
from hetero_mtf.commands.process.run_files import curves_beside
from hetero_mtf.commands.workload.chosen_loss import last_activation
from hetero_mtf.commands.workload.data_record import Stored, load_stored
from hetero_mtf.commands.workload.restored_trainer import restored
from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.cohort.cohort_options import WORKERS, CohortOptions
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.spelling import cell_text
from hetero_mtf.data.volumes.cohort.tsv_table import read_table
from hetero_mtf.data.volumes.cohort_check import Cohort, open_cohort
from hetero_mtf.data.volumes.images.scan import read_foreground, to_scan_space
from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.report.progress import progress
from hetero_mtf.report.slice_picture import save_slices
from hetero_mtf.training.checkpoint import load_state
from hetero_mtf.training.grad_cam import GradCam
from hetero_mtf.units import list_text

_NAMED = 5  # participants in a line


@dataclasses.dataclass(frozen=True)
class Maps:
    """Which maps are wanted.

    Parameters
    ----------
    folder : where they go.
    layer : name of the layer to look at; None takes the last one on the last convolution's grid.
    classes : classes to draw; none stands for the predicted one.
    participants : whose scans; none stands for all.
    """

    folder: str
    layer: str | None = None
    classes: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()


def predict_volumes(request: PredictRequest) -> Predictions:
    """Write the predictions for the scans of a table, print their scores, and return them.

    Parameters
    ----------
    request : the options of the command; its data are "nifti:TABLE".

    Raises
    ------
    HeteroError
        If something cannot be read, written, or does not fit.
    """
    data, maps = request.data or "", _maps_of(request)
    table, state = table_of(data), load_state(request.checkpoint)
    stored = load_stored(request.checkpoint, state)
    stored.check_classes(() if request.positive is None else (request.positive,), "--positive")
    model, graph = stored_network(request.origin, stored, data, request.checkpoint, state)
    if maps is not None:
        _check_maps(maps, stored, model, graph)
    cache, notes = opened_cache(table, request.volumes, stored.data.preprocessing)
    people = _cohort(table, cache, stored, request, notes).participants
    mapped = () if maps is None else _mapped(maps, people)
    size = request.batch_size or (BATCH_SIZE if request.plan is None else None)
    with restored(request, model, state, size, "mse") as trainer:
        predictions = predicted(trainer, graph, people, cache, request.volumes.workers or WORKERS, _parts(stored, people))
        trained = trainer.to_keras() if mapped else None
    predictions.save(request.target)
    _report(predictions, stored, request)
    if maps is not None:
        scans = [(scan, predictions.numbers[people.scans.index(scan)]) for scan in mapped]
        draw_maps(maps, trained, graph, cache, scans, people.classes)
    return predictions


def _maps_of(request: PredictRequest) -> Maps | None:
    if request.grad_cam is None:
        return None
    return Maps(request.grad_cam, request.grad_cam_layer, request.grad_cam_class, request.participant)


def draw_maps(
    maps: Maps, model: Any, graph: LayerGraph, cache: VolumeCache, scans: list[tuple[Scan, int]], classes: tuple[str, ...]
) -> list[pathlib.Path]:
    """Write a map of each scan and class as NIfTI on the scan's own grid, and as a picture, and return the NIfTI files.

    Maps are 0 outside the head, or outside the mask that the table names.

    Parameters
    ----------
    maps : which.
    model : trained Keras model.
    graph : its LayerGraph.
    cache : gives the scans' arrays.
    scans : the scans with their predicted class numbers.
    classes : names of the classes.

    Raises
    ------
    HeteroError
        If there is no such layer, or a file cannot be written.
    """
    cam, written, sources = GradCam(model, last_activation(graph), maps.layer), dict[pathlib.Path, str](), list[str]()
    silent = 0
    with progress("drawing maps", len(scans)) as advance:
        for scan, number in scans:
            volume, foreground = cache.volume(scan), read_foreground(scan.path, cache.steps, scan.mask)
            sources.append(foreground.source)
            for wanted in [classes.index(name) for name in maps.classes] or [number]:
                heat = cam.map(volume.values[..., None], wanted, foreground.fitted)
                image = to_scan_space(heat, volume.affine, scan.path, foreground.own)
                image.header["descrip"] = _description(classes[wanted])
                path = pathlib.Path(maps.folder) / f"{_name(scan.key)}_gradcam-{_name(classes[wanted])}.nii.gz"
                _save(image, path)
                title = f"{scan.key}: evidence for {classes[wanted]} (predicted: {classes[number]})"
                save_slices(path.with_name(f"{path.name.removesuffix('.nii.gz')}.png"), volume.values, heat, volume.affine, title)
                written[path] = classes[wanted]
                silent += not heat.any()
            advance(scan.key)
    for line in _map_lines(maps.folder, cam.layer, list(written.values()), sources):
        click.echo(line)
    if silent:
        click.echo(f"{silent} of them are 0 everywhere: that layer has no evidence for that class within the foreground")
    return list(written)


def _map_lines(folder: str, layer: str, classes: list[str], sources: list[str]) -> tuple[str, ...]:
    """Return lines on where maps are, of which classes, and outside what they are 0."""
    count = f"{len(classes)} map{'s' if len(classes) > 1 else ''}"
    counts = ", ".join(f"{number} for {name}" for name, number in collections.Counter(classes).items())
    kept = ", ".join(f"{source} ({number})" for source, number in collections.Counter(sources).items())
    return (
        f"{count} of layer {layer} in {folder}, as NIfTI on each scan's own grid and as pictures",
        f"classes: {counts}, named in each file's name, description and title",
        f"maps are 0 outside the foreground; scans by its source: {kept}",
    )


def _description(name: str) -> bytes:
    """Return the description of a class's map in a NIfTI header, at most 79 bytes."""
    return f"Grad-CAM: evidence for {name}".encode()[:79].decode(errors="ignore").encode()


def _cohort(table: str, cache: VolumeCache, stored: Stored, request: PredictRequest, notes: tuple[str, ...]) -> Cohort:
    options, workers = request.volumes, request.volumes.workers or WORKERS
    label, column = options.label or stored.data.label, centre_column(table, stored, options)
    taken = CohortOptions(label, False, stored.data.classes, options.skip_bad, workers, column, options.ids or stored.data.ids)
    with progress("reading scans", len(read_table(table).rows)) as advance:
        cohort = open_cohort(table, cache, taken, advance=advance)
    for line in (*notes, *cohort.lines(), *(f"scans: {line}" for line in stored.data.preprocessing.lines())):
        click.echo(line)
    return cohort


def _parts(stored: Stored, people: Participants) -> tuple[str, ...]:
    if not stored.data.is_of(people):
        return (UNKNOWN,) * len(people.scans)
    return stored.data.parts(people)


def _report(predictions: Predictions, stored: Stored, request: PredictRequest) -> None:
    """Print where the predictions are, the leak check, and the scores over scans that were not trained on."""
    scans = predictions.participants.scans
    click.echo(f"{request.target}: {len(scans)} scan{'s' if len(scans) != 1 else ''}, probabilities of {', '.join(stored.data.classes)}")
    unknown = [scan.label for scan in scans if scan.label and scan.label not in stored.data.classes]
    if unknown:
        listed = ", ".join(sorted(set(unknown)))
        click.echo(f"{len(unknown)} of them have a label that is no class of the network ({listed}), and are not scored")
    click.echo(_leak_line(predictions, stored))
    if predictions.fresh:
        scored = score_report(predictions, f"Predictions of {len(predictions.fresh)} scans", predictions.fresh, request.positive)
        click.echo(f"\n{scored.text()}\n")
        scored.draw(curves_beside(request.target), None, "predict")
    else:
        click.echo("no scores: there is no scan of a known class that was not trained on")


def _leak_line(predictions: Predictions, stored: Stored) -> str:
    seen = sum(part in ("train", "validation") for part in predictions.parts)
    if UNKNOWN not in predictions.parts:
        count = f"{seen} of {len(predictions.parts)} scans"
        return f"leak check: {count} are of participants that were trained on or chosen by, and are not scored"
    alike = stored.data.trained_on(predictions.participants)
    other = f"leak check: this is not the table that was trained with ({stored.data.table})"
    remedy = f", make sure that they are others: {list_text(alike, _NAMED)}" if alike else ""
    return f"{other}; {len(alike)} of its participants are named like some that were trained on{remedy}"


def _check_maps(maps: Maps, stored: Stored, model: Any, graph: LayerGraph) -> None:
    """Refuse maps that cannot be drawn before anything is computed, and make their folder."""
    stored.check_classes(maps.classes, "--grad-cam-class")
    GradCam(model, last_activation(graph), maps.layer)
    try:
        pathlib.Path(maps.folder).mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise HeteroError(f"cannot make the folder {maps.folder}: {fault.strerror or fault}", "name another with --grad-cam") from fault


def _mapped(maps: Maps, people: Participants) -> tuple[Scan, ...]:
    known = set(people.spellings)
    missing = [who for who in maps.participants if people.form(cell_text(who)) not in known]
    if missing:
        raise DataError(f"--participant {', '.join(missing)} is not among the scans of {people.path}", "write ids as the table does")
    scans = people.scans if not maps.participants else people.part(map(cell_text, maps.participants)).scans
    alike = len({scan.key for scan in scans}) < len(scans)  # sub-01 and 01 may be different people, whose keys are equal
    owners = [(scan.key, f"{scan.key}, line {scan.line}" if alike else scan.key) for scan in scans]
    for named in (owners, [(name, name) for name in people.classes]):
        first: dict[str, str] = {}
        for text, owner in named:
            other = first.setdefault(_name(text), owner)
            if other != owner:
                raise DataError(f"the maps of {other!r} and {owner!r} would have one name, with {_name(text)!r}", "rename one of them")
    return scans


def _save(image: Any, path: pathlib.Path) -> None:
    try:
        nibabel.save(image, path)
    except OSError as fault:
        raise HeteroError(f"cannot write {path}: {fault.strerror or fault}", "choose another place or free some space") from fault


def _name(text: str) -> str:
    return re.sub(r"[^\w.-]", "-", text)
