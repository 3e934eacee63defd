"""Volumes for the commands: read by the options of the command, or as they were read for a trained network."""

from __future__ import annotations

from typing import Any

import keras

from hetero_mtf.commands.options.requests import ModelOrigin
from hetero_mtf.commands.options.volume_options import BALANCED, CHANNELS, VolumeOptions, table_of
from hetero_mtf.commands.process.run_files import beside
from hetero_mtf.commands.workload.data_record import Stored, argument_texts, load_stored, origin_of
from hetero_mtf.commands.workload.workload import Workload, load_network
from hetero_mtf.data.volumes.augmentation import Augmentation
from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.cache_folder import cache_folder
from hetero_mtf.data.volumes.class_weight import ClassWeight, weights_text
from hetero_mtf.data.volumes.cohort.cohort_options import WORKERS, CohortOptions
from hetero_mtf.data.volumes.cohort.fold_choice import FoldChoice
from hetero_mtf.data.volumes.cohort.spelling import ALIKE, cell_text
from hetero_mtf.data.volumes.cohort.split_choice import KnownSplit, SplitChoice
from hetero_mtf.data.volumes.cohort.tsv_table import read_table
from hetero_mtf.data.volumes.folded import folded
from hetero_mtf.data.volumes.images.preprocessing import Preprocessing
from hetero_mtf.data.volumes.volume_data import VolumeData, VolumeRequest, open_volumes
from hetero_mtf.devices import environment
from hetero_mtf.errors import CheckpointError, DataError, UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.report.progress import progress
from hetero_mtf.training.checkpoint import State
from hetero_mtf.training.keras_configuration import configuration_of, model_of
from hetero_mtf.units import value_text

LABEL = "diagnosis"
_ALIKE = ("orientation", "interpolation", "normalisation", "mask", "volume", "nan_share")
_STEPS = {"spacing_mm": "spacing", **{name: name for name in _ALIKE}}  # names in Preprocessing and among the options
SPLIT_OPTIONS = ("--split", "--test-fraction", "--validation-fraction", "--folds", "--fold", "--split-seed")


def workload_to_train(
    network: tuple[Any, LayerGraph], how: ModelOrigin, data: str, options: VolumeOptions, before: Stored | None = None
) -> Workload:
    """Return a new network with the volumes that it is to be trained on.

    Parameters
    ----------
    network : Keras model and its LayerGraph; its input gives the shape where the options do not.
    how : how it was made.
    data : "nifti:TABLE".
    options : the options of volumes.
    before : where training goes on, what is stored with it: its split holds, and all else must be as it was.

    Raises
    ------
    DataError
        With every fault of table, files and split; or if options, network or `before` do not fit.
    """
    model, graph = network
    table, steps = table_of(data), preprocessing(options, graph)
    changes = Augmentation(options.flip, options.shift or 0, options.noise or 0.0)
    if before is not None:
        _check_before(before, steps, changes, options)
    classes = (options.classes or None) if before is None else before.data.classes
    ids = options.ids or (ALIKE if before is None else before.data.ids)
    cohort = CohortOptions(options.label or LABEL, True, classes, options.skip_bad, options.workers or WORKERS, options.sites, ids)
    cache, notes = opened_cache(table, options, steps)
    request = VolumeRequest(table, cache, cohort, _choice(options, before), changes, graph.dtype, _class_weight(options))
    volumes = _opened(request, notes)
    if isinstance(request.choice, FoldChoice):
        volumes = folded(volumes, request.choice, request.class_weight)
    _check_classes(volumes.participants.classes, graph)
    if before is not None and volumes.class_weight != before.data.class_weight:
        was, now = (weights_text(weights, volumes.participants.classes) for weights in (before.data.class_weight, volumes.class_weight))
        raise DataError(
            f"training cannot go on with other weights in the loss: they were {was} and are {now}", "give those of the first run"
        )
    if before is not None and volumes.split.parts != before.data.split.within(volumes.participants.ids).parts:
        wrong = "training cannot go on with another split, what was trained on would be tested on"
        raise DataError(wrong, f"leave out {', '.join(name for name in options.given if name in SPLIT_OPTIONS)}")
    called = (origin_of(how.model or ""), argument_texts(how.arguments))
    stored = Stored(graph.digest, *called, graph.dtype, volumes.record, configuration_of(model))
    return Workload(model, graph, volumes, stored)


