"""Options that go with `--data nifti:TABLE`: how scans are read, prepared and divided."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, TypeAlias

import click

from hetero_mtf.commands.options import shared as options
from hetero_mtf.commands.options.shared import Command, FiniteRange, Three
from hetero_mtf.commands.options.typed import check_named_once, taken_fields
from hetero_mtf.errors import DataError

CHANNELS = 1
TABLE = "participants.tsv"  # the name that BIDS gives it
BATCH_SIZE = 4  # scans a step; of images 64 are no more
SIZES = f"{options.BATCH_SIZE}, of volumes {BATCH_SIZE}"
NAN_SHARE = "part of a scan's voxels that may be NaN, as some tools write around the brain; they become 0.  [default: 0.05]"
FOLD = "the fold to test on, from 1, or all: a training for each, then the scores of all together."
CENTRE = "the table's column of sites, by each of which scores are printed.  [default: site or site_id, where there is one]"
POSITIVE = "Volumes: the class that sensitivity is of.  [default: the one named as worse]"
WEIGHTS = "balanced, or CLASS=WEIGHT, which may be repeated: how much a scan counts in the loss of training.  [default: all alike]"
SPELLINGS = "alike: sub-01, 01 and 1 are one participant; exact: only equal text is.  [default: the training's, else alike]"
CLASSES = "a class; repeat it for each, in order. One may be named None or unknown, else missing.  [default: the table's labels]"
_TYPED = {"sites": "site", "classes": "class"}  # options whose name is not that of the field
_IDS = ("alike", "exact")
_NORMALISATIONS = ("zscore", "minmax", "percentile", "none")
_MASKS = ("none", "nonzero", "otsu", "table")


Weight: TypeAlias = tuple[str, float | None]
BALANCED: Weight = ("balanced", None)
ALL = "all"


class ClassType(click.ParamType):
    """The name of a class, as it is read from a table."""

    name = "class"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        """Return the name in the form of `cell_text`."""
        if str(value).isascii():
            return str(value).strip()
        from hetero_mtf.data.volumes.cohort.spelling import cell_text  # loads SciPy and nibabel, for names beyond ASCII only

        return cell_text(str(value))


class ClassWeightType(click.ParamType):
    """How much a scan counts in the loss: the weight of its class, or balanced."""

    name = "balanced or class=number"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Weight:
        """Return the class and its weight, or `BALANCED`."""
        if isinstance(value, tuple) or value == BALANCED[0]:
            return value if isinstance(value, tuple) else BALANCED
        name, equals, text = ClassType().convert(value, parameter, context).rpartition("=")
        if not equals or not name:
            self.fail(f"{value!r} is neither balanced nor of the form class=number, such as AD=2.5", parameter, context)
        return name, FiniteRange(0, min_open=True).convert(text, parameter, context)

    def spelt(self, value: Weight) -> str:
        """Return a weight as one would type it."""
        return value[0] if value[1] is None else f"{value[0]}={value[1]!r}"


class FoldType(click.ParamType):
    """The number of a fold, from 1, or all."""

    name = "fold"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int | str:
        """Return the number, or `ALL`."""
        if str(value).casefold() == ALL:
            return ALL
        try:
            return int(click.IntRange(1).convert(value, parameter, context))
        except click.BadParameter:
            self.fail(f"{value!r} is neither the number of a fold, from 1, nor {ALL}", parameter, context)


@dataclasses.dataclass(frozen=True)
class VolumeOptions:
    """The options of volumes by their names; None for what is not given."""

    label: str | None = None
    sites: str | None = None
    cache: str | None = None
    no_cache: bool = False
    workers: int | None = None
    skip_bad: bool = False
    shape: tuple[int, int, int] | None = None
    spacing: tuple[float, float, float] | None = None
    orientation: str | None = None
    interpolation: int | None = None
    normalisation: str | None = None
    mask: str | None = None
    volume: int | None = None
    nan_share: float | None = None
    flip: bool = False
    shift: int | None = None
    noise: float | None = None
    class_weight: tuple[Weight, ...] = ()
    classes: tuple[str, ...] = ()
    ids: str | None = None
    split: str | None = None
    test_fraction: float | None = None
    validation_fraction: float | None = None
    folds: int | None = None
    fold: int | str | None = None
    split_seed: int | None = None

    def __post_init__(self) -> None:
        if self.cache is not None and self.no_cache:
            raise click.UsageError("--cache and --no-cache exclude each other")
        if (self.folds is None) != (self.fold is None):
            raise click.UsageError(
                "--folds and --fold go together: --folds 5 --fold 1 tests on the first of five folds, --fold all on each in turn"
            )
        if self.all_folds and self.split is not None:
            raise click.UsageError("--split goes with one fold: with --fold all the splits follow from --folds and --split-seed")
        if self.all_folds and self.test_fraction is not None:
            raise click.UsageError("--test-fraction does not go with --fold all, which tests on each fold in turn")
        if len(self.classes) == 1 or len({*self.classes}) < len(self.classes):
            raise click.UsageError("--class names all classes, two at least, and each once: --class NC --class AD")
        if BALANCED in self.class_weight and len(self.class_weight) > 1:
            raise click.UsageError("--class-weight balanced sets the weights of all classes; leave the others out")
        check_named_once("--class-weight", self.class_weight)

    @property
    def all_folds(self) -> bool:
        """Whether each fold is trained and tested on in turn."""
        return self.fold == ALL

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were used, as they are typed."""
        used = [name for name, value in vars(self).items() if value is not None and value is not False and value != ()]
        return tuple(f"--{_TYPED.get(name, name).replace('_', '-')}" for name in used)

    def check_data(self, data: str) -> None:
        """Refuse the options where the data are no volumes.

        Parameters
        ----------
        data : --data.

        Raises
        ------
        click.UsageError
            If one is used all the same.
        """
        if self.given and not is_volumes(data):
            raise click.UsageError(f"{', '.join(self.given)} {'go' if len(self.given) > 1 else 'goes'} with --data nifti:TABLE only")

    @classmethod
    def taken(cls, given: dict[str, Any]) -> VolumeOptions:
        """Return these options out of all that a command was given, and leave the others there.

        Parameters
        ----------
        given : name -> value; changed.
        """
        return cls(**taken_fields(cls, given))


