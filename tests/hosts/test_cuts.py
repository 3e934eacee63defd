"""Links between hosts that are cut while a network trains over them: who is named, how soon, and that nothing hangs."""

import signal
import time

import pytest

from tools.lab.namespaces import HERE

LOST = 138
LIMIT_S = 30.0 + 15.0


def _ended(process, limit_s):
    """Return the seconds until a training ends, and its exit code."""
    begun_s = time.monotonic()
    code = process.wait(limit_s)
    return time.monotonic() - begun_s, code


def test_a_link_between_two_workers_that_is_cut_is_named_with_both(workers):
    training = workers.train()
    workers.lab.cut("alpha", "beta")
    took_s, code = _ended(training, 2 * LIMIT_S)
    assert code == LOST and took_s < LIMIT_S, (took_s, workers.output)
    said = workers.output.splitlines()[-1]
    assert f"the workers on {workers.hosts[0]} and {workers.hosts[1]} have not reached each other" in said
    assert "this program reaches both" in said and "the state after step" in workers.output


def test_a_training_whose_workers_are_cut_off_from_each_other_ends_at_sigterm(workers):
    training = workers.train()
    workers.lab.cut("alpha", "beta")
    time.sleep(8.0)
    training.send_signal(signal.SIGTERM)
    took_s, code = _ended(training, LIMIT_S)
    assert code == 128 + signal.SIGTERM and took_s < 10.0, (took_s, workers.output)


def test_a_short_cut_is_nothing(workers):
    training = workers.train()
    before = (workers.folder / "state.npz").stat().st_mtime
    workers.lab.cut("alpha", "beta")
    time.sleep(10.0)
    workers.lab.heal()
    for _ in range(300):
        if (workers.folder / "state.npz").stat().st_mtime > before + 11.0 or training.poll() is not None:
            break
        time.sleep(0.2)
    assert training.poll() is None, workers.output
    training.send_signal(signal.SIGINT)
    assert _ended(training, LIMIT_S)[1] == 130


@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_host_that_nothing_comes_back_from_is_named_with_what_cannot_be_told_apart(workers, name):
    training = workers.train()
    workers.lab.cut("alpha", "beta")
    workers.lab.cut(name, HERE)
    took_s, code = _ended(training, 2 * LIMIT_S)
    assert code == LOST and took_s < LIMIT_S, (took_s, workers.output)
    said = workers.output.splitlines()[-1]
    assert workers.lab.address(name) in said and "cannot be told apart" in said, workers.output
