"""Trainings that go on without hosts: a cut between workers, a host that nothing comes back from, and workers that are back."""

import re
import signal

from tools.lab.namespaces import HERE, await_text

TIMEOUT_S = 10
GOES_ON_S = 60.0  # the timeout, a plan and its graph, on a machine that has other work too


def _trained(workers):
    return workers.train("--elastic", "--worker-timeout", str(TIMEOUT_S))


def _steps_on(workers, process):
    """Return once the training has saved a state after what it said last."""
    before = (workers.folder / "state.npz").stat().st_mtime
    for _ in range(int(GOES_ON_S * 5)):
        if (workers.folder / "state.npz").stat().st_mtime > before:
            return
        assert process.poll() is None, workers.output
        signal.sigtimedwait([], 0.2)
    raise AssertionError(workers.output)


def test_a_cut_between_two_workers_leaves_one_out_until_it_is_healed(workers):
    training = _trained(workers)
    workers.lab.cut("alpha", "beta")
    await_text(workers.folder / "train.out", "training goes on with", TIMEOUT_S + GOES_ON_S)
    _steps_on(workers, training)
    workers.lab.heal()
    await_text(workers.folder / "train.out", "is back; training goes on with", GOES_ON_S)
    _steps_on(workers, training)
    training.send_signal(signal.SIGINT)
    assert training.wait(GOES_ON_S) == 130, workers.output
    assert re.search(r"have not reached each other for \d+ s; training goes on with worker:. alone", workers.output), workers.output


def test_a_host_that_nothing_comes_back_from_is_left_out_until_it_is_there_again(workers):
    training = _trained(workers)
    workers.lab.cut("beta", HERE)
    workers.lab.cut("alpha", "beta")
    await_text(workers.folder / "train.out", "training goes on with worker:0 alone", TIMEOUT_S + GOES_ON_S)
    _steps_on(workers, training)
    workers.lab.heal()
    await_text(workers.folder / "train.out", "worker:1 is back; training goes on with", GOES_ON_S)
    _steps_on(workers, training)
    training.send_signal(signal.SIGTERM)
    assert training.wait(GOES_ON_S) == 128 + signal.SIGTERM, workers.output
