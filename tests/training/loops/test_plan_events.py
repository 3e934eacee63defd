"""Each move of a training is an event in the log folder of Keras's TensorBoard callback, and the steps/s of each plan a number."""

from __future__ import annotations

import pathlib
from typing import Any

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.loops.plan_events import PLAN, SETTLING, STEPS_PER_S, PlanEvents
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]

BATCH, SAMPLES, MOVES_AT = 8, 40, (4, 9)


def _events(folder: pathlib.Path) -> tuple[list[tuple[int, str]], list[tuple[int, float]]]:
    """Return the texts and numbers about plans, with their steps."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    tags = events.Tags()["tensors"]
    read = {tag: [(e.step, tensor_util.make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)] for tag in tags}
    texts = [(step, str(array.item().decode())) for step, array in read.get(PLAN, [])]
    return texts, [(step, float(array)) for step, array in read.get(STEPS_PER_S, [])]


def _history(model: keras.Model, cluster: Any) -> PlanHistory:
    single, batch = hm.Plan.single(model, 0, cluster, BATCH), hm.Plan.batch(model, (2, 1, 1), cluster, BATCH)
    return PlanHistory((PlanSpan(0, single), *(PlanSpan(at, plan) for at, plan in zip(MOVES_AT, (batch, single)))))


EXPECTED = [(4, "moved to batch 50:25:25 after 4 steps"), (9, "moved to cpu:0 alone after 9 steps")]


@pytest.mark.parametrize("update_freq", ["epoch", 3])
@pytest.mark.parametrize("form", ["distribute", "Trainer"])
def test_moves_are_events(form: str, update_freq: Any, cluster: Any, tmp_path: pathlib.Path) -> None:
    board, model = keras.callbacks.TensorBoard(tmp_path, update_freq=update_freq), net()
    options: dict[str, Any] = {"batch_size": BATCH, "epochs": 3, "verbose": 0, "callbacks": [board]}
    if form == "distribute":
        model.compile("sgd", cross_entropy())
        hm.distribute(model, cluster, measure=_history(model, cluster)).fit(*data(SAMPLES), **options)
        hm.undistribute(model)
    else:
        with hm.Trainer(model, None, cluster, optimizer="sgd", loss=cross_entropy(), measure=_history(model, cluster)) as trainer:
            trainer.fit(*data(SAMPLES), **options)
    texts, rates = _events(tmp_path / "train")
    assert texts == EXPECTED
    assert [step for step, _ in rates] == [4, 9, 15] and all(rate > 0 for _, rate in rates)


def test_a_training_without_moves_has_the_events_of_keras_alone(cluster: Any, tmp_path: pathlib.Path) -> None:
    model = net()
    model.compile("sgd", cross_entropy())
    hm.distribute(model, cluster, plan=hm.Plan.batch(model, (2, 1, 1), cluster, BATCH))
    model.fit(*data(SAMPLES), batch_size=BATCH, verbose=0, callbacks=[keras.callbacks.TensorBoard(tmp_path)])
    hm.undistribute(model)
    assert _events(tmp_path / "train") == ([], [])


def test_a_plan_has_the_rate_that_its_move_tells_of_and_the_last_one_that_of_the_clock(cluster: Any, tmp_path: pathlib.Path) -> None:
    single, batch = (span.plan for span in _history(net(), cluster).spans[:2])
    board = keras.callbacks.TensorBoard(tmp_path, write_graph=False)
    board.set_model(net())
    moves: list[Move] = []
    now, steps = [0.0], [0]
    events = PlanEvents([board], lambda: moves, lambda: steps[0], lambda: now[0])
    events.on_train_begin()
    for batch_number, seconds in enumerate([9.0, 9.0, *[0.5] * 3, 9.0, *[9.0] * (SETTLING - 1), 0.25, 0.25, 0.75]):
        events.on_train_batch_begin(batch_number)
        if batch_number == 5:
            moves.append(Move(5, "it promises to be faster", single, batch, 0.4, 0.3, 1.0))
        now[0], steps[0] = now[0] + seconds, steps[0] + 1
        events.on_train_batch_end(batch_number)
    events.on_train_end()
    board.on_train_end()
    texts, rates = _events(tmp_path / "train")
    assert texts == [(5, "moved to batch 50:25:25 after 5 steps")]
    assert rates == [(5, 2.5), (steps[0], 4.0)]
