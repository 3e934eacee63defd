"""Clusters and programs that the tests of live things share."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

import hetero_mtf as hm
from hetero_mtf.runtime.limits import cgroup


@pytest.fixture(scope="session")
def pair():
    """Two emulated devices, on one core if need be, for tests that leave them alive."""
    with hm.Cluster.emulate([0.6, 0.3]) as cluster:
        yield cluster


@pytest.fixture
def groups():
    """Returns the names of all control groups of ours."""

    def listed():
        parent = cgroup.parent_folder()
        return {folder.name for folder in parent[0].glob("hetero_mtf-*")} if parent else set()

    return listed


@pytest.fixture
def eventually():
    """Waits for a condition and returns whether it came true; the limit is for a broken program, not a measure."""

    def wait(condition, limit_s=20.0):
        end_s = time.monotonic() + limit_s
        while not condition() and time.monotonic() < end_s:
            time.sleep(0.02)
        return condition()

    return wait


@pytest.fixture
def process_state():
    """Returns a process's one-letter state, or "" when it is gone."""

    def state(process):
        try:
            return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""

    return state


@pytest.fixture
def program():
    """Starts Python programs that are killed at the end of the test."""
    started = []

    def start(text, **variables):
        environment = {**os.environ, "PYTHONPATH": os.getcwd(), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **variables}
        process = subprocess.Popen(
            [sys.executable, "-c", text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def matmuls():
    """Returns a graph and, for each device of a cluster, a sum that takes `rounds` matrix products on it."""

    def build(cluster, rounds):
        import tensorflow as tf

        graph, sums = tf.Graph(), []
        with graph.as_default():
            for device in cluster.devices:
                with tf.device(device.tf_device):
                    product = tf.while_loop(lambda i, x: i < rounds, lambda i, x: (i + 1, tf.matmul(x, x) / 300), [0, tf.ones([300, 300])])[
                        1
                    ]
                    sums.append(tf.reduce_sum(product))
        return graph, sums

    return build
