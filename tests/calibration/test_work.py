"""Work: a loop on a device that lasts as long as it is told."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.calibration import work as module
from hetero_mtf.calibration.work import work_on


def test_work_multiplies_as_often_as_it_is_told_and_passes_a_tensor_on() -> None:
    graph = tf.Graph()
    with hm.Cluster.local(["cpu:0"]) as cluster:
        with graph.as_default():
            work = work_on(cluster.devices[0].tf_device)
            (passed,) = work.after([tf.constant([1.0, 2.0])])
        with cluster.session(graph) as session:
            assert [session.run(work.done, {work.repeats: count}) for count in (0, 1, 7)] == [0, 1, 7]
            assert session.run(passed, {work.repeats: 2}).tolist() == [1.0, 2.0]


def test_its_count_follows_from_the_seconds_of_one_which_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, calls = [0.0], []

    class _Session:
        def run(self, fetches: Any, feed: Any) -> None:
            (count,) = feed.values()
            calls.append(count)
            now_s[0] += 0.001 * count

    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now_s[0], monotonic=time.monotonic))
    with tf.Graph().as_default():
        work = work_on("/device:CPU:0")
    assert work.count(_Session(), 0.02) == 20 and calls == [4, 16, 64]
    assert work.count(_Session(), 0.1) == 100 and work.count(_Session(), 1e-9) == 1 and len(calls) == 3