class DataName(click.ParamType):
    """The name of a data set; of a folder of scans its table, FOLDER/participants.tsv, is taken."""

    name = "data"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        """Return the name of the data set, with the table where a folder of scans is named."""
        kind, colon, place = str(value).partition(":")
        folder = pathlib.Path(place)
        return f"{kind}{colon}{folder / TABLE}" if place and is_volumes(str(value)) and folder.is_dir() else str(value)


def is_volumes(data: str) -> bool:
    """Return whether --data, or --input, names a table of scans.

    Parameters
    ----------
    data : the option's value.
    """
    return data.partition(":")[0] == "nifti"


def table_of(data: str) -> str:
    """Return the path in "nifti:TABLE".

    Parameters
    ----------
    data : --data or --input.

    Raises
    ------
    DataError
        If it has no path, or there is no such file.
    """
    table = data.partition(":")[2]
    if not table:
        raise DataError(f"data set {data!r} names no table", "write nifti:participants.tsv")
    if not pathlib.Path(table).is_file():
        others = sorted(path.name for path in pathlib.Path(table).parent.glob("*.tsv"))
        there = f", its folder has {', '.join(others[:5])}" if others else ""
        raise DataError(f"there is no table {table}{there}", "check the path behind nifti:")
    return table


def default_batch_size(data: str) -> int:
    """Return the default batch size, samples/step.

    Parameters
    ----------
    data : --data, or --input.
    """
    return BATCH_SIZE if is_volumes(data) else options.BATCH_SIZE


