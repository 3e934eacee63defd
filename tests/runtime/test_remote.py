"""Servers started elsewhere, in the way `hetero-mtf worker` starts them."""

import json
import os
import pathlib
import signal
import socket

import pytest

import hetero_mtf as hm
from hetero_mtf.errors import ClusterError, WorkerError
from hetero_mtf.runtime import remote, worker
from hetero_mtf.runtime.ports import check_port, free_ports
from hetero_mtf.runtime.worker import serve

SERVER = """
from hetero_mtf.runtime.worker import serve
serve({hosts!r}, {task}, threads=1, ready=lambda: print("ready", flush=True))
"""


@pytest.fixture
def servers(program):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = [program(SERVER.format(hosts=hosts, task=task)) for task in range(2)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    return hosts, processes


@pytest.mark.slow
def test_servers_are_found_used_left_and_missed(servers, matmuls):
    hosts, processes = servers
    text = json.dumps({"cluster": {"worker": hosts, "chief": ["127.0.0.1:1"]}, "task": {"type": "chief", "index": 0}})
    with hm.Cluster.from_tf_config(text) as cluster:
        assert [(d.name, d.tf_device, d.kind) for d in cluster.devices] == [
            ("worker:0", "/job:worker/task:0/device:CPU:0", "CPU"),
            ("worker:1", "/job:worker/task:1/device:CPU:0", "CPU"),
        ]
        assert cluster.devices[0].memory_bytes > 2**20 and len(cluster.record.pools) == 1
    with pytest.raises(ClusterError, match="the cluster is closed"):
        cluster.container()
    with hm.Cluster.hosts(hosts) as again:
        graph, sums = matmuls(again, 2)
        with again.container() as container, graph.container(container.name), again.session(graph) as session:
            assert session.run(sums) == [pytest.approx(90000.0)] * 2
        graph, sums = matmuls(again, 10**7)
        session = again.session(graph)
        session.run(graph.get_tensor_by_name("ones:0"))
        processes[0].kill()
        with pytest.raises(WorkerError, match=f"the server on {hosts[0]} no longer answers; start it again with hetero-mtf worker"):
            session.run(sums)
        session.close()
    assert processes[1].poll() is None


SECOND = """
import hetero_mtf as hm
from hetero_mtf.errors import ClusterError
try:
    hm.Cluster.hosts({hosts!r})
except ClusterError as fault:
    print(fault, flush=True)
"""
KILLED = """
import os, signal
import tensorflow as tf
import hetero_mtf as hm
cluster, graph = hm.Cluster.hosts({hosts!r}), tf.Graph()
with graph.as_default(), graph.container(cluster.container().name):
    for index, device in enumerate(cluster.devices):
        with tf.device(device.tf_device):
            tf.compat.v1.get_variable(f"v{{index}}", initializer=tf.ones([2**26]), use_resource=True)
    start = tf.compat.v1.global_variables_initializer()
cluster.session(graph).run(start)
print("ready", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_closing_the_cluster_frees_what_was_not_released_and_the_workers_go_on(servers):
    import tensorflow as tf

    hosts, processes = servers
    graph = tf.Graph()
    with hm.Cluster.hosts(hosts) as cluster:
        with graph.as_default(), graph.container(cluster.container().name), tf.device(cluster.devices[1].tf_device):
            cell = tf.compat.v1.get_variable("cell", initializer=tf.zeros([]), use_resource=True)
            read, start = cell.read_value(), cell.initializer
        session = cluster.session(graph)
        session.run(start)
        assert session.run(read) == 0.0
    with hm.Cluster.hosts(hosts) as cluster, cluster.session(graph) as session:
        with pytest.raises((tf.errors.FailedPreconditionError, tf.errors.NotFoundError)):
            session.run(read)
    for process in processes:  # they have not started again in between, which they would say
        process.kill()
        assert process.stdout.read() == ""


def _own_bytes(process):
    """Return the bytes that a process holds for itself; how much of its libraries is mapped depends on the state of the page cache."""
    lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


@pytest.mark.slow
def test_workers_are_for_one_program_and_a_killed_one_leaves_nothing_on_them(servers, matmuls, program, monkeypatch):
    monkeypatch.setattr(remote, "REACH_LIMIT_S", 200.0)
    hosts, processes = servers
    empty_bytes = [_own_bytes(process) for process in processes]
    with hm.Cluster.hosts(hosts) as cluster:
        graph, sums = matmuls(cluster, 2)
        with cluster.session(graph) as session:
            for listed in (hosts[:1], hosts[::-1]):
                said = program(SECOND.format(hosts=listed)).stdout.readline()
                assert f"by process {os.getpid()} on " in said and all(host in said for host in listed)
            assert session.run(sums) == [pytest.approx(90000.0)] * 2
    killed = program(KILLED.format(hosts=hosts))
    assert killed.stdout.readline() == "ready\n" and killed.wait(timeout=60) == -signal.SIGKILL
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    assert all(_own_bytes(process) < before + 2**27 for process, before in zip(processes, empty_bytes))
    with hm.Cluster.hosts(hosts) as cluster:
        graph, sums = matmuls(cluster, 2)
        with cluster.session(graph) as session:
            assert session.run(sums) == [pytest.approx(90000.0)] * 2


@pytest.mark.slow
def test_a_worker_can_be_interrupted(program):
    server = program(SERVER.format(hosts=[f"127.0.0.1:{free_ports(1)[0]}"], task=0))
    assert server.stdout.readline() == "ready\n"
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=60) != 0


def test_servers_that_do_not_answer_are_all_named(monkeypatch):
    monkeypatch.setattr(remote, "REACH_LIMIT_S", 0.0)
    ports = free_ports(2)
    with pytest.raises(
        ClusterError, match=f"no server answers on 127.0.0.1:{ports[0]}, 127.0.0.1:{ports[1]}; start one there with hetero-mtf"
    ):
        hm.Cluster.hosts([f"127.0.0.1:{port}" for port in ports])


def test_a_name_that_cannot_be_resolved_is_no_silent_server(monkeypatch):
    monkeypatch.setattr(remote, "REACH_LIMIT_S", 0.0)
    silent = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(ClusterError, match=r"^the name gone.invalid cannot be resolved here \(.+\); correct the list of hosts$"):
        hm.Cluster.hosts(["gone.invalid:2222"])
    with pytest.raises(
        ClusterError, match=f"gone.invalid cannot be .*, no server answers on {silent}; correct the list of hosts and start one"
    ):
        hm.Cluster.hosts([silent, "gone.invalid:2222"])


def test_a_server_for_a_port_in_use_says_so():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ClusterError, match=f"port {port} is in use by another process; choose another port or end that process"):
            serve([f"127.0.0.1:{port}"], 0)


def test_a_port_taken_between_the_check_and_the_start_is_named_too(monkeypatch):
    checked, (port,) = [], free_ports(1)  # the port of its lease is free, too
    monkeypatch.setattr(worker, "check_port", lambda port: checked.append(port) if not checked else check_port(port))
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        with pytest.raises(ClusterError, match=f"port {port} is in use by another process"):
            serve([f"127.0.0.1:{port}"], 0)


def test_a_server_that_does_not_start_for_another_reason_says_why(monkeypatch):
    import tensorflow as tf

    def refuse(*values, **options):
        raise tf.errors.UnknownError(None, None, "no threads left")

    monkeypatch.setattr(tf.distribute, "Server", refuse)
    host = f"127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(ClusterError, match=rf"TensorFlow's server for {host} did not start \(no threads left\); choose another port"):
        serve([host], 0)


@pytest.mark.slow
def test_servers_with_different_lists_are_refused(program):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = [program(SERVER.format(hosts=[host], task=0)) for host in hosts]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    with pytest.raises(ClusterError, match=r"the servers do not form one cluster \(.*\); start all with the same list of hosts"):
        hm.Cluster.hosts(hosts)


def test_a_task_that_is_not_in_the_list_is_refused():
    with pytest.raises(ClusterError, match="task 2 is not among the 1 hosts a:1; number tasks from 0"):
        serve(["a:1"], 2)
