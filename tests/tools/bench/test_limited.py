"""The processes of a baseline work only when told to, under limits, and are gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys
import textwrap

import pytest

from hetero_mtf.errors import WorkerError
from tools.bench.baselines import limited

HEAD = """
    import os, sys, time
    from tools.bench.baselines.turns import attend
"""


def script(folder: pathlib.Path, body: str) -> tuple[str, str]:
    path = folder / "worker.py"
    path.write_text(textwrap.dedent(HEAD) + textwrap.dedent(body))
    return sys.executable, str(path)


COUNTING = """
    taken = []

    def prepare(order):
        def step():
            print("a line for the log")
            taken.append(order["batch"])
            return sum(taken)

        return step, 12

    attend(prepare)
"""


@pytest.mark.fast("None")
@pytest.mark.parametrize("method", [None, "duty_cycle"])
def test_they_take_as_many_steps_as_told_and_answer_with_their_mean_loss(tmp_path: pathlib.Path, method: str | None) -> None:
    workers = limited.LimitedWorkers(script(tmp_path, COUNTING), [0.6, 0.4], [3, 1], method, limit_s=60.0)
    try:
        assert workers.weights == 12
        assert workers.method == (method or workers.method)
        assert workers.step() == (3 * 3 + 3 * 1) / 2
        assert workers.step(4) == (7 * 3 + 7 * 1) / 2
        ids = [process.pid for process in workers._processes]
    finally:
        workers.close()
    workers.close()
    assert not [number for number in ids if os.path.exists(f"/proc/{number}")]


def test_only_their_threads_that_compute_are_limited_where_that_is_asked_for(tmp_path: pathlib.Path) -> None:
    try:
        workers = limited.LimitedWorkers(script(tmp_path, COUNTING), [0.6, 0.4], [3, 1], limit_s=60.0, limit="compute")
    except OSError as fault:
        pytest.skip(str(fault))
    try:
        assert workers.method == "cgroup, compute only" and workers.step() == (3 * 3 + 3 * 1) / 2
    finally:
        workers.close()


def test_a_group_for_threads_that_cannot_be_made_is_told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited.cgroup, "parent_folder", lambda: None)
    with pytest.raises(OSError, match="there is no control group for the cpu controller; leave method and limit out"):
        limited.LimitedWorkers(script(tmp_path, COUNTING), [0.5], [1], limit_s=60.0, limit="compute")


FAULTS = {
    "raise ValueError('no such strategy')": r"process 0 of .*worker\.py ended with exit code 1 \(.*no such strategy.*\); run it by hand",
    "time.sleep(60)": r"worker\.py did not answer within 3 s; free the machine or use a smaller batch",
}


@pytest.mark.slow
@pytest.mark.parametrize(("body", "message"), FAULTS.items())
def test_one_that_ends_or_hangs_is_named(tmp_path: pathlib.Path, body: str, message: str) -> None:
    with pytest.raises(WorkerError, match=message):
        limited.LimitedWorkers(script(tmp_path, f"    {body}\n"), [0.5], [1], limit_s=3.0)


def test_a_loss_that_is_no_number_is_refused(tmp_path: pathlib.Path) -> None:
    workers = limited.LimitedWorkers(script(tmp_path, "    attend(lambda order: (lambda: float('nan'), 1))\n"), [0.5], [1], limit_s=60.0)
    try:
        with pytest.raises(WorkerError, match=r"the loss of .*worker\.py is nan; use a smaller learning rate"):
            workers.step()
    finally:
        workers.close()


def test_further_words_of_the_command_reach_the_script(tmp_path: pathlib.Path) -> None:
    command = (*script(tmp_path, "    attend(lambda order: (lambda: len(sys.argv[2]), 1))\n"), "vgg8")
    workers = limited.LimitedWorkers(command, [0.5], [1], limit_s=60.0)
    try:
        assert workers.step() == len("vgg8")
    finally:
        workers.close()


def test_several_baselines_are_limited_by_control_groups_at_once(tmp_path: pathlib.Path) -> None:
    command = script(tmp_path, COUNTING)
    with contextlib.ExitStack() as stack:
        try:
            first = limited.LimitedWorkers(command, [0.6, 0.4], [3, 1], "cgroup", limit_s=60.0)
        except OSError as fault:
            pytest.skip(str(fault))
        stack.callback(first.close)
        second = limited.LimitedWorkers(command, [0.6, 0.4], [3, 1], "cgroup", limit_s=60.0)
        stack.callback(second.close)
        assert first.method == second.method == "cgroup"
