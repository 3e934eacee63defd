"""The mirror of a run's values: when it is due, and what is kept beside it."""

import numpy as np

from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.training.control.step_call import StepCall
from hetero_mtf.training.run import mirror
from hetero_mtf.training.run.mirror import Mirror


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def _step(number, size=4):
    batch = BatchArrays((np.full(size, number),), (None,), (np.ones(size),), (1.0,), (np.ones(size),))
    return StepCall(batch, number, {"learning_rate": 0.1 * number}, True)


def _read(clock, seconds):
    def read():
        clock.now_s += seconds
        return {"0/kernel": np.zeros(2)}

    return read


def test_values_are_read_at_first_and_then_for_two_per_cent_of_the_time():
    clock = Clock()
    kept = Mirror(clock)
    assert kept.is_due
    kept.take(_read(clock, 0.1))
    assert not kept.is_due
    kept.add(_step(0), 0.2)
    clock.now_s += 4.9
    assert not kept.is_due
    clock.now_s += 0.2
    assert kept.is_due
    kept.take(_read(clock, 0.1))
    clock.now_s += 100.0
    assert not kept.is_due and kept.steps == []  # as nothing has changed since


def test_steps_are_kept_with_batches_of_their_own_in_their_order():
    clock = Clock()
    kept = Mirror(clock)
    kept.take(_read(clock, 0.1))
    step = _step(3)
    kept.add(step, 0.2)
    kept.add(_step(4), 0.4)
    step.batch.x[0][:] = -1  # as a generator may use its arrays again
    assert [each.step for each in kept.steps] == [3, 4] and kept.steps[0].batch.x[0].tolist() == [3.0] * 4
    assert kept.steps[0].batch.y == (None,) and not kept.steps[0].want_outputs
    assert abs(kept.step_s - 0.3) < 1e-12
    kept.forget()
    assert kept.is_due and kept.steps == [] and kept.values is None


def test_many_bytes_of_batches_are_a_reason_to_read_sooner(monkeypatch):
    monkeypatch.setattr(mirror, "KEPT_BYTES", 100)
    clock = Clock()
    kept = Mirror(clock)
    kept.take(_read(clock, 10.0))
    kept.add(_step(0, size=4), 0.1)
    assert not kept.is_due
    kept.add(_step(1, size=4), 0.1)
    assert kept.is_due