def trained_workload(how: ModelOrigin, data: str, options: VolumeOptions, checkpoint: str, state: State) -> Workload:
    """Return a trained network, not yet with its weights, and the volumes it was trained on, in the parts they had.

    Parameters
    ----------
    how : how it is made; without a model there the network is built from the stored structure.
    data : "nifti:TABLE", the table of the training, or a copy of it that has moved.
    options : how they are read.
    checkpoint : path of the checkpoint.
    state : the state in it.

    Raises
    ------
    HeteroError
        If the checkpoint, what is stored beside it and the model do not fit each other.
    DataError
        With every fault of table, files and split.
    """
    table, stored = table_of(data), load_stored(checkpoint, state)
    model, graph = stored_network(how, stored, data, checkpoint, state)
    label = options.label or stored.data.label
    column, ids = centre_column(table, stored, options), options.ids or stored.data.ids
    cohort = CohortOptions(label, True, stored.data.classes, options.skip_bad, options.workers or WORKERS, column, ids)
    cache, notes = opened_cache(table, options, stored.data.preprocessing)
    choice = KnownSplit(stored.data.split, checkpoint)
    return Workload(model, graph, _opened(VolumeRequest(table, cache, cohort, choice, dtype=graph.dtype), notes), stored)


def centre_column(table: str, stored: Stored, options: VolumeOptions) -> str | None:
    """Return the column of sites to read: the one that is asked for, else that of the training where the table has it.

    Parameters
    ----------
    table : path of the table.
    stored : what is stored of the training.
    options : --site.

    Raises
    ------
    DataError
        If the table cannot be read.
    """
    return options.sites or (stored.data.centre if stored.data.centre in read_table(table).columns else None)


def stored_network(how: ModelOrigin, stored: Stored, data: str, checkpoint: str, state: State) -> tuple[Any, LayerGraph]:
    """Return the network that something is stored with, not yet with its weights, and its LayerGraph.

    It is built from the stored structure, which is checked first, unless the user names its function: no file leads to an import or
    a call.

    Parameters
    ----------
    how : how it is made; without a model there the network is built from the stored structure.
    stored : what is stored.
    data : name of the data, for messages.
    checkpoint : path of the checkpoint that it is stored beside.
    state : the state in it.

    Raises
    ------
    HeteroError
        If it cannot be made, or is another.
    """
    if how.model is None:
        return _network_of_structure(how, stored, checkpoint, state)
    network, graph = load_network(how.model, how.arguments, how.precision or _precision(state, stored), data)
    if graph.digest != stored.network:
        called = ", ".join([how.model, *argument_texts(how.arguments)])
        wrong = f"{called} has a network with digest {graph.digest}, what was trained ({stored.origin}) had {stored.network}"
        raise CheckpointError(wrong, "give the --model and --model-arg of the training, or leave them out")
    return network, graph


def _precision(state: State, stored: Stored) -> str:
    """Return the dtype policy that a model was made in: that of its state, else its float type."""
    noted = state.notes.get("precision")
    return noted if isinstance(noted, str) else stored.dtype


def _network_of_structure(how: ModelOrigin, stored: Stored, checkpoint: str, state: State) -> tuple[Any, LayerGraph]:
    path = str(beside(checkpoint, "data"))
    if how.arguments or how.precision not in (None, _precision(state, stored)):
        given = f"--precision {how.precision}" if not how.arguments else f"--model-arg {argument_texts(how.arguments)[0]}"
        wrong = f"{given} goes with --model, and without it the network is as {path} describes it"
        raise CheckpointError(wrong, "name the model, or leave the option out")
    if stored.structure is None:
        wrong = f"{path} holds no structure of its network, only the name {value_text(stored.origin)}, which is not followed"
        raise CheckpointError(wrong, "give the --model and --model-arg of the training")
    keras.config.set_floatx(stored.dtype)
    model, graph = model_of(stored.structure, path, state, stored.network)
    shapes = [graph.layers[at].output_shape for at in (*graph.inputs, *graph.outputs)]
    if len(shapes) != 2 or shapes[0] != (*stored.data.preprocessing.shape, CHANNELS):
        wrong = f"{path} describes a network with inputs and outputs of shapes {shapes}, which its scans do not fit"
        raise CheckpointError(wrong, f"take the file that was written with {checkpoint}")
    _check_classes(stored.data.classes, graph)
    return model, graph


