from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np
import pytest

from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.data.volumes import (
    Augmentation,
    ClassWeight,
    CohortOptions,
    Preprocessing,
    SplitChoice,
    VolumeCache,
    VolumeData,
    VolumeRequest,
    open_volumes,
)
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.splits import Split
from hetero_mtf.data.volumes.volume_record import VolumeRecord
from hetero_mtf.errors import DataError
from hetero_mtf.json_records import read_value
from tests.data.volumes.nifti_files import SHAPE, write_cohort


def opened(folder: pathlib.Path, **changes) -> VolumeData:
    table = write_cohort(folder, 10)
    request = VolumeRequest(str(table), VolumeCache(folder / "cache", Preprocessing(SHAPE)), CohortOptions(), SplitChoice())
    return open_volumes(dataclasses.replace(request, **changes), ("a note",))


def test_scans_are_data_with_parts(tmp_path: pathlib.Path) -> None:
    data = opened(tmp_path, choice=SplitChoice(validation=0.2))
    assert isinstance(data, LabelledData) and data.classes == 2 and data.name == f"nifti:{tmp_path / 'participants.tsv'}"
    assert data.sample_shape == (*SHAPE, 1) and data.label_shape == () and data.counts == {"train": 6, "validation": 2, "test": 2}
    with data.training(4, seed=1) as source:
        assert [batch.x.shape for batch in source] == [(4, *SHAPE, 1), (2, *SHAPE, 1)]
    with data.testing(4, "validation") as source:
        (batch,) = source
        assert batch.y.tolist() == data.part("validation").y.tolist()


def test_what_is_said_ends_with_the_leak_check(tmp_path: pathlib.Path) -> None:
    said = opened(tmp_path, augmentation=Augmentation(flip=True)).lines
    assert said[0] == "a note" and said[1] == "10 scans of 10 participants: 5 AD, 5 NC"
    assert "augmentation: left and right exchanged in half of the volumes" in said and said[-1].startswith("leak check passed")


def test_classes_weigh_in_training_what_is_asked_for_and_are_told(tmp_path: pathlib.Path) -> None:
    data = opened(tmp_path, class_weight=ClassWeight((("NC", 3.0),)))
    assert data.class_weight == data.record.class_weight == (1.0, 3.0) and "weights in the loss: 1 AD, 3 NC" in data.lines
    with data.training(8) as trained, data.testing(2) as tested:
        (batch,), (other,) = trained, tested
    assert batch.sample_weight.tolist() == [1.0 + 2 * number for number in batch.y] and other.sample_weight is None
    assert opened(tmp_path, class_weight=ClassWeight(balanced=True)).class_weight == (1.0, 1.0)
    with pytest.raises(DataError, match="there is a weight of class MCI and no such class, but AD, NC; write it as the table does"):
        opened(tmp_path, class_weight=ClassWeight((("MCI", 3.0),)))


def test_the_first_samples_are_those_trained_on_as_they_are(tmp_path: pathlib.Path) -> None:
    data = opened(tmp_path, augmentation=Augmentation(noise=1.0), dtype="float64")
    x, y = data.first(3)
    assert x.dtype == np.float64 and x.shape == (3, *SHAPE, 1) and y.tolist() == data.part("train").y[:3].tolist()
    np.testing.assert_array_equal(x[0, ..., 0], data.cache.get(data.part("train").scans[0]))
    assert len(data.first(100)[0]) == 8
    with data.testing(2) as tested, data.training(8) as trained:
        np.testing.assert_array_equal(next(iter(tested)).x[0, ..., 0], data.cache.get(data.part("test").scans[0]))
        assert not any(np.array_equal(sample, x[0]) for sample in next(iter(trained)).x)


def test_what_is_kept_survives_json_and_knows_its_parts(tmp_path: pathlib.Path) -> None:
    data, faults = opened(tmp_path), []
    read = read_value(VolumeRecord, json.loads(json.dumps(dataclasses.asdict(data.record))), "", faults)
    assert read == data.record and not faults
    assert read.part(data.split.test[0]) == "test" and read.part("sub-77") == "none" and read.is_of(data.participants)
    assert str(tmp_path) not in json.dumps(dataclasses.asdict(read))


