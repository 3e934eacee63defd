"""Emulated devices: shares hold, and nothing is left behind whatever dies."""

import json
import os
import signal
import socket
import threading
import time

import pytest

import hetero_mtf as hm
from hetero_mtf.errors import ClusterError, WorkerError
from hetero_mtf.runtime import emulation, firewall
from tests.cases import first_fast

METHODS = ["cgroup", "duty_cycle"]
WAYS = [*METHODS, "compute"]  # the last is a limit of threads that compute
OWNER = """
import json, os, sys, threading, time
import hetero_mtf as hm
from hetero_mtf.errors import ClusterError
opened = []
def open_cluster():
    try:
        way = sys.argv[1]
        opened.append(hm.Cluster.emulate([0.4], **({"limit": way} if way == "compute" else {"method": way})))
    except ClusterError as fault:
        os._exit(1)
if sys.argv[2] == "thread":
    thread = threading.Thread(target=open_cluster)
    thread.start()
    thread.join()
else:
    open_cluster()
cluster = opened[0]
print(json.dumps([cluster.process_ids()[0], cluster._backend._process.pid]), flush=True)
time.sleep(600)
"""


def _open(shares, way):
    try:
        return hm.Cluster.emulate(shares, **({"limit": way} if way == "compute" else {"method": way}))
    except ClusterError as fault:
        pytest.skip(str(fault))


def _processor_s(process):
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _used_share(cluster, session, busy, window_s=1.5):
    process = cluster.process_ids()[0]
    session.run(busy)
    before_s, start_s = _processor_s(process), time.monotonic()
    while time.monotonic() < start_s + window_s:
        session.run(busy)
    return (_processor_s(process) - before_s) / (time.monotonic() - start_s)


@pytest.mark.slow
@pytest.mark.parametrize("method", WAYS)
def test_a_busy_worker_uses_its_share_of_processor_time_and_a_new_share_takes_hold(method, matmuls):
    with _open([0.6], method) as cluster:
        assert cluster.method == {"compute": "cgroup, compute only"}.get(method, method)
        graph, sums = matmuls(cluster, 20)
        with cluster.session(graph) as session:
            most = _used_share(cluster, session, sums)
            cluster.set_share(0, 0.2)
            least = min(_used_share(cluster, session, sums) for _ in range(3))  # other processes may delay the supervisor in one window
            cluster.set_share(0, 1.0)
            assert session.run(sums)[0] == pytest.approx(90000.0)
        assert 0.1 < most < 0.75
        assert 0.03 < least < min(0.45, most)  # a third of the share before, and the clock of a busy machine is coarse
        assert [device.share for device in cluster.devices] == [0.6]


def _groups_of_threads(process):
    """Return name of a thread -> its control group for the cpu controller, and the cores that it may use, of all threads."""
    found = []
    for thread in os.listdir(f"/proc/{process}/task"):
        folder = f"/proc/{process}/task/{thread}"
        with open(f"{folder}/comm") as name, open(f"{folder}/cgroup") as membership:
            lines = [line.rstrip("\n").split(":", 2) for line in membership]
            group = next((path for _, names, path in lines if "cpu" in names.split(",")), None) or next(p for n, _, p in lines if n == "0")
            found.append((name.read().rstrip("\n"), group, os.sched_getaffinity(int(thread))))
    return found


@pytest.mark.slow
def test_only_threads_that_compute_are_limited_and_results_are_the_same(matmuls, groups):
    with _open([0.5, 0.3], "compute") as cluster:
        assert [device.limit for device in cluster.devices] == ["compute", "compute"]
        graph, sums = matmuls(cluster, 2)
        with cluster.session(graph) as session:
            assert session.run(sum(sums)) == pytest.approx(180000.0)
        time.sleep(1.0)  # threads that were started by the session are sorted
        for process in cluster.process_ids():
            for name, group, cores in _groups_of_threads(process)[1:]:
                limited = name.startswith("tf_")
                assert group.endswith("/compute") == limited
                assert (len(cores) == 1) == limited or len(os.sched_getaffinity(0)) == 1
        supervisor = cluster._backend._process.pid
    assert not any(f"-{supervisor}-" in name for name in groups())


