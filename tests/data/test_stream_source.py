from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from hetero_mtf.data import StreamSource
from hetero_mtf.errors import DataError

LENGTH = 4


def item(number: int):
    return np.full((2, 3), number, "float32"), np.full(2, number)


def generate() -> Iterator:
    return (item(number) for number in range(LENGTH))


class Iterable:
    def __iter__(self) -> Iterator:
        return generate()


def py_dataset():
    import keras

    class Numbered(keras.utils.PyDataset):
        ended = 0

        def __len__(self) -> int:
            return LENGTH

        def __getitem__(self, number: int):
            return item(number)

        def on_epoch_end(self) -> None:
            self.ended += 1

    return Numbered()


def tensor_dataset():
    import tensorflow as tf

    x, y = (np.concatenate(parts) for parts in zip(*generate()))
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(2)


STREAMS = {
    "function": lambda: generate,
    "list": lambda: [item(number) for number in range(LENGTH)],
    "iterable": Iterable,
    "PyDataset": py_dataset,
    "tf.data": tensor_dataset,
}


def labels(batches) -> list[int]:
    return [int(batch.y[0]) for batch in batches]


@pytest.fixture(params=STREAMS)
def make(request):
    return STREAMS[request.param]


def test_an_epoch_is_a_pass_and_there_are_many(make) -> None:
    with StreamSource(make()) as source:
        assert [labels(source) for _ in range(3)] == [[0, 1, 2, 3]] * 3
        assert source.epoch == 3


def test_steps_per_epoch_cut_the_endless_repetition(make) -> None:
    with StreamSource(make(), 3) as source:
        assert [labels(source) for _ in range(3)] == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]
        assert source.batches_per_epoch == 3


@pytest.mark.few(25)
@pytest.mark.parametrize("steps", [None, 3, 7])
@pytest.mark.parametrize("stop", [0, 1, 3, 5, 9])
def test_an_interrupted_run_meets_the_batches_of_an_uninterrupted_one(make, steps: int | None, stop: int) -> None:
    def endless(source) -> Iterator[int]:
        while True:
            yield from (int(batch.y[0]) for batch in source)

    with StreamSource(make(), steps) as whole:
        expected = list(itertools.islice(endless(whole), 15))
    with StreamSource(make(), steps) as first:
        start = list(itertools.islice(endless(first), stop))
        state = first.state()
    with StreamSource(make(), steps) as second:
        second.restore(state)
        assert start + list(itertools.islice(endless(second), 15 - stop)) == expected


def test_going_back_in_a_stream_that_can_be_opened_again_works(make) -> None:
    with StreamSource(make(), 3) as source:
        start = source.state()
        first = labels(source)
        labels(source)
        source.restore(start)
        assert labels(source) == first


def test_the_end_of_each_pass_is_told_to_a_py_dataset() -> None:
    dataset = py_dataset()
    with StreamSource(dataset) as source:
        labels(source), labels(source)
        assert source.batches_per_epoch == LENGTH
    assert dataset.ended == 2


def test_a_generator_serves_several_epochs_of_fixed_steps_and_loses_nothing_when_left_early() -> None:
    with StreamSource((item(number) for number in itertools.count()), 3) as source:
        assert labels(source) == [0, 1, 2]
        for _ in source:
            break
        assert labels(source) == [4, 5]
        assert labels(source) == [6, 7, 8]


def test_a_new_generator_is_drawn_forward_to_a_restored_position() -> None:
    with StreamSource((item(number) for number in itertools.count()), 3) as first:
        labels(first)
        next(iter(first))
        state = first.state()
    with StreamSource((item(number) for number in itertools.count()), 3) as second:
        second.restore(state)
        assert labels(second) == [4, 5]
        assert labels(second) == [6, 7, 8]


def test_a_generator_cannot_serve_a_second_pass() -> None:
    with StreamSource(generate()) as source:
        assert labels(source) == [0, 1, 2, 3]
        with pytest.raises(DataError, match=r"drawn once only, and batch 0 was asked for after 4 had been drawn; pass the function"):
            labels(source)


def test_a_generator_cannot_go_back() -> None:
    with StreamSource((item(number) for number in itertools.count()), 3) as source:
        start = source.state()
        labels(source)
        source.restore(start)
        with pytest.raises(DataError, match=r"drawn once only, and batch 0 was asked for after \d had been drawn"):
            labels(source)


def test_a_generator_that_ends_too_early_says_so() -> None:
    with StreamSource(generate(), 3) as source:
        labels(source)
        with pytest.raises(DataError, match=r"ended too early for steps_per_epoch=3; pass fewer steps or epochs, or the function"):
            labels(source)


def test_a_fault_in_the_users_generator_arrives_as_it_is_and_again() -> None:
    def broken() -> Iterator:
        yield item(0)
        raise KeyError("user")

    for steps in (None, 3):
        with StreamSource(broken, steps) as source:
            for _ in range(2):
                with pytest.raises(KeyError, match="user"):
                    labels(source)
            assert source.state()["batch"] == 1


@pytest.mark.parametrize("steps", [None, 2])
def test_an_empty_stream_is_refused(steps: int | None) -> None:
    message = "gave none in epoch 0; pass one that has batches" if steps is None else "ended too early for steps_per_epoch=2"
    with StreamSource([], steps) as source, pytest.raises(DataError, match=message):
        list(source)


