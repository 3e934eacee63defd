"""What is counted while a model trains."""

import signal
import types

import pytest

from hetero_mtf.commands import epochs
from hetero_mtf.commands.epochs import Epochs
from hetero_mtf.commands.interruption import Interrupted, StopRequest
from hetero_mtf.errors import CheckpointError


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    held = types.SimpleNamespace(now_s=0.0)
    monkeypatch.setattr(epochs.time, "perf_counter", lambda: held.now_s)
    return held


def _step(watch, trainer, source, clock, waited_s, spent_s):
    clock.now_s += waited_s
    source.waited_s += waited_s
    watch.on_train_batch_begin(0)
    clock.now_s += spent_s
    trainer.step += 1
    watch.on_train_batch_end(0, {"loss": 1.0})


def test_waiting_is_a_part_of_all_steps_but_those_that_build_the_graph(clock):
    trainer, source = types.SimpleNamespace(step=0), types.SimpleNamespace(waited_s=0.0, batches_per_epoch=5)
    watch = Epochs(trainer, 1, source, None, None, StopRequest())
    for waited_s, spent_s in ((7.0, 30.0), (5.0, 20.0)):
        _step(watch, trainer, source, clock, waited_s, spent_s)
    assert watch.waiting is None and watch.step_s == []
    for waited_s, spent_s in ((1.0, 3.0), (0.0, 3.0), (2.0, 1.0)):
        _step(watch, trainer, source, clock, waited_s, spent_s)
    assert watch.waiting == pytest.approx(0.3) and watch.step_s == [3.0, 3.0]  # the last batch of an epoch may be short


def test_columns_are_as_wide_as_their_names(capsys):
    trainer, source = types.SimpleNamespace(step=0), types.SimpleNamespace(waited_s=0.0, batches_per_epoch=1)
    with Epochs(trainer, 1, source, None, None, StopRequest()) as watch:
        watch.on_epoch_begin(0)
        trainer.step = 1
        watch.on_train_batch_end(0, {"loss": 1.0})
        watch.on_epoch_end(0, {"loss": 1.0, "accuracy": 0.5, "val_accuracy": 0.25})
    heading, row = capsys.readouterr().out.splitlines()
    assert "accuracy  val accuracy" in heading
    assert heading.index("val accuracy") + len("val accuracy") == row.index("0.2500") + len("0.2500")


def test_a_training_that_stops_on_the_way_tells_where_to_go_on(clock, capsys):
    trainer = types.SimpleNamespace(step=0, save=lambda path: None)
    source = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=9)
    for steps, said in ((1, ""), (5, "the state after step 4 is in run.npz: go on from there with --resume run.npz\n")):
        trainer.step = 0
        with pytest.raises(KeyboardInterrupt), Epochs(trainer, 1, source, "run.npz", 2, StopRequest()) as watch:
            for _ in range(steps):
                _step(watch, trainer, source, clock, 0.0, 1.0)
            raise KeyboardInterrupt
        assert capsys.readouterr().out == said


def _full(path):
    raise CheckpointError("cannot write run.npz: No space left on device; free some space")


RESUME = "the state after step 2 is in run.npz: go on from there with --resume run.npz"


@pytest.mark.parametrize(
    "path, every, save, said",
    [
        ("run.npz", None, lambda path: None, "interrupted; the state after step 3 is in run.npz: go on from there with --resume run.npz"),
        (None, None, _full, "interrupted; nothing is saved, because there is no --save FILE to save to"),
        ("run.npz", None, _full, r"interrupted; the state after step 3 could not be saved \(.*free some space\); nothing is saved"),
        ("run.npz", 2, _full, rf"interrupted; the state after step 3 could not be saved \(.*free some space\); {RESUME}"),
    ],
)
def test_a_signal_ends_training_after_the_step_and_says_what_is_saved(clock, capsys, path, every, save, said):
    trainer = types.SimpleNamespace(step=0, save=lambda path: None)
    source, stop = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=9), StopRequest()
    with pytest.raises(Interrupted, match=f"^{said}$") as ended, Epochs(trainer, 1, source, path, every, stop) as watch, stop.deferred():
        for _ in range(2):
            _step(watch, trainer, source, clock, 0.0, 1.0)
        trainer.save = save
        signal.raise_signal(signal.SIGTERM)
        _step(watch, trainer, source, clock, 0.0, 1.0)
    assert ended.value.number == signal.SIGTERM and capsys.readouterr().out == ""
