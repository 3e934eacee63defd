"""Cluster: its ways of opening, sessions, containers, and what it says when something is wrong."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import hetero_mtf as hm
from hetero_mtf.errors import ClusterError, WorkerError


def test_importing_the_runtime_loads_no_tensorflow():
    program = "import sys, hetero_mtf.runtime.cluster; sys.exit(any(name in sys.modules for name in ('tensorflow', 'keras')))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_device_may_be_listed_several_times():
    cluster = hm.Cluster.local(["cpu:0"] * 3)
    assert [device.tf_device for device in cluster.devices] == ["/device:CPU:0"] * 3
    assert len(cluster.record.pools) == 1 and cluster.target == "" and cluster.method == "" and cluster.process_ids() == ()
    assert cluster.open_ports == ()


def test_local_devices_are_the_gpus_and_the_cpu():
    assert hm.Cluster.local().devices[-1].name == "cpu:0"


def test_a_local_session_computes_and_its_container_needs_no_release(matmuls):
    with hm.Cluster.local(["cpu:0"]) as cluster:
        graph, sums = matmuls(cluster, 2)
        with cluster.container("local") as container, graph.container(container.name), cluster.session(graph) as session:
            assert session.run(sums)[0] == pytest.approx(90000.0)


def test_two_emulated_devices_compute_together(pair, matmuls):
    graph, sums = matmuls(pair, 2)
    with pair.session(graph) as session:
        assert session.run(sum(sums)) == pytest.approx(180000.0)
        assert session.make_callable(sums[1])() == pytest.approx(90000.0)
        assert len(session.list_devices()) == 2


def test_the_target_is_the_device_with_the_largest_share(pair):
    assert pair.target == f"grpc://{pair._backend.hosts[0]}"
    assert [device.share for device in pair.devices] == [0.6, 0.3]


def _counter(cluster, container):
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default(), graph.container(container.name):
        cells = []
        for device in cluster.devices:
            with tf.device(device.tf_device):
                cells.append(tf.compat.v1.get_variable(f"cell{len(cells)}", initializer=tf.zeros([]), use_resource=True))
        start = tf.compat.v1.global_variables_initializer()
        step = [cell.assign_add(1.0) for cell in cells]
    return graph, start, step


@contextlib.contextmanager
def _senders(cluster):
    """Yield what runs sessions with the master of each worker, as batches are sent by."""
    import tensorflow as tf

    with contextlib.ExitStack() as stack:
        sessions = []
        for task in range(len(cluster.devices)):
            graph = tf.Graph()
            with graph.as_default(), tf.device(f"/job:worker/task:{task}/device:CPU:0"):
                total = tf.add(tf.constant(1.0), tf.constant(2.0))
            sessions.append((stack.enter_context(cluster.worker_session(graph, task)), total))
        yield lambda: [session.run(total) for session, total in sessions]


def test_trainers_on_one_cluster_do_not_see_each_other(pair):
    with pair.container() as one, pair.container() as two:
        (graph_1, start_1, step_1), (graph_2, start_2, step_2) = _counter(pair, one), _counter(pair, two)
        with pair.session(graph_1) as session_1, pair.session(graph_2) as session_2:
            session_1.run(start_1), session_2.run(start_2)
            session_1.run(step_1)
            assert session_1.run(step_1) == [2.0, 2.0]
            assert session_2.run(step_2) == [1.0, 1.0]


def test_releasing_a_container_forgets_its_variables_everywhere_and_leaves_other_sessions_alone(pair):
    import tensorflow as tf

    released, kept = pair.container(), pair.container()
    (graph_1, start_1, step_1), (graph_2, start_2, step_2) = _counter(pair, released), _counter(pair, kept)
    with pair.session(graph_1) as session_1, pair.session(graph_2) as session_2, _senders(pair) as sent:
        session_1.run(start_1), session_2.run(start_2)
        assert sent() == [3.0, 3.0]
        released.release()
        released.release()
        assert sent() == [3.0, 3.0]
        for step in step_1:
            with pytest.raises((tf.errors.FailedPreconditionError, tf.errors.NotFoundError)):
                session_1.run(step)
        assert session_2.run(step_2) == [1.0, 1.0]
    kept.release()


@pytest.mark.slow
def test_a_lone_device_frees_released_containers_beside_other_sessions():
    import tensorflow as tf

    with hm.Cluster.emulate([0.5]) as cluster:
        released, kept = cluster.container(), cluster.container()
        (graph_1, start_1, step_1), (graph_2, start_2, step_2) = _counter(cluster, released), _counter(cluster, kept)
        session_1, session_2 = cluster.session(graph_1), cluster.session(graph_2)
        session_1.run(start_1), session_2.run(start_2)
        session_1.close()
        released.release()
        assert session_2.run(step_2) == [1.0]
        with cluster.session(graph_1) as again, pytest.raises((tf.errors.FailedPreconditionError, tf.errors.NotFoundError)):
            again.run(step_1)
        assert session_2.run(step_2) == [2.0]
        session_2.close()
        kept.release()


def _kill_in_a_run(victim, matmuls):
    cluster = hm.Cluster.emulate([0.6, 0.3])
    try:
        graph, sums = matmuls(cluster, 10**7)
        session = cluster.session(graph)
        session.run(graph.get_tensor_by_name("ones:0"))
        threading.Timer(0.5, os.kill, (cluster.process_ids()[victim], signal.SIGKILL)).start()
        with pytest.raises(Exception) as caught:
            session.run(sums)
        error = cluster.explain(caught.value)
        with pytest.raises(WorkerError, match=f"worker:{victim} was killed by SIGKILL; open the cluster again"):
            cluster.session(graph)
        session.close()
    finally:
        cluster.close()
    return error


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_worker_killed_during_a_run_ends_the_run_with_one_sentence(victim, matmuls):
    error = _kill_in_a_run(victim, matmuls)
    assert isinstance(error, WorkerError)
    assert str(error) == f"worker:{victim} was killed by SIGKILL; open the cluster again, with a smaller batch if memory ran out"


@pytest.fixture
def keyboard():
    """Interrupts from the keyboard are heard: not by what a shell started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("keyboard")
