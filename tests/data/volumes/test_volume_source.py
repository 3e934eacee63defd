from __future__ import annotations

import json
import pathlib
import threading

import numpy as np
import pytest

from hetero_mtf.data.volumes import Augmentation, Participants, Preprocessing, Scan, VolumeCache, VolumeSource, read_participants
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import SHAPE, numbers, write_cohort

STEPS = Preprocessing(SHAPE, normalisation="none")
CHANGES = Augmentation(flip=True, shift_voxels=1, noise=0.1)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Participants:
    return read_participants(write_cohort(tmp_path_factory.mktemp("cohort"), 7))


@pytest.fixture
def cache(cohort: Participants) -> VolumeCache:
    return VolumeCache(cohort.path.parent / "cache", STEPS)


def samples(batches) -> list[tuple[int, bytes]]:
    return [(int(label), x.tobytes()) for batch in batches for x, label in zip(batch.x, batch.y)]


def test_batches_have_a_channel_axis_class_numbers_and_their_true_size(cohort: Participants, cache: VolumeCache) -> None:
    with VolumeSource(cohort, cache, 3, shuffle=False) as source:
        batches = list(source)
    assert [batch.x.shape for batch in batches] == [(3, *SHAPE, 1), (3, *SHAPE, 1), (1, *SHAPE, 1)]
    assert source.batches_per_epoch == 3 and source.samples == 7 and batches[0].sample_weight is None
    assert np.concatenate([batch.y for batch in batches]).tolist() == [1, 0, 1, 0, 1, 0, 1]
    for number, x in enumerate(np.concatenate([batch.x for batch in batches])):
        np.testing.assert_array_equal(x[..., 0], numbers(SHAPE, number))


def test_every_epoch_has_every_scan_once_in_an_order_of_its_own(cohort: Participants, cache: VolumeCache) -> None:
    with VolumeSource(cohort, cache, 2, seed=3) as source:
        epochs = [samples(source) for _ in range(3)]
    assert sorted(epochs[0]) == sorted(epochs[1]) and len(set(epochs[0])) == 7
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.fast("7-2")
@pytest.mark.parametrize(("batch_size", "workers"), [(1, 1), (2, 4), (7, 2)])
def test_neither_batch_size_nor_threads_nor_the_cache_change_what_a_scan_becomes(
    cohort: Participants, cache: VolumeCache, batch_size: int, workers: int
) -> None:
    with VolumeSource(cohort, cache, 3, seed=1, augmentation=CHANGES) as source:
        expected = [samples(source) for _ in range(2)]
    other = VolumeCache(None, STEPS)
    with VolumeSource(cohort, other, batch_size, seed=1, augmentation=CHANGES, workers=workers) as source:
        assert [samples(source) for _ in range(2)] == expected
    assert other.decoded == 14


@pytest.mark.parametrize("stop", [0, 1, 3, 4, 5])
def test_after_resuming_the_rest_is_that_of_a_run_without_interruption(cohort: Participants, cache: VolumeCache, stop: int) -> None:
    with VolumeSource(cohort, cache, 2, seed=5, augmentation=CHANGES) as whole:
        expected = samples(whole) + samples(whole)
    given = []
    with VolumeSource(cohort, cache, 2, seed=5, augmentation=CHANGES) as first:
        while len(given) < stop:
            for batch in first:
                given.append(batch)
                if len(given) == stop:
                    break
        state = json.loads(json.dumps(first.state()))
    with VolumeSource(cohort, cache, 3, seed=0, augmentation=CHANGES) as second:
        second.restore(state)
        rest = samples(second) + (samples(second) if second.epoch < 2 else [])
    assert samples(given) + rest == expected


def test_epochs_and_scans_are_augmented_differently(cohort: Participants, cache: VolumeCache) -> None:
    with VolumeSource(cohort, cache, 7, shuffle=False, augmentation=Augmentation(noise=0.1)) as source:
        one, two = (next(iter(list(source))).x for _ in range(2))
    noise = (one - two)[..., 0]
    assert noise.std(axis=(1, 2, 3)).all() and not np.allclose(noise[0], noise[1])


def test_another_seed_augments_otherwise(cohort: Participants, cache: VolumeCache) -> None:
    made = []
    for seed in (0, 1, 0):
        with VolumeSource(cohort, cache, 7, shuffle=False, seed=seed, augmentation=Augmentation(noise=0.1)) as source:
            made.append(next(iter(source)).x)
    assert np.array_equal(made[0], made[2]) and not np.allclose(made[0], made[1])


def test_the_flip_is_between_left_and_right_whatever_the_orientation(cohort: Participants) -> None:
    cache = VolumeCache(None, Preprocessing((10, 9, 8), orientation="SAR", normalisation="none"))
    with VolumeSource(cohort, cache, 7, shuffle=False, augmentation=Augmentation(flip=True)) as source:
        batch = next(iter(source))
    plain = [cache.get(scan) for scan in cohort.scans]
    flipped = [np.array_equal(made[..., 0], values[:, :, ::-1]) for made, values in zip(batch.x, plain)]
    same = [np.array_equal(made[..., 0], values) for made, values in zip(batch.x, plain)]
    assert all(a != b for a, b in zip(flipped, same)) and 0 < sum(flipped) < 7


def test_class_weights_become_sample_weights_and_types_are_cast(cohort: Participants, cache: VolumeCache) -> None:
    with VolumeSource(cohort, cache, 7, shuffle=False, class_weight={0: 3.0}, dtype="float64") as source:
        batch = next(iter(source))
    assert batch.sample_weight.tolist() == [1, 3, 1, 3, 1, 3, 1]
    assert (batch.x.dtype, batch.y.dtype, batch.sample_weight.dtype) == ("float64", "int64", "float64")