def preprocessing(options: VolumeOptions, graph: LayerGraph) -> Preprocessing:
    """Return the steps from files to what a network takes.

    Raises
    ------
    UnsupportedError
        If the network takes no volumes of one channel.
    DataError
        If it takes another shape than the options say, or they are out of range.
    """
    given = graph.layers[graph.inputs[0]].output_shape
    if len(given) != 4 or given[-1] != CHANNELS:
        wrong = f"the model takes samples of shape {given} and a scan is (depth, height, width, {CHANNELS})"
        raise UnsupportedError(wrong, "give a 3-D network, such as hetero_mtf.models.resattnet3d:resattnet18")
    shape = (given[0], given[1], given[2])
    if options.shape is not None and options.shape != shape:
        remedy = f"leave --shape out, or make the model for it, as with --model-arg size={options.shape[0]}"
        raise DataError(f"the model takes volumes of {_by(shape)} voxels and --shape says {_by(options.shape)}", remedy)
    said = {name: getattr(options, option) for name, option in _STEPS.items() if getattr(options, option) is not None}
    return Preprocessing(shape, **said)


def opened_cache(table: str, options: VolumeOptions, steps: Preprocessing) -> tuple[VolumeCache, tuple[str, ...]]:
    """Return the cache that --cache and --no-cache select, and notes on its place.

    Parameters
    ----------
    table : path of the table.
    options : --cache and --no-cache.
    steps : the preprocessing.

    Raises
    ------
    DataError
        If it can be kept nowhere.
    """
    if options.no_cache:
        return VolumeCache(None, steps), ()
    folder, notes = cache_folder(table, environment.variables(), options.cache)
    return VolumeCache(folder, steps), notes


def _opened(request: VolumeRequest, notes: tuple[str, ...]) -> VolumeData:
    with progress("reading scans", len(read_table(request.table).rows)) as advance:
        return open_volumes(request, notes, advance)


def _class_weight(options: VolumeOptions) -> ClassWeight:
    typed = tuple((name, weight) for name, weight in options.class_weight if weight is not None)
    return ClassWeight(typed, BALANCED in options.class_weight)


def _choice(options: VolumeOptions, before: Stored | None) -> SplitChoice | KnownSplit | FoldChoice:
    if before is not None and not set(options.given) & set(SPLIT_OPTIONS):
        return KnownSplit(before.data.split, "the training that goes on")
    if options.all_folds:
        return FoldChoice(options.folds or 0, options.validation_fraction, options.split_seed)
    fold = None if options.fold is None else int(options.fold)
    return SplitChoice(options.split, options.test_fraction, options.validation_fraction, options.folds, fold, options.split_seed)


def _check_classes(classes: tuple[str, ...], graph: LayerGraph) -> None:
    shape = graph.layers[graph.outputs[0]].output_shape
    if shape == (len(classes),) or (len(classes) == 2 and shape == (1,)):
        return
    wrong = f"the model gives outputs of shape {shape} and the table has {len(classes)} classes ({', '.join(classes)})"
    raise DataError(wrong, f"make it for so many, as with --model-arg classes={len(classes)}")


def _check_before(before: Stored, steps: Preprocessing, changes: Augmentation, options: VolumeOptions) -> None:
    was, label = before.data, cell_text(options.label or LABEL)
    faults = [f"the label column was {was.label!r} and is {label!r}"] if was.label != label else []
    renamed = tuple(map(cell_text, options.classes)) not in ((), was.classes)
    faults += [f"classes were {', '.join(was.classes)} and are {', '.join(options.classes)}"] if renamed else []
    old = {**was.preprocessing.to_json(), **was.augmentation.to_json()}
    new = {**steps.to_json(), **changes.to_json()}
    faults += [f"{name} was {old[name]} and is {new[name]}" for name in new if old[name] != new[name]]
    if faults:
        raise DataError(f"training cannot go on with other data: {'; '.join(faults)}", "give the options of the first run")


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