def data_option(command: Command) -> Command:
    """Add --data."""
    forms = "digits | mnist:DIR | cifar10:DIR | npz:FILE | nifti:FOLDER or nifti:TABLE.tsv | synthetic[:HxWxC:CLASSES:COUNT]"
    return click.option("--data", type=DataName(), required=True, metavar="DATA", help=f"The data set: {forms}.")(command)


def reading_options(command: Command) -> Command:
    """Add what training and all that comes after it needs: --label, --site, --ids, --cache, --no-cache, --workers and --skip-bad."""
    folder = "folder for decoded scans, which are then decoded again only where they change.  [default: .hetero_mtf_cache beside the table]"
    for option in reversed(
        (
            click.option("--label", metavar="COLUMN", help="Volumes: the table's column of labels.  [default: diagnosis]"),
            click.option("--site", "sites", metavar="COLUMN", help=f"Volumes: {CENTRE}"),
            click.option("--ids", type=click.Choice(_IDS), help=f"Volumes: {SPELLINGS}"),
            click.option("--cache", metavar="DIR", help=f"Volumes: {folder}"),
            click.option("--no-cache", is_flag=True, help="Volumes: decode every scan each time."),
            click.option("--workers", type=click.IntRange(1), help="Volumes: threads that decode scans.  [default: 2]"),
            click.option("--skip-bad", is_flag=True, help="Volumes: leave out rows and files with faults, not stop and list them."),
        )
    ):
        command = option(command)
    return command


def volume_options(command: Command) -> Command:
    """Add all options of volumes that training takes."""
    positive = FiniteRange(0, 1, min_open=True, max_open=True)
    steps = (
        click.option("--shape", type=Three(int), help="Volumes: voxels after cropping or padding.  [default: the model's input]"),
        click.option("--spacing", type=Three(float), help="Volumes: mm/voxel after resampling.  [default: each scan's own]"),
        click.option("--orientation", metavar="AXES", help="Volumes: where the axes point to.  [default: RAS]"),
        click.option("--interpolation", type=click.IntRange(0, 3), help="Volumes: order of the spline.  [default: 1]"),
        click.option("--normalisation", type=click.Choice(_NORMALISATIONS), help="Volumes: intensities.  [default: zscore]"),
        click.option("--mask", type=click.Choice(_MASKS), help="Volumes: what is kept; table: the column mask.  [default: none]"),
        click.option("--volume", type=click.IntRange(0), help="Volumes: which one of files with several.  [default: refuse them]"),
        click.option("--nan-share", type=FiniteRange(0, 1, max_open=True), help=f"Volumes: {NAN_SHARE}"),
        click.option("--flip", is_flag=True, help="Volumes: exchange left and right in half of those trained on."),
        click.option("--shift", type=click.IntRange(0), metavar="VOXELS", help="Volumes: move those trained on by up to so much."),
        click.option("--noise", type=FiniteRange(0), help="Volumes: noise added in training, in standard deviations."),
        click.option("--class", "classes", type=ClassType(), multiple=True, metavar="NAME", help=f"Volumes: {CLASSES}"),
        click.option("--class-weight", type=ClassWeightType(), multiple=True, metavar="balanced|CLASS=WEIGHT", help=f"Volumes: {WEIGHTS}"),
        click.option("--split", metavar="FILE", help="Volumes: the split, read if it is there, else drawn and written."),
        click.option("--test-fraction", type=positive, help="Volumes: part of the participants to test on.  [default: 0.2]"),
        click.option("--validation-fraction", type=positive, help="Volumes: part for validation after each epoch.  [default: none]"),
        click.option("--folds", type=click.IntRange(2), help="Volumes: number of folds, instead of --test-fraction."),
        click.option("--fold", type=FoldType(), metavar="NUMBER|all", help=f"Volumes: {FOLD}"),
        click.option("--split-seed", type=click.IntRange(0, 2**32 - 1), help="Volumes: seed of the split.  [default: 0]"),
    )
    for option in reversed(steps):
        command = option(command)
    return reading_options(command)