def test_a_table_is_known_by_what_it_says_wherever_it_lies(tmp_path: pathlib.Path) -> None:
    data = opened(tmp_path)
    record, people = data.record, data.participants

    def changed(number: int, **changes: Any) -> Participants:
        scans = [dataclasses.replace(scan, **(changes if at == number else {})) for at, scan in enumerate(people.scans)]
        return dataclasses.replace(people, scans=tuple(scans))

    moved = [dataclasses.replace(scan, path=pathlib.Path("/elsewhere") / scan.path.name) for scan in people.scans]
    assert record.is_of(dataclasses.replace(people, path=pathlib.Path("/elsewhere/other.tsv"), scans=tuple(moved)))
    more = Scan("sub-77", None, "AD", pathlib.Path("77.nii"))
    for scans in ((*people.scans, more), people.scans[1:]):
        assert record.is_of(dataclasses.replace(people, scans=scans))
    other = "AD" if people.scans[3].label == "NC" else "NC"
    assert not record.is_of(changed(3, label=other)) and not record.is_of(changed(3, path=pathlib.Path("other.nii")))
    assert not record.is_of(dataclasses.replace(people, scans=(more,)))
    earlier = dataclasses.replace(record, table=str(people.path), scans=())
    assert earlier.is_of(people) and not earlier.is_of(dataclasses.replace(people, path=tmp_path / "other.tsv"))


def test_a_table_with_other_spellings_is_known_unless_ids_are_taken_exactly(tmp_path: pathlib.Path) -> None:
    data = opened(tmp_path)
    scans = [dataclasses.replace(scan, participant=f"{int(scan.participant[4:])}.0") for scan in data.participants.scans]
    people = dataclasses.replace(data.participants, scans=tuple(scans))
    tested = tuple(f"{int(who[4:])}.0" for who in data.split.test)
    assert data.record.is_of(people) and data.record.part(tested[0]) == "test"
    parts = data.record.parts(people)
    assert {scan.participant for scan, part in zip(scans, parts) if part == "test"} == {*tested} and parts.count("train") == 8
    assert set(data.record.trained_on(people)) == {*people.ids} - {*tested}
    exact = dataclasses.replace(people, comparison="exact")
    assert not data.record.is_of(exact) and data.record.trained_on(exact) == () and set(data.record.parts(exact)) == {"none"}


def test_how_ids_are_compared_is_asked_for_and_recorded(tmp_path: pathlib.Path) -> None:
    table = write_cohort(tmp_path, 10)
    table.write_text(table.read_text().replace("sub-02", "SUB-1"))
    request = VolumeRequest(str(table), VolumeCache(tmp_path / "cache", Preprocessing(SHAPE)), CohortOptions(), SplitChoice())
    with pytest.raises(
        DataError, match=r"participants 'sub-01' \(line 3\) and 'SUB-1' \(line 4\) differ in writing only; write each alike"
    ):
        open_volumes(request)
    with pytest.raises(DataError, match="leaving out the bad rows .* is not enough"):
        open_volumes(dataclasses.replace(request, cohort=CohortOptions(skip_bad=True)))
    data = open_volumes(dataclasses.replace(request, cohort=CohortOptions(ids="exact")))
    assert data.record.ids == "exact" and data.record.part("1") == "none" and len(data.participants.ids) == 10
    document = dataclasses.asdict(data.record)
    del document["ids"]
    assert read_value(VolumeRecord, json.loads(json.dumps(document)), "", []).ids == "alike"
    with pytest.raises(DataError, match="ids is 'both'; give 'alike' or 'exact'"):
        dataclasses.replace(data.record, ids="both")


def test_a_record_of_labels_in_another_unicode_form_is_of_the_same_classes() -> None:
    record = VolumeRecord("t.tsv", "e\u0301tat", ("e\u0301", "z"), Preprocessing(SHAPE), Augmentation(), Split(("e\u03011",), ("b",)))
    assert record.label == "\u00e9tat" and record.classes == ("\u00e9", "z") and record.part("\u00e91") == "train"


def test_a_part_that_is_not_there_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match="the split has no validation part, it has train, test; name one of them"):
        opened(tmp_path).testing(2, "validation")


def test_a_cache_that_cannot_be_written_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    said = opened(tmp_path, cache=VolumeCache(tmp_path / "file" / "cache", Preprocessing(SHAPE))).lines
    assert any(line.startswith("decoded volumes are not kept from here on") for line in said)