def test_an_endless_tensor_dataset_needs_steps_per_epoch() -> None:
    dataset = tensor_dataset().repeat()
    with pytest.raises(DataError, match=r"never ends; pass steps_per_epoch, or cut it, as with dataset.take\(100\)"):
        StreamSource(dataset)
    with StreamSource(dataset, 5) as source:
        assert labels(source) == [0, 1, 2, 3, 0]


def test_a_tensor_dataset_is_read_eagerly_while_a_graph_is_built() -> None:
    import tensorflow as tf

    dataset = tensor_dataset()
    with tf.Graph().as_default(), StreamSource(dataset) as source:
        assert labels(source) == [0, 1, 2, 3]


def test_weights_and_class_weights_reach_the_batches() -> None:
    with StreamSource([(*item(0), [1, 2])]) as source:
        np.testing.assert_allclose(next(iter(source)).sample_weight, [1, 2])
    with StreamSource([item(1)], class_weight={1: 4}, dtype="float64") as source:
        batch = next(iter(source))
        assert batch.x.dtype == batch.sample_weight.dtype == "float64"
        np.testing.assert_allclose(batch.sample_weight, [4, 4])


def test_labels_may_be_missing_where_they_are_not_needed() -> None:
    with StreamSource([np.zeros((2, 3)), (np.zeros((1, 3)),), item(0)], labels=False) as source:
        assert [(batch.size, batch.y is None) for batch in source] == [(2, True), (1, True), (2, False)]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (np.zeros((2, 3)), r"batch 0 of the stream is one ndarray; hand over \(x, y\) or \(x, y, sample_weight\)"),
        ((1, 2, 3, 4), r"batch 0 of the stream is 4 parts; hand over"),
        ((np.zeros((2, 3)), None), r"y of batch 0 is None; hand over"),
        (({"a": 1}, [0]), r"x of batch 0 is a dict; hand over one array"),
        ((np.zeros((2, 3)), [1]), r"x of batch 0 has 2 samples and y has shape \(1,\)"),
        ((np.zeros((2, 3)), [1, np.nan]), r"y of batch 0 has NaN or infinite values in 1 of 2 samples"),
        ((1.0, 2.0), r"x of batch 0 is a single number"),
    ],
)
def test_a_batch_of_the_wrong_form_is_named_by_its_number(batch, message: str) -> None:
    with StreamSource([batch]) as source, pytest.raises(DataError, match=message):
        list(source)


@pytest.mark.parametrize("value", [3, "text", {"a": 1}, None])
def test_what_gives_no_batches_is_refused(value) -> None:
    with pytest.raises(DataError, match=f"batches cannot be drawn from a {type(value).__name__}; pass a generator"):
        StreamSource(value)


def test_a_function_that_needs_arguments_is_refused() -> None:
    with pytest.raises(DataError, match="must need no arguments; wrap it in a lambda"):
        StreamSource(lambda size: generate())


@pytest.mark.parametrize("steps", [0, -1, 2.5])
def test_steps_below_one_are_refused(steps) -> None:
    with pytest.raises(DataError, match=f"steps_per_epoch is {steps}; use a whole number from 1, or leave it out"):
        StreamSource(generate, steps)


def test_streams_need_no_tensorflow() -> None:
    code = "import sys; from hetero_mtf.data import batch_source; list(batch_source([([[1.0]], [0])])); print('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def _numbers(source: StreamSource, epochs: int) -> list[list[float]]:
    return [[float(np.ravel(batch.x)[0]) for batch in source] for _ in range(epochs)]


def test_batches_of_a_py_dataset_are_shuffled_anew_in_each_pass_where_they_are_to_be() -> None:
    with StreamSource(py_dataset(), shuffle=True, seed=3) as source, StreamSource(py_dataset()) as plain:
        first, second = _numbers(source, 2)
        (ordered,) = _numbers(plain, 1)
    assert first != second and first != ordered and sorted(first) == sorted(second) == sorted(ordered)
    with StreamSource(py_dataset(), shuffle=True, seed=3) as again, StreamSource(py_dataset(), shuffle=True, seed=4) as other:
        assert _numbers(again, 2) == [first, second] != _numbers(other, 2)


@pytest.mark.parametrize("steps", [None, 3])
def test_a_shuffled_pass_goes_on_at_its_place(steps: int | None) -> None:
    with StreamSource(py_dataset(), steps, shuffle=True, seed=1) as source:
        whole = _numbers(source, 3)
    with StreamSource(py_dataset(), steps, shuffle=True, seed=1) as begun:
        parts, drawn = [], iter(begun)
        parts.append([float(np.ravel(next(drawn).x)[0]) for _ in range(2)])
        state = begun.state()
    with StreamSource(py_dataset(), steps, shuffle=True, seed=1) as resumed:
        resumed.restore(state)
        rest = _numbers(resumed, 3)
    assert [parts[0] + rest[0], *rest[1:]] == whole


@pytest.mark.parametrize("form", ["list", "tf.data", "function", "iterable"])
def test_other_streams_keep_their_order(form: str) -> None:
    with StreamSource(STREAMS[form](), shuffle=True, seed=3) as source, StreamSource(STREAMS[form]()) as plain:
        assert _numbers(source, 1) == _numbers(plain, 1)
