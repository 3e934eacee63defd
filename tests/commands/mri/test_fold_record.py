"""How far a training of all folds has come, as it is stored."""

import json

import pytest

from hetero_mtf.commands.mri.fold_record import FoldRecord, load_record
from hetero_mtf.errors import DataError


def test_what_is_saved_is_loaded_with_results_or_without(tmp_path):
    record, path = FoldRecord(5, {"epochs": "3"}, "/p/plan.json", "abc").begin(2).finish(2).begin(1), tmp_path / "r.json"
    assert load_record(path) is None
    for results in (None, {"mean": {"accuracy": 0.5}}):
        record.save(path, results)
        assert load_record(path) == record
    assert json.loads(path.read_text())["results"]["mean"]["accuracy"] == 0.5 and (record.begun, record.finished) == ((1,), (2,))


def test_a_fold_that_begins_again_is_not_finished():
    record = FoldRecord(3, {}).begin(2).finish(2).begin(3)
    assert record.begin(2) == FoldRecord(3, {}, begun=(2, 3))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"kind": "plan", "version": 1}', '{"kind": "folds", "version": 1}', '{"kind": "folds", "version": 9}', "\x00"],
)
def test_a_damaged_record_is_one_sentence_with_the_remedy(tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"r\.json.*; remove it to train all folds again$"):
        load_record(path)


def test_other_settings_are_named_with_what_they_were():
    record = FoldRecord(3, {"epochs": "3", "seed": "0", "gone": "1"})
    record.check({"epochs": "3", "seed": "0", "gone": "1"}, "r.json")
    with pytest.raises(DataError, match="epochs was 3 and is 4; gone was 1 and is not set; give those .* or remove r.json to begin again"):
        record.check({"epochs": "4", "seed": "0"}, "r.json")