def test_without_labels_scans_need_none(cohort: Participants, cache: VolumeCache) -> None:
    scans = tuple(Scan(scan.participant, None, None, scan.path) for scan in cohort.scans)
    bare = Participants(cohort.path, scans, "dx", ())
    with VolumeSource(bare, cache, 4, labels=False) as source:
        assert next(iter(source)).y is None
    with pytest.raises(DataError, match="7 of 7 scans have no label among the classes none"):
        VolumeSource(bare, cache)


def test_a_file_that_breaks_while_training_is_named_where_its_batch_is_due(cohort: Participants, tmp_path: pathlib.Path) -> None:
    table = write_cohort(tmp_path, 5)
    participants = read_participants(table, classes=("AD", "NC"))
    (tmp_path / "3.nii.gz").unlink()
    before = threading.active_count()
    with VolumeSource(participants, VolumeCache(None, STEPS), 2, shuffle=False) as source:
        batches = iter(source)
        assert next(batches).size == 2
        with pytest.raises(DataError, match="3.nii.gz does not exist"):
            next(batches)
    assert threading.active_count() == before


def test_scans_are_decoded_side_by_side_ahead_of_the_batch_in_use(
    cohort: Participants, cache: VolumeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, get, names = threading.Barrier(2, timeout=20), VolumeCache.get, []

    def meeting(self: VolumeCache, scan: Scan) -> np.ndarray:
        names.append(threading.current_thread().name)
        if len(names) <= 6:
            together.wait()  # passed only where two threads are here at once
        return get(self, scan)

    monkeypatch.setattr(VolumeCache, "get", meeting)
    with VolumeSource(cohort, cache, 2, workers=2) as source:
        assert len(list(source)) == 4
    assert threading.current_thread().name not in names and len(names) == 7


def test_closing_in_the_middle_ends_all_threads(cohort: Participants, cache: VolumeCache) -> None:
    before = threading.active_count()
    source = VolumeSource(cohort, cache, 1, workers=3)
    next(iter(source))
    source.close()
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scans": "0"}, "it is of other scans or labels"),
        ({"preprocessing": "0"}, "preprocessing was '0' and is '"),
        ({"augmentation": {"flip": True}}, r"augmentation was \{'flip': True\} and is \{'flip': False, 'shift_voxels': 0, 'noise': 0.0\}"),
        ({"kind": "arrays", "samples": 8}, "it is of 'arrays' and this source is of 'volumes'; it is within 8 samples and there are 7"),
    ],
)
def test_a_position_within_other_data_is_refused(cohort: Participants, cache: VolumeCache, change: dict, message: str) -> None:
    with VolumeSource(cohort, cache) as source:
        with pytest.raises(DataError, match=message):
            source.restore({**source.state(), **change})


def test_positions_tell_scans_and_labels_apart(cohort: Participants, cache: VolumeCache) -> None:
    turned = Participants(cohort.path, cohort.scans[::-1], "dx", cohort.classes)
    with VolumeSource(cohort, cache) as one, VolumeSource(turned, cache) as other:
        with pytest.raises(DataError, match="it is of other scans or labels"):
            other.restore(one.state())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; use a whole number from 1"),
        ({"seed": -1}, "seed is -1; use a whole number from 0"),
        ({"workers": 0}, "workers is 0; use a whole number from 1"),
        ({"class_weight": {0: 2}, "labels": False}, "class_weight needs labels and none are wanted; leave it out"),
        ({"class_weight": 3}, "class_weight 3 is not a dict"),
    ],
)
def test_options_out_of_range_are_refused(cohort: Participants, cache: VolumeCache, options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        VolumeSource(cohort, cache, **options)


def test_no_scans_are_refused(cohort: Participants, cache: VolumeCache) -> None:
    with pytest.raises(DataError, match="there are no scans of .*participants.tsv to take; check the table and its split"):
        VolumeSource(cohort.part([]), cache)


@pytest.mark.slow
def test_a_trainer_fits_validates_every_epoch_evaluates_and_predicts(cohort: Participants, cache: VolumeCache) -> None:
    import keras

    import hetero_mtf as hm

    inputs = keras.Input((*SHAPE, 1))
    model = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.Flatten()(keras.layers.AveragePooling3D(2)(inputs))))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    steps = Preprocessing(SHAPE)
    cache = VolumeCache(cohort.path.parent / "cache", steps)
    with hm.Cluster.local() as cluster:
        plan = hm.Plan.single(model, device=0, cluster=cluster, batch_size=4)
        with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.01), loss=loss) as trainer:
            with VolumeSource(cohort, cache, 4, augmentation=CHANGES) as source, VolumeSource(cohort, cache, 3, shuffle=False) as test:
                history = trainer.fit(source, validation_data=test, epochs=2)
                assert source.handed_over == 4 and test.handed_over == 6 and source.waited_s > 0
                mean = trainer.evaluate(test)["loss"]
                outputs = trainer.predict(test)
                assert trainer.predict(VolumeSource(cohort, cache, 2, shuffle=False, labels=False)).shape == outputs.shape == (7, 2)
    assert len(history.history["val_loss"]) == 2 and history.history["val_loss"][1] == pytest.approx(mean, rel=1e-5)
    logits = outputs - outputs.max(axis=1, keepdims=True)
    expected = -(logits[np.arange(7), cohort.y] - np.log(np.exp(logits).sum(axis=1)))
    assert mean == pytest.approx(expected.mean(), rel=1e-4)
