"""What is counted while a model trains."""

import signal
import types

import pytest

from hetero_mtf.commands.output import epochs
from hetero_mtf.commands.output.epochs import Epochs, Saving
from hetero_mtf.commands.output.save_times import SaveTimes
from hetero_mtf.commands.process.interruption import Interrupted, StopRequest
from hetero_mtf.errors import CheckpointError, NotFiniteError


def _save(path, only_finite):
    """Save nothing, and succeed."""


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
    trainer, source = types.SimpleNamespace(step=0, fed_wait_s=0.0), types.SimpleNamespace(waited_s=0.0, batches_per_epoch=5)
    watch = Epochs(trainer, 1, source, Saving(None), StopRequest())
    for waited_s, spent_s in ((7.0, 30.0), (5.0, 20.0)):
        _step(watch, trainer, source, clock, waited_s, spent_s)
    assert watch.waiting is None and watch.step_s == []
    for waited_s, spent_s in ((1.0, 3.0), (0.0, 3.0), (2.0, 1.0)):
        _step(watch, trainer, source, clock, waited_s, spent_s)
    assert watch.waiting == pytest.approx(0.3) and watch.step_s == [3.0, 3.0]  # the last batch of an epoch may be short


def test_a_step_that_waits_until_its_batch_has_reached_the_devices_waits_for_data(clock):
    trainer, source = types.SimpleNamespace(step=0, fed_wait_s=0.0), types.SimpleNamespace(waited_s=0.0, batches_per_epoch=5)
    watch = Epochs(trainer, 1, source, Saving(None), StopRequest())
    for fed_s in (9.0, 9.0, 2.0, -20.0, 1.0):  # a move to another plan begins to count anew
        trainer.fed_wait_s += fed_s
        _step(watch, trainer, source, clock, 0.0, 3.0)
    assert watch.waiting == pytest.approx(3.0 / 9.0)


def test_columns_are_as_wide_as_their_names(capsys):
    trainer = types.SimpleNamespace(step=0, fed_wait_s=0.0)
    source = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=1, state=lambda: {"batch": 0})
    with Epochs(trainer, 1, source, Saving(None), StopRequest()) as watch:
        watch.on_epoch_begin(0)
        trainer.step = 1
        watch.on_train_batch_end(0, {"loss": 1.0})
        watch.on_epoch_end(0, {"loss": 1.0, "accuracy": 0.5, "val_accuracy": 0.25})
    heading, row = capsys.readouterr().out.splitlines()
    assert "accuracy  val accuracy" in heading
    assert heading.index("val accuracy") + len("val accuracy") == row.index("0.2500") + len("0.2500")


def test_a_training_that_stops_on_the_way_tells_where_to_go_on(clock, capsys):
    trainer = types.SimpleNamespace(step=0, fed_wait_s=0.0, save=_save)
    source = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=9)
    for steps, said in ((1, ""), (5, "the state after step 4 is in run.npz: go on from there with --resume run.npz\n")):
        trainer.step = 0
        with pytest.raises(KeyboardInterrupt), Epochs(trainer, 1, source, Saving("run.npz", SaveTimes(2)), StopRequest()) as watch:
            for _ in range(steps):
                _step(watch, trainer, source, clock, 0.0, 1.0)
            raise KeyboardInterrupt
        assert capsys.readouterr().out == said


def _full(path, only_finite):
    raise CheckpointError("cannot write run.npz: No space left on device; free some space")


RESUME = "the state after step 2 is in run.npz: go on from there with --resume run.npz"


@pytest.mark.parametrize(
    "path, every, save, said",
    [
        ("run.npz", None, _save, "interrupted; the state after step 3 is in run.npz: go on from there with --resume run.npz"),
        (None, None, _full, "interrupted; nothing is saved, because there is no --save FILE to save to"),
        ("run.npz", None, _full, r"interrupted; the state after step 3 could not be saved \(.*free some space\); nothing is saved"),
        ("run.npz", 2, _full, rf"interrupted; the state after step 3 could not be saved \(.*free some space\); {RESUME}"),
    ],
)
def test_a_signal_ends_training_after_the_step_and_says_what_is_saved(clock, capsys, path, every, save, said):
    trainer = types.SimpleNamespace(step=0, fed_wait_s=0.0, save=_save)
    source, stop = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=9), StopRequest()
    saving = Saving(path, None if every is None else SaveTimes(every))
    with pytest.raises(Interrupted, match=f"^{said}$") as ended, Epochs(trainer, 1, source, saving, stop) as watch, stop.deferred():
        for _ in range(2):
            _step(watch, trainer, source, clock, 0.0, 1.0)
        trainer.save = save
        signal.raise_signal(signal.SIGTERM)
        _step(watch, trainer, source, clock, 0.0, 1.0)
    assert ended.value.number == signal.SIGTERM and capsys.readouterr().out == ""


def _not_finite(path, only_finite):
    assert only_finite
    raise NotFiniteError("the state after step 2 is not saved; use a smaller learning rate")


@pytest.mark.parametrize("save, fault", [(_full, CheckpointError), (_not_finite, NotFiniteError)])
def test_a_save_on_the_way_that_fails_is_said_and_tried_again_at_the_next_period(clock, capsys, save, fault):
    trainer = types.SimpleNamespace(step=0, fed_wait_s=0.0, save=save)
    source, stop = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=9), StopRequest()
    watch = Epochs(trainer, 1, source, Saving("run.npz", SaveTimes(2), keep_going=True), stop)
    for steps in (2, 2, 2):
        for _ in range(steps):
            _step(watch, trainer, source, clock, 0.0, 1.0)
        trainer.save = _save if trainer.step == 4 else save
    first, second = capsys.readouterr().err.splitlines()
    assert "step 2 is not saved" in first and first.endswith("training goes on and saves next after step 4, or at its end")
    assert "saves next after step 6" in second
    assert stop.saved == "the state after step 6 is in run.npz: go on from there with --resume run.npz"
    with pytest.raises(fault):
        watch.on_train_end()


def test_a_state_that_is_not_finite_ends_training_unless_it_is_to_keep_going(clock):
    trainer = types.SimpleNamespace(step=0, fed_wait_s=0.0, save=_not_finite)
    source = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=9)
    with pytest.raises(NotFiniteError), Epochs(trainer, 1, source, Saving("run.npz", SaveTimes(1)), StopRequest()) as watch:
        _step(watch, trainer, source, clock, 0.0, 1.0)


def test_by_time_states_are_saved_on_the_way_and_numbered_ones_kept_at_the_ends_of_epochs(clock):
    saved, kept = [], types.SimpleNamespace(steps=[], add=lambda step: kept.steps.append(step))
    trainer = types.SimpleNamespace(step=0, fed_wait_s=0.0, save=lambda path, only_finite: saved.append(trainer.step))
    source = types.SimpleNamespace(waited_s=0.0, batches_per_epoch=4, state=lambda: {"batch": 0})
    times = SaveTimes(clock=lambda: clock.now_s)
    with Epochs(trainer, 1, source, Saving("run.npz", times, kept=kept), StopRequest()) as watch:
        watch.on_epoch_begin(0)
        for _ in range(4):
            _step(watch, trainer, source, clock, 0.0, 40.0)
        watch.on_epoch_end(0, {"loss": 1.0})
    assert saved == [2, 4, 4] and kept.steps == [4]
