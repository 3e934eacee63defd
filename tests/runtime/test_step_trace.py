"""Sums over a trace: overlapping work counts once, and what is sent under work is not sending."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from hetero_mtf.devices.records import Device
from hetero_mtf.runtime.step_trace import covered_s, read_trace, traced

FULL = "/job:worker/replica:0/task:{}/device:CPU:0"
PAIR = [Device(f"worker:{n}", "CPU", "here", f"/job:worker/task:{n}/device:CPU:0", 1, "ram") for n in (0, 1)]


def _stats(work: dict[int, list[tuple[int, int]]], sent: list[tuple[int, int, int, int]]) -> Any:
    """Return step stats of work, {task: [(start, end), ...]}, and of tensors sent, [(from, to, start, end), ...], in milliseconds."""
    stats = tf.compat.v1.RunMetadata().step_stats
    for task, intervals in work.items():
        entry = stats.dev_stats.add(device=FULL.format(task))
        for start, end in intervals:
            times = {"all_start_micros": 1000 * start, "op_start_rel_micros": 0, "op_end_rel_micros": 1000 * (end - start)}
            entry.node_stats.add(node_name="conv", timeline_label="conv = Conv2D(x, kernel)", **times)
    for source, target, start, end in sent:
        label = f"[1.0MB] [1.0Gb/s] edge_1_conv from {FULL.format(source)} to {FULL.format(target)}"
        times = {"all_start_micros": 1000 * start, "all_end_rel_micros": 1000 * (end - start)}
        stats.dev_stats.add(device=FULL.format(source)).node_stats.add(node_name="RecvTensor", timeline_label=label, **times)
    return stats


@pytest.mark.parametrize(
    ("intervals", "seconds"),
    [([], 0.0), ([(1, 2), (1, 2)], 1.0), ([(3, 4), (0, 2), (1, 1.5)], 3.0), ([(0, 5), (1, 2), (4, 7)], 7.0)],
)
def test_time_with_several_intervals_counts_once(intervals: list[tuple[float, float]], seconds: float) -> None:
    assert covered_s(intervals) == pytest.approx(seconds)


def test_each_device_is_busy_sending_or_waiting() -> None:
    stats = _stats({0: [(0, 40), (20, 60)], 1: [(10, 30)]}, [(1, 0, 30, 45), (0, 1, 60, 70)])
    fast, slow = read_trace(stats, PAIR, 0.1).parts
    assert (fast.device, slow.device) == ("worker:0", "worker:1")
    assert (fast.compute_s, fast.communication_s, fast.idle_s) == pytest.approx((0.06, 0.01, 0.03))
    assert (slow.compute_s, slow.communication_s, slow.idle_s) == pytest.approx((0.02, 0.025, 0.055))
    assert (fast.overlapped_s, slow.overlapped_s) == pytest.approx((0.015, 0.0))


def test_what_passes_before_the_first_device_begins_and_after_the_last_ends_is_launch_and_collection() -> None:
    stats = _stats({0: [(20, 40)], 1: [(50, 60)]}, [(0, 1, 10, 15), (1, 0, 60, 70)])
    trace = read_trace(stats, PAIR, 0.1, began_s=0.004)
    assert (trace.launch_s, trace.collected_s) == pytest.approx((0.006, 0.034))
    assert all(part.idle_s >= trace.launch_s + trace.collected_s - 1e-12 for part in trace.parts)
    late = read_trace(stats, PAIR, 0.05, began_s=0.03)  # clocks that differ
    assert (late.launch_s, late.collected_s) == pytest.approx((0.0, 0.01))
    without = read_trace(stats, PAIR, 0.1)
    assert (without.launch_s, without.collected_s) == (0.0, 0.0) == (read_trace(_stats({}, []), PAIR, 0.1, 0.0).launch_s, 0.0)


def test_processors_on_one_device_are_one_part_and_a_device_without_work_waits() -> None:
    local = [Device(name, "CPU", "here", "/device:CPU:0", 1, "ram") for name in ("first", "second")]
    (part,) = read_trace(_stats({0: [(0, 40)]}, []), local, 0.1).parts
    assert (part.device, part.compute_s) == ("first", pytest.approx(0.04))
    idle = read_trace(_stats({0: [(0, 40)]}, []), PAIR, 0.1).parts[1]
    assert (idle.compute_s, idle.communication_s, idle.idle_s) == (0.0, 0.0, 0.1)


def test_a_session_call_is_traced_as_it_runs() -> None:
    device = Device("cpu:0", "CPU", "here", "/device:CPU:0", 1, "ram")
    with tf.Graph().as_default(), tf.device(device.tf_device):
        product = tf.matmul(tf.random.normal((200, 200)), tf.random.normal((200, 200)))
    with tf.compat.v1.Session(graph=product.graph) as session:
        answer, trace = traced(lambda **options: session.run(product, **options), [device])
    assert answer.shape == (200, 200)
    assert 0 < trace.parts[0].compute_s <= trace.step_s
    assert 0 < trace.launch_s + trace.collected_s <= trace.parts[0].idle_s + 1e-3
    assert trace.parts[0].communication_s == 0


def test_the_tasks_of_a_pipeline_are_told_apart_by_the_names_of_their_operations() -> None:
    stats = _stats({0: [(5, 10)]}, [])
    for task, name, start, end in (
        (0, "train_8/stage0_forward0/conv/Conv2D", 10, 30),
        (0, "train_8/stage0_forward0/bias/BiasAdd", 25, 40),
        (1, "train_8/stage1_backward0/conv/Conv2D", 35, 50),
        (0, "train_8/transfer/Identity", 50, 60),
    ):
        times = {"all_start_micros": 1000 * start, "op_start_rel_micros": 0, "op_end_rel_micros": 1000 * (end - start)}
        stats.dev_stats.add(device=FULL.format(task)).node_stats.add(node_name=name, **times)
    first, second = read_trace(stats, PAIR, 0.1).tasks
    assert (first.device, first.task, second.device, second.task) == ("worker:0", "stage0_forward0", "worker:1", "stage1_backward0")
    assert (first.start_s, first.end_s, first.compute_s) == pytest.approx((0.005, 0.035, 0.03))
    assert (second.start_s, second.end_s, second.compute_s) == pytest.approx((0.03, 0.045, 0.015))