@pytest.mark.slow
def test_a_cluster_whose_threads_cannot_be_limited_is_refused(monkeypatch):
    started = emulation.Emulation._start

    def without_groups(self):
        self._method = "duty_cycle"  # as where no group can be made
        started(self)

    monkeypatch.setattr(emulation.Emulation, "_start", without_groups)
    with pytest.raises(ClusterError, match="no control group for single threads can be made here.*; leave the limit out"):
        hm.Cluster.emulate([0.5], limit="compute")


@pytest.fixture
def owned(program, groups):
    """Starts a program with an emulated device, opened by a thread that has ended or not; returns it, the worker and its supervisor."""

    def start(method, where="main"):
        owner = program(f"import sys\nsys.argv = ['owner', {method!r}, {where!r}]\n{OWNER}")
        line = owner.stdout.readline()
        if not line:
            pytest.skip(f"{method} does not work here")
        worker, supervisor = json.loads(line)
        assert any(f"-{supervisor}-" in name for name in groups()) == (method != "duty_cycle")
        return owner, worker, supervisor

    return start


@pytest.mark.slow
@pytest.mark.parametrize("method", first_fast(WAYS, 1))
def test_nothing_is_left_when_the_owner_is_killed(method, owned, groups, process_state, eventually):
    owner, worker, supervisor = owned(method)
    owner.kill()
    assert eventually(lambda: process_state(worker) in ("", "Z") and process_state(supervisor) in ("", "Z"))
    assert not any(f"-{supervisor}-" in name for name in groups())


@pytest.mark.slow
@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.parametrize("method", WAYS)
def test_nothing_is_left_when_the_owner_is_killed_while_the_supervisor_is_stopped(method, where, owned, groups, process_state, eventually):
    owner, worker, supervisor = owned(method, where)
    os.kill(supervisor, signal.SIGSTOP)
    assert eventually(lambda: process_state(supervisor) == "T")
    os.kill(worker, signal.SIGSTOP)
    owner.kill()
    ended = eventually(lambda: process_state(worker) in ("", "Z") and process_state(supervisor) in ("", "Z"))
    if not ended:
        os.kill(supervisor, signal.SIGKILL)  # which ends the worker too
    assert ended
    assert not any(f"-{supervisor}-" in name for name in groups())


@pytest.mark.slow
@pytest.mark.parametrize("method", WAYS)
def test_no_stopped_worker_is_left_when_the_supervisor_is_killed_and_its_groups_are_swept(method, groups, process_state, eventually):
    with _open([0.4], method) as cluster:
        worker, supervisor = cluster.process_ids()[0], cluster._backend._process.pid
        if method == "duty_cycle":
            assert eventually(lambda: process_state(worker) == "T")
        os.kill(supervisor, signal.SIGKILL)
        assert eventually(lambda: process_state(worker) in ("", "Z"))
        assert eventually(lambda: cluster._backend.fault() is not None)
        with pytest.raises(
            WorkerError, match="the emulated cluster is closed or its supervisor process was killed; open the cluster again"
        ):
            cluster.container()
    assert not any(f"-{supervisor}-" in name for name in groups())


@pytest.mark.slow
def test_a_cluster_that_is_forgotten_ends(process_state):
    cluster = hm.Cluster.emulate([0.5])
    worker = cluster.process_ids()[0]
    del cluster
    assert process_state(worker) == ""


def test_a_fork_that_ends_leaves_the_cluster_of_its_parent(pair):
    child = os.fork()
    if child == 0:
        pair._backend._finalizer()
        os._exit(0)
    os.waitpid(child, 0)
    assert pair._backend.fault(wait_s=0.3) is None


