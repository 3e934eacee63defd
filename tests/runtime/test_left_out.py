"""Workers that are left out: their loss is named by number, and the others go on."""

import os
import signal
import time

import pytest

import hetero_mtf as hm
from hetero_mtf.errors import ClusterError, WorkerError
from hetero_mtf.runtime.liveness.lease import _LeaseConnection
from hetero_mtf.runtime.ports import free_ports

SERVER = """
from hetero_mtf.runtime.worker import serve
serve({hosts!r}, {task}, threads=1, ready=lambda: print("ready", flush=True))
"""
SOON_S = 10.0  # far below the half minute after which a call is given up


def run(cluster, session, fetches):
    """Return what a session gives; an error is explained, as where models are trained."""
    import tensorflow as tf

    try:
        return session.run(fetches)
    except tf.errors.OpError as fault:
        raise cluster.explain(fault) from fault


def check_used(cluster, matmuls):
    """Run a step on all devices in use."""
    graph, sums = matmuls(cluster, 1)
    with cluster.session(graph) as session:
        assert run(cluster, session, sums) == [pytest.approx(90000.0)] * len(cluster.devices)


@pytest.mark.parametrize("lost", [pytest.param(0, id="the one with the master"), pytest.param(1, id="another")])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.slow
def test_emulated_devices_go_on_without_one(matmuls, eventually, lost, end):
    with hm.Cluster.emulate([0.5, 0.3, 0.3], worker_timeout_s=2.0) as cluster:
        check_used(cluster, matmuls)
        container = cluster.container()
        graph, sums = matmuls(cluster, 10**7)
        session = cluster.session(graph)
        session.run(graph.get_tensor_by_name("ones:0"))
        os.kill(cluster.process_ids()[lost], end)
        with pytest.raises(WorkerError) as fault:
            run(cluster, session, sums)
        assert fault.value.lost == ((lost,),)
        cluster.leave_out({lost})
        assert cluster.left_out == (lost,) and cluster.fault() is None
        assert [device.name for device in cluster.devices] == [f"worker:{index}" for index in range(3) if index != lost]
        with pytest.raises(WorkerError, match="left out"):
            session.run(sums)
        start_s = time.monotonic()
        session.close()
        container.release()
        check_used(cluster, matmuls)
        assert time.monotonic() - start_s < SOON_S
        with pytest.raises(WorkerError, match=f"worker {lost} left out of the cluster; place nothing on their devices"):
            cluster.worker_session(graph, lost)
        if end == signal.SIGSTOP:
            assert cluster.returned() == ()
            os.kill(cluster.process_ids()[lost], signal.SIGCONT)
            assert eventually(lambda: cluster.returned() == (lost,))
            cluster.leave_out(())
            check_used(cluster, matmuls)
        else:
            other = 0 if lost else 2
            os.kill(cluster.process_ids()[other], signal.SIGKILL)
            with pytest.raises(WorkerError, match=f"worker:{other} was killed by SIGKILL") as fault:
                while True:
                    check_used(cluster, matmuls)
            assert fault.value.lost == ((other,),)


@pytest.mark.slow
def test_a_worker_elsewhere_that_is_killed_is_left_out_and_used_again(program, matmuls, eventually):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(3)]
    processes = [program(SERVER.format(hosts=hosts, task=task)) for task in range(3)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
    with hm.Cluster.hosts(hosts) as cluster:
        check_used(cluster, matmuls)
        for task in (0, 2):
            processes[task].kill()
            with pytest.raises(WorkerError) as fault:
                while True:
                    check_used(cluster, matmuls)
            assert fault.value.lost == ((task,),)
            cluster.leave_out({task, *cluster.left_out})
            check_used(cluster, matmuls)
        assert cluster.left_out == (0, 2) and cluster.returned() == ()
        processes[2] = program(SERVER.format(hosts=hosts, task=2))
        assert processes[2].stdout.readline() == "ready\n"
        assert eventually(lambda: cluster.returned() == (2,))
        cluster.leave_out({0})
        check_used(cluster, matmuls)
        assert [device.name for device in cluster.devices] == ["worker:1", "worker:2"]
        held = [_LeaseConnection(host) for host in hosts[1:]]
        assert all(each.ask("who", answered=True)["holder"].startswith(f"process {os.getpid()} ") for each in held)
        for each in held:
            each.socket.close()
    assert [process.poll() for process in processes[1:]] == [None, None]


def test_not_all_workers_are_left_out_and_none_that_is_not_there(pair):
    for workers in ((0, 1), (2,), (-1,)):
        with pytest.raises(ClusterError, match="cannot be left out; name some of them, not all, from 0"):
            pair.leave_out(workers)
    pair.leave_out(())
    assert pair.left_out == ()
    with pytest.raises(ClusterError, match="the devices of this process have no workers"):
        hm.Cluster.local().leave_out(())


@pytest.mark.slow
def test_a_spare_worker_that_comes_later_is_described_and_used(program, matmuls, eventually):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(2)]
    first = program(SERVER.format(hosts=hosts, task=0))
    assert first.stdout.readline() == "ready\n"
    with pytest.raises(ClusterError, match=f"no server answers on {hosts[1]}"):
        hm.Cluster.hosts(hosts, wait_s=0.0)
    with hm.Cluster.hosts(hosts, wait_s=0.0, spare=1) as cluster:
        assert cluster.left_out == (1,) and [device.name for device in cluster.devices] == ["worker:0"]
        check_used(cluster, matmuls)
        assert cluster.returned() == () and cluster.fault() is None
        second = program(SERVER.format(hosts=hosts, task=1))
        assert second.stdout.readline() == "ready\n" and eventually(lambda: cluster.returned() == (1,))
        cluster.leave_out(())
        assert [device.name for device in cluster.devices] == ["worker:0", "worker:1"] and len(cluster.record.pools) == 1
        check_used(cluster, matmuls)
        second.kill()
        with pytest.raises(WorkerError) as fault:
            while True:
                check_used(cluster, matmuls)
        assert fault.value.lost == ((1,),)
    with hm.Cluster.hosts(hosts, spare=1) as cluster:  # the first one starts again meanwhile, as the loss left something there
        assert cluster.left_out == (1,)


@pytest.mark.parametrize("spare", [-1, 2, 1.0, True])
def test_one_worker_has_to_be_there(spare):
    with pytest.raises(ClusterError, match=r"of 2 workers are to be spare ones; give a whole number from 0 to 1"):
        hm.Cluster.hosts(["127.0.0.1:61000", "127.0.0.1:61001"], spare=spare)
