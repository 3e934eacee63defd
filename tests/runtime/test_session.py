"""Calls that may never return."""

import threading

import pytest

from hetero_mtf.errors import WorkerError
from hetero_mtf.runtime.session import WatchedCalls, session_config


def test_answers_and_errors_come_back_to_the_caller():
    watch = WatchedCalls(lambda: None)
    assert watch(lambda: 7) == 7
    with pytest.raises(KeyError):
        watch(lambda: {}["missing"])
    watch.close()


def test_calls_share_one_thread_and_calls_within_calls_get_another():
    watch = WatchedCalls(lambda: None)
    first, second = watch(threading.get_ident), watch(threading.get_ident)
    outer, inner = watch(lambda: (threading.get_ident(), watch(threading.get_ident)))
    assert first == second == outer != inner
    watch.close()


@pytest.mark.slow
def test_a_call_that_never_returns_is_given_up_when_the_cluster_is_at_fault():
    never, faults = threading.Event(), iter([None, None])
    watch = WatchedCalls(lambda: next(faults, WorkerError("worker:0 is gone; open the cluster again")))
    with pytest.raises(WorkerError, match="worker:0 is gone"):
        watch(never.wait)
    never.set()
    watch.close()


def test_a_call_that_ends_with_the_worker_tells_its_own_error():
    ended, faults = threading.Event(), iter([None])

    def fault():
        try:
            return next(faults)
        except StopIteration:
            ended.set()
            return WorkerError("gone; open")

    with pytest.raises(KeyError):
        WatchedCalls(fault)(lambda: {}["missing" if ended.wait() else ""])


def test_a_cluster_at_fault_is_not_called_at_all():
    with pytest.raises(WorkerError, match="gone"):
        WatchedCalls(lambda: WorkerError("gone; open"))(lambda: pytest.fail("called"))


def test_sessions_place_nothing_elsewhere_and_leave_grappler_out():
    config = session_config([0, 2])
    assert not config.allow_soft_placement and config.gpu_options.allow_growth
    assert config.graph_options.rewrite_options.disable_meta_optimizer
    assert list(config.device_filters) == ["/job:worker/task:0", "/job:worker/task:2"] and not session_config().device_filters