def test_a_run_can_be_interrupted_from_the_keyboard(pair, matmuls):
    graph, sums = matmuls(pair, 10**7)
    session = pair.session(graph)
    session.run(graph.get_tensor_by_name("ones:0"))
    threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,)).start()
    with pytest.raises(KeyboardInterrupt):
        session.run(sums)
    session.close()
    graph, sums = matmuls(pair, 2)
    with pair.session(graph) as session:
        assert session.run(sums[0]) == pytest.approx(90000.0)


@pytest.mark.slow
def test_a_closed_cluster_says_so_and_closing_twice_is_harmless(matmuls):
    cluster = hm.Cluster.emulate([0.5])
    processes = cluster.process_ids()
    graph, sums = matmuls(cluster, 1)
    session = cluster.session(graph)
    session.run(sums)
    cluster.close()
    cluster.close()
    session.close()
    assert not any(os.path.exists(f"/proc/{process}") for process in processes)
    for use in (lambda: cluster.session(graph), cluster.container, lambda: cluster.set_share(0, 0.3)):
        with pytest.raises(ClusterError, match="the cluster is closed; open it again"):
            use()


@pytest.mark.slow
def test_two_clusters_may_be_open_at_once_one_of_them_opened_by_a_thread_that_has_ended(pair, matmuls, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_grpc_proxy", "")
    opened = []
    thread = threading.Thread(target=lambda: opened.append(hm.Cluster.emulate([0.3])))
    thread.start()
    thread.join()
    with opened[0] as other:
        time.sleep(0.6)
        for cluster in (pair, other):
            graph, sums = matmuls(cluster, 2)
            with cluster.session(graph) as session:
                assert session.run(sums[-1]) == pytest.approx(90000.0)
        assert other.target != pair.target
    assert pair._backend.fault() is None


@pytest.mark.parametrize("text", ["", "nonsense", "emulate", "emulate:", "local:", "hosts", "tf_config:1", "slurm:x"])
def test_a_text_that_names_no_cluster_is_refused(text):
    with pytest.raises(ClusterError, match="names no cluster; write local, emulate:1.0,0.5, tf_config, slurm or hosts:HOST:PORT,..."):
        hm.Cluster.parse(text)


def test_a_share_that_is_no_number_is_refused():
    with pytest.raises(ClusterError, match="'emulate:1.0,half' has a share that is no number; write emulate:1.0,0.5"):
        hm.Cluster.parse("emulate:1.0,half")


def test_a_limit_of_emulated_devices_is_parsed_and_another_refused(monkeypatch):
    opened = []
    monkeypatch.setattr(hm.Cluster, "emulate", lambda shares, **options: opened.append((shares, options["limit"])))
    hm.Cluster.parse("emulate:1.0,0.5:compute")
    hm.Cluster.parse("emulate:1.0,0.5")
    assert opened == [([1.0, 0.5], "compute"), ([1.0, 0.5], "process")]
    with pytest.raises(ClusterError, match="ends with 'fast', which is no limit"):
        hm.Cluster.parse("emulate:1.0,0.5:fast")


def test_local_is_parsed_with_and_without_devices():
    assert [device.name for device in hm.Cluster.parse("local:cpu:0,cpu:0").devices] == ["cpu:0", "cpu:0"]
    assert len(hm.Cluster.parse(" local ").devices) >= 1


def test_only_emulated_devices_have_a_share_to_set():
    with pytest.raises(ClusterError, match="only emulated devices have a share that can be set; open the cluster with emulate:..."):
        hm.Cluster.local(["cpu:0"]).set_share(0, 0.5)


def test_tf_config_and_slurm_are_read_from_the_environment(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ClusterError, match="TF_CONFIG is not set"):
        hm.Cluster.parse("tf_config")
    with pytest.raises(ClusterError, match="this is no Slurm job"):
        hm.Cluster.parse("slurm")


@pytest.mark.parametrize("limit_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_worker_timeout_that_is_no_time_is_refused(limit_s):
    with pytest.raises(ClusterError, match="is not positive and finite; leave it out for 30 s"):
        hm.Cluster.emulate([0.5], worker_timeout_s=limit_s)


def test_workers_that_compute_on_a_small_share_answer_and_those_of_a_local_cluster_need_not(pair, matmuls):
    graph, sums = matmuls(pair, 300)
    with pair.session(graph) as session:
        step = threading.Thread(target=session.run, args=(sums,))
        step.start()
        while step.is_alive():
            assert pair.unresponsive(10.0) is None
            step.join(0.1)
    assert hm.Cluster.local(["cpu:0"]).unresponsive(0.0) is None


def test_the_repr_of_a_cluster_names_its_devices_and_says_that_it_is_closed(pair):
    assert repr(pair) == "<Cluster of 2 devices: worker:0 (0.6 of a core), worker:1 (0.3 of a core)>"
    cluster = hm.Cluster.local(["cpu:0"])
    assert repr(cluster) == "<Cluster of 1 device: cpu:0>"
    cluster.close()
    assert repr(cluster) == "<Cluster of 1 device: cpu:0, closed>"
