"""Threads of a process are told apart by their names, and kept where they belong."""

import ctypes
import os
import threading

import pytest

from hetero_mtf.runtime.limits import threads
from hetero_mtf.runtime.limits.threads import LOOK_S, SortedThreads, computes, processor_s


class _Group:
    """Records where threads were moved to."""

    def __init__(self):
        self.limited, self.freed = [], []

    def limit_thread(self, thread):
        self.limited.append(thread)

    def free_thread(self, thread):
        self.freed.append(thread)


@pytest.fixture
def named():
    """Starts threads with a name of the kernel's, which wait until the test ends; returns their ids."""
    end, running = threading.Event(), []

    def start(name):
        started, ids = threading.Event(), []

        def wait():
            ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)  # PR_SET_NAME
            ids.append(threading.get_native_id())
            started.set()
            end.wait()

        running.append(threading.Thread(target=wait))
        running[-1].start()
        started.wait()
        return ids[0]

    yield start
    end.set()
    for thread in running:
        thread.join()


@pytest.fixture
def moved(monkeypatch):
    """Records the cores of threads in place of setting them."""
    cores = {}
    monkeypatch.setattr(threads.os, "sched_setaffinity", lambda thread, allowed: cores.__setitem__(thread, set(allowed)))
    return cores


def test_a_main_thread_and_those_of_tensorflows_pools_compute_and_those_of_grpc_do_not():
    assert computes("python", main=True) and computes("tf_Compute", main=False)
    assert not any(computes(name, main=False) for name in ("python", "event_engine", "grpc_global_tim", "pt_gloo_runloop"))


def test_threads_are_limited_on_one_core_or_free_on_all_by_their_names(named, moved):
    computing, sending = named("tf_Compute"), named("event_engine")
    group = _Group()
    one = SortedThreads(os.getpid(), group, 0, (0, 1))
    one.sort(0.0)
    assert {computing, os.getpid()} <= set(group.limited) and sending in group.freed
    assert moved[computing] == {0} and moved[sending] == {0, 1} and one.limited >= {computing, os.getpid()}


def test_threads_that_come_later_are_sorted_at_the_next_look_and_known_ones_left_alone(named, moved):
    group = _Group()
    one = SortedThreads(os.getpid(), group, 0, (0,))
    one.sort(0.0)
    late = named("tf_Compute")
    one.sort(LOOK_S / 2)
    assert late not in group.limited
    for look in range(1, 4):
        one.sort(LOOK_S * look)
    assert group.limited.count(late) == group.limited.count(os.getpid()) == 2  # again, as a thread names itself after its start


def test_a_process_that_is_gone_has_no_threads(moved):
    one = SortedThreads(4194305, _Group(), 0, (0,))
    one.sort(0.0)
    assert one.limited == set() and moved == {}


def test_processor_time_is_told_of_both_kinds():
    computing_s, other_s = processor_s(os.getpid())
    assert computing_s > 0 and other_s >= 0
