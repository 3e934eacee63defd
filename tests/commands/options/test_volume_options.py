"""Options of volumes: the choices are those there are."""

import click
import pytest

from hetero_mtf.commands.options import volume_options
from hetero_mtf.commands.options.shared import BATCH_SIZE
from hetero_mtf.commands.options.volume_options import (
    BALANCED,
    ClassType,
    ClassWeightType,
    DataName,
    FoldType,
    VolumeOptions,
    default_batch_size,
)
from hetero_mtf.data.volumes.cohort import spelling
from hetero_mtf.data.volumes.images import preprocessing


def test_the_choices_are_those_of_the_preprocessing():
    assert volume_options._NORMALISATIONS == preprocessing.NORMALISATIONS and volume_options._MASKS == preprocessing.MASKS
    assert volume_options._IDS == spelling.IDS


def test_options_that_were_used_are_named_as_they_are_typed():
    assert VolumeOptions(skip_bad=True, test_fraction=0.1, shift=0).given == ("--skip-bad", "--shift", "--test-fraction")
    assert VolumeOptions().given == ()


def test_options_are_taken_out_of_all_that_a_command_has():
    given = {"label": "group", "epochs": 3, "flip": True}
    assert VolumeOptions.taken(given) == VolumeOptions(label="group", flip=True) and given == {"epochs": 3}


def test_options_without_volumes_are_wrong_usage():
    VolumeOptions(flip=True).check_data("nifti:a.tsv")
    with pytest.raises(click.UsageError, match="--label, --flip go with --data nifti:TABLE only"):
        VolumeOptions(flip=True, label="group").check_data("digits")
    with pytest.raises(click.UsageError, match="--folds and --fold go together"):
        VolumeOptions(fold=2)
    with pytest.raises(click.UsageError, match="--cache and --no-cache exclude each other"):
        VolumeOptions(cache="c", no_cache=True)


def test_a_fold_is_a_number_or_all_and_what_does_not_go_with_all_is_wrong_usage():
    convert = FoldType().convert
    assert [convert(text, None, None) for text in ("1", 3, "all", "ALL")] == [1, 3, "all", "all"]
    for wrong in ("0", "-1", "x", "1.5", ""):
        with pytest.raises(click.BadParameter, match="is neither the number of a fold, from 1, nor all"):
            convert(wrong, None, None)
    assert VolumeOptions(folds=3, fold="all").all_folds and not VolumeOptions(folds=3, fold=1).all_folds
    assert VolumeOptions(folds=3, fold="all", sites="scanner").given == ("--site", "--folds", "--fold")
    with pytest.raises(click.UsageError, match="--folds and --fold go together"):
        VolumeOptions(fold="all")
    with pytest.raises(click.UsageError, match="--split goes with one fold"):
        VolumeOptions(folds=3, fold="all", split="s.json")
    with pytest.raises(click.UsageError, match="--test-fraction does not go with --fold all"):
        VolumeOptions(folds=3, fold="all", test_fraction=0.2)


def test_weights_of_classes_are_numbers_by_name_or_balanced():
    convert = ClassWeightType().convert
    assert convert("a=b=2.5", None, None) == ("a=b", 2.5) and convert("balanced", None, None) == BALANCED
    assert VolumeOptions(class_weight=(("AD", 2.0),)).given == ("--class-weight",)
    for wrong, words in (("AD", "neither balanced nor of the form"), ("=2", "neither"), ("AD=0", "range"), ("AD=nan", "finite")):
        with pytest.raises(click.BadParameter, match=words):
            convert(wrong, None, None)
    with pytest.raises(click.UsageError, match="--class-weight balanced sets the weights of all classes"):
        VolumeOptions(class_weight=(BALANCED, ("AD", 2.0)))


def test_classes_are_named_all_of_them_and_each_once_as_the_table_is_read():
    assert VolumeOptions(classes=("None", "AD"), ids="exact").given == ("--class", "--ids")
    assert ClassType().convert("e\u0301 ", None, None) == "\u00e9" and ClassWeightType().convert("e\u0301=2", None, None) == ("\u00e9", 2)
    for wrong in (("AD",), ("AD", "NC", "AD")):
        with pytest.raises(click.UsageError, match="--class names all classes, two at least, and each once"):
            VolumeOptions(classes=wrong)


def test_scans_are_taken_a_few_at_a_time():
    assert default_batch_size("nifti:a.tsv") == 4 and default_batch_size("digits") == BATCH_SIZE


def test_a_folder_of_scans_stands_for_its_table(tmp_path):
    convert = DataName().convert
    assert convert(f"nifti:{tmp_path}", None, None) == f"nifti:{tmp_path / 'participants.tsv'}"
    assert convert(f"nifti:{tmp_path}/", None, None) == f"nifti:{tmp_path / 'participants.tsv'}"
    for name in (f"nifti:{tmp_path / 'people.tsv'}", "nifti:", f"mnist:{tmp_path}", "digits"):
        assert convert(name, None, None) == name