@pytest.mark.slow
def test_a_port_taken_at_the_last_moment_is_tried_again_with_others(monkeypatch):
    free = emulation.free_ports(1)
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        offers = [(other.getsockname()[1],), free]
        monkeypatch.setattr(emulation, "free_ports", lambda count: offers.pop(0))
        with hm.Cluster.emulate([0.5]) as cluster:
            assert cluster.target == f"grpc://127.0.0.1:{free[0]}"


@pytest.mark.slow
def test_a_port_that_stays_taken_is_named(monkeypatch):
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(emulation, "free_ports", lambda count: (port,))
        with pytest.raises(
            WorkerError, match=f"worker:0 ended with exit code 98 while it started, end of its log: port {port} is in use by another"
        ):
            hm.Cluster.emulate([0.5]).process_ids()


def test_a_worker_that_dies_at_start_is_quoted(monkeypatch, groups, process_state):
    monkeypatch.setattr(emulation, "available_cores", lambda: (1023,))
    with hm.Cluster.emulate([0.5]) as cluster:
        supervisor = cluster._backend._process.pid
        for need in (lambda: cluster.session(None), cluster.process_ids, lambda: cluster.set_share(0, 0.3), lambda: cluster.method):
            with pytest.raises(
                WorkerError, match=r"worker:0 ended with exit code 1 while it started, end of its log: .*OSError.*; open the cluster again"
            ):
                need()
        assert "worker:0 ended with exit code 1 while it started" in str(cluster.fault())
        assert process_state(supervisor) == ""  # before the cluster is closed
        assert not any(f"-{supervisor}-" in name for name in groups())


def test_a_worker_that_is_not_ready_in_time_is_named_and_ended(process_state):
    late = emulation.Emulation([0.5, 0.5], start_limit_s=0.05)
    with pytest.raises(WorkerError, match="worker:0, worker:1 was not ready in time; free the machine or use fewer devices"):
        late.await_ready()
    assert process_state(late._process.pid) == ""


def test_a_supervisor_that_cannot_start_is_quoted(monkeypatch):
    monkeypatch.setattr(emulation, "child_variables", lambda changes: {"PYTHONHOME": "/nonexistent"})
    with pytest.raises(WorkerError, match=r"the workers' supervisor ended at start \(.+\); start again"):
        emulation.Emulation([0.5]).await_ready()


@pytest.fixture
def starting(process_state, eventually):
    """A cluster whose workers never begin, as their supervisor is stopped."""
    cluster = hm.Cluster.emulate([0.5, 0.25])
    supervisor = cluster._backend._process.pid
    os.kill(supervisor, signal.SIGSTOP)
    assert eventually(lambda: process_state(supervisor) == "T")
    yield cluster
    cluster.close()
    assert process_state(supervisor) == ""


def test_workers_that_start_are_not_waited_for_until_they_are_needed(starting):
    assert [device.share for device in starting.devices] == [0.5, 0.25]
    assert starting.fault() is None and starting.unresponsive(0.0) is None
    starting.container().release()


def test_a_wait_for_workers_that_start_ends_when_the_cluster_is_closed(starting):
    closing = threading.Timer(0.3, starting.close)
    closing.start()
    with pytest.raises(WorkerError, match="the emulated cluster is closed or its supervisor process was killed; open the cluster again"):
        starting.process_ids()
    closing.join()
    assert starting.open_ports == ()
    with pytest.raises(ClusterError, match="the cluster is closed; open it again"):
        starting.session(None)


INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background, it is ignored
import os, signal
import hetero_mtf as hm
cluster = hm.Cluster.emulate([0.4])
os.kill(cluster._backend._process.pid, signal.SIGSTOP)
try:
    with cluster:
        print(cluster._backend._process.pid, flush=True)
        cluster.process_ids()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_nothing_is_left_when_a_wait_for_workers_is_interrupted(program, process_state, eventually):
    owner = program(INTERRUPTED)
    supervisor = int(owner.stdout.readline())
    assert eventually(lambda: process_state(owner.pid) == "S")
    owner.send_signal(signal.SIGINT)
    assert owner.stdout.readline() == "interrupted\n"
    assert eventually(lambda: process_state(supervisor) in ("", "Z"))
    assert owner.wait(20.0) == 0


def test_nothing_is_left_when_a_program_ends_before_its_workers_are_ready(program, process_state, eventually):
    owner = program("import hetero_mtf as hm\ncluster = hm.Cluster.emulate([0.4])\nprint(cluster._backend._process.pid)")
    supervisor = int(owner.stdout.readline())
    assert owner.wait(20.0) == 0
    assert eventually(lambda: process_state(supervisor) in ("", "Z"))


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ([], "the list of shares is empty"),
        ([1.0, 0.0], "the share 0 is not between 0.001 and 1"),
        ([1.5], "the share 1.5 is not between 0.001 and 1"),
        ([-0.5], "the share -0.5 is not between"),
        ([float("nan")], "the share nan is not between"),
        ([1.0] * 4097, "the shares sum to 4097 and this process may use"),
        (["half"], "are not numbers; write one share a device"),
        (0.5, "the shares 0.5 are not numbers"),
    ],
)
def test_shares_that_cannot_be_given_are_refused(shares, sentence):
    with pytest.raises(ClusterError, match=sentence):
        hm.Cluster.emulate(shares)


def test_limits_that_cannot_be_kept_are_refused(monkeypatch):
    with pytest.raises(ClusterError, match="'all' is no limit of workers; use process or compute"):
        hm.Cluster.emulate([0.5], limit="all")
    with pytest.raises(ClusterError, match="a duty cycle stops whole processes, not only threads that compute; use method cgroup or"):
        hm.Cluster.emulate([0.5], method="duty_cycle", limit="compute")


def test_an_unknown_method_is_refused():
    with pytest.raises(ClusterError, match="'nice' is no method of limiting workers; use cgroup or duty_cycle or leave it out"):
        hm.Cluster.emulate([0.5], method="nice")


def test_other_systems_than_linux_are_refused(monkeypatch):
    monkeypatch.setattr(emulation.sys, "platform", "darwin")
    with pytest.raises(ClusterError, match="devices can be emulated on Linux only and this is darwin; use local or hosts:HOST:PORT,..."):
        hm.Cluster.emulate([0.5])


@pytest.mark.parametrize(("index", "share", "sentence"), [(2, 0.5, "device 2 is not among the 2"), (0, 0.0, "the share 0 is not")])
def test_a_share_set_wrongly_is_refused(pair, index, share, sentence):
    with pytest.raises(ClusterError, match=sentence):
        pair.set_share(index, share)


def test_ports_that_are_open_are_listed_and_told(pair, monkeypatch, caplog):
    pair.process_ids()  # by now the supervisor has reported
    caplog.clear()
    monkeypatch.setattr(firewall, "_SAID", set())
    monkeypatch.setattr(pair._backend._state, "open_reason", "")
    assert pair.open_ports == ()
    pair._backend._apply({"event": "open", "reason": "nft is not installed"})
    assert [f"127.0.0.1:{port}" for port in pair.open_ports] == [*pair._backend.hosts]
    assert [record.getMessage() for record in caplog.records] == [firewall.open_text("nft is not installed")]


def test_a_limit_that_cannot_be_set_is_told(pair, monkeypatch):
    monkeypatch.setattr(pair._backend, "_order", lambda order: pair._backend._state.faults.append("cpu.max: Permission denied"))
    with pytest.raises(
        WorkerError, match=r"worker:1 could not be limited to 0.2 of a core \(cpu.max: Permission denied\); open the cluster again"
    ):
        pair.set_share(1, 0.2)
