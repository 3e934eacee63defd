"""What is stored beside a checkpoint: read as it was written, or refused with its faults."""

import dataclasses
import json

import pytest

from hetero_mtf.commands.process.run_files import beside
from hetero_mtf.commands.workload.data_record import Stored, load_stored, origin_of
from hetero_mtf.data.volumes import Augmentation, Preprocessing
from hetero_mtf.data.volumes.cohort.splits import Split
from hetero_mtf.data.volumes.volume_record import VolumeRecord
from hetero_mtf.errors import CheckpointError, HeteroError
from hetero_mtf.training.checkpoint import State, save_state

STEPS, CHANGES, SPLIT = Preprocessing((8, 8, 8), (2, 2, 2)), Augmentation(True, 1, 0.5), Split(("a",), ("b",))
RECORD = VolumeRecord("t.tsv", "group", ("AD", "NC"), STEPS, CHANGES, SPLIT, scans=("abc", "def"))
STRUCTURE = {"module": "keras", "class_name": "Sequential", "config": {"layers": [[], {"a": None}]}}
STORED = Stored("abc", "net.py:net", ("size=8", "kind='small'", "blocks=(1, 2)"), "float32", RECORD, STRUCTURE)


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint with what is stored beside it."""
    path = tmp_path / "state.npz"
    save_state(path, State("abc", "SGD", {}, 0, 0))
    STORED.save(beside(path, "data"))
    return path


def changed(path, **entries):
    """Write other entries over those stored."""
    place = beside(path, "data")
    place.write_text(json.dumps({**json.loads(place.read_text()), **entries}))


def test_it_is_read_as_it_was_written(checkpoint):
    assert load_stored(checkpoint) == STORED and STORED.origin == "net.py:net, size=8, kind='small', blocks=(1, 2)"


def test_it_must_be_there_and_of_the_same_network(checkpoint, tmp_path):
    dataclasses.replace(STORED, network="def").save(beside(checkpoint, "data"))
    with pytest.raises(CheckpointError, match="is of a network with digest def, .*state.npz of one with abc; keep the two files"):
        load_stored(checkpoint)
    beside(checkpoint, "data").unlink()
    with pytest.raises(CheckpointError, match="there is no .*state-data.json beside .*, which says how scans were prepared for it; name a"):
        load_stored(checkpoint)


def test_no_path_of_this_machine_is_stored(checkpoint):
    assert origin_of("/home/a/nets/a.py:net") == "a.py:net" and origin_of("package.nets:net") == "package.nets:net"


def test_a_file_of_version_1_is_read_and_has_no_structure(checkpoint):
    document = json.loads(beside(checkpoint, "data").read_text())
    del document["structure"], document["data"]["scans"]
    beside(checkpoint, "data").write_text(json.dumps({**document, "version": 1}))
    assert load_stored(checkpoint) == dataclasses.replace(STORED, structure=None, data=dataclasses.replace(RECORD, scans=()))
    for version, text in ((2, "structure: is missing"), (3, "has version 3 and this program reads 2")):
        beside(checkpoint, "data").write_text(json.dumps({**document, "version": version}))
        with pytest.raises(HeteroError, match=text):
            load_stored(checkpoint)
    changed(checkpoint, version=1, structure={})
    with pytest.raises(CheckpointError, match="1 fault: structure: is not known"):
        load_stored(checkpoint)


def test_how_ids_are_compared_is_stored_and_a_file_without_it_is_read(checkpoint):
    exact = dataclasses.replace(STORED, data=dataclasses.replace(RECORD, ids="exact"))
    exact.save(beside(checkpoint, "data"))
    assert load_stored(checkpoint).data.ids == "exact"
    data = dataclasses.asdict(RECORD)
    changed(checkpoint, data={name: value for name, value in data.items() if name != "ids"})
    assert load_stored(checkpoint) == STORED and load_stored(checkpoint).data.ids == "alike"
    changed(checkpoint, data={**data, "ids": "similar"})
    with pytest.raises(CheckpointError, match="cannot be used: ids is 'similar'; give 'alike' or 'exact'"):
        load_stored(checkpoint)


def test_a_dtype_that_is_none_is_refused(checkpoint):
    changed(checkpoint, dtype="object")
    with pytest.raises(CheckpointError, match="has the dtype 'object', must be one of float32, float64; train again"):
        load_stored(checkpoint)


def test_every_fault_of_it_is_named(checkpoint):
    changed(checkpoint, dtype=3, model=None, surplus=1)
    with pytest.raises(CheckpointError, match="3 faults: model: is None.*dtype: is 3.*surplus: is not known; train again, or take"):
        load_stored(checkpoint)
    changed(checkpoint, data={**dataclasses.asdict(RECORD), "augmentation": {"noise": -1.0}})
    with pytest.raises(CheckpointError, match="cannot be used: the augmentation cannot be done: noise is -1.0"):
        load_stored(checkpoint)


def test_a_truncated_one_is_refused(checkpoint):
    beside(checkpoint, "data").write_text(beside(checkpoint, "data").read_text()[:50])
    with pytest.raises(HeteroError, match="is not a complete JSON file .*; make it again with hetero-mtf train"):
        load_stored(checkpoint)
