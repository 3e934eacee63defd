"""The supervisor's choice between control groups and duty cycles, in this process."""

import json
import os
import subprocess

import pytest

from hetero_mtf.runtime import firewall, supervisor
from hetero_mtf.runtime.limits import cgroup


@pytest.fixture
def order():
    hosts = ["127.0.0.1:61000"]
    return {
        "owner": os.getppid(),
        "limit": "process",
        "workers": [{"order": {"hosts": hosts, "task": 0, "core": min(os.sched_getaffinity(0)), "instruction_set": ""}, "share": 0.5}],
    }


@pytest.fixture(autouse=True)
def _sleeping(monkeypatch):
    """Workers that do nothing: this process, unlike a supervisor, has threads of TensorFlow at work, with which none may be forked."""

    def sleeping(work, log, loaded):
        return subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)

    monkeypatch.setattr(supervisor, "ForkedProcess", sleeping)


@pytest.fixture
def close_later():
    supervisors = []
    yield supervisors.append
    for one in supervisors:
        one._end()


def _refuse(group, process):
    raise PermissionError(13, "Permission denied", "cgroup.procs")


def test_where_a_process_cannot_join_a_group_a_duty_cycle_takes_over(order, close_later, monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(supervisor, "_group_parent", lambda method, threaded: (tmp_path, 1))
    monkeypatch.setattr(cgroup.CpuGroup, "set_share", lambda group, share: None)
    monkeypatch.setattr(cgroup.CpuGroup, "add", _refuse)
    one = supervisor.Supervisor({**order, "method": None})
    close_later(one)
    worker = one._workers[0]
    one._limit(worker, 0.5)
    assert worker.cycle is not None and worker.group is None and list(tmp_path.iterdir()) == []
    assert [json.loads(line)["event"] for line in capfd.readouterr().out.splitlines()] == ["method", "share"]


def test_where_a_group_was_asked_for_a_refusal_is_told(order, close_later, monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(supervisor, "_group_parent", lambda method, threaded: (tmp_path, 1))
    monkeypatch.setattr(cgroup.CpuGroup, "set_share", lambda group, share: None)
    monkeypatch.setattr(cgroup.CpuGroup, "add", _refuse)
    one = supervisor.Supervisor({**order, "method": "cgroup"})
    close_later(one)
    one._limit(one._workers[0], 0.5)
    assert json.loads(capfd.readouterr().out) == {"event": "fault", "text": "cgroup.procs: Permission denied"}


def test_the_ports_are_closed_before_a_worker_starts_and_opened_after_its_end(order, monkeypatch):
    steps = []

    class Ports:
        line = None

        def remove(self):
            steps.append("removed")

    class Worker(supervisor.Worker):
        def __init__(self, *arguments):
            steps.append("started")
            super().__init__(*arguments)

        def close(self):
            steps.append(f"ended by {self.process.returncode}")
            super().close()

    monkeypatch.setattr(firewall, "close_ports", lambda ports: steps.append(ports) or Ports())
    monkeypatch.setattr(supervisor, "Worker", Worker)
    supervisor.Supervisor({**order, "method": "duty_cycle"})._end()
    assert steps == [[61000], "started", "ended by -15", "removed"]


def test_a_supervisor_that_may_not_close_ports_reports_why_they_are_open(order, monkeypatch, capfd):
    def refuse(ports):
        raise firewall.RulesError("nft is not installed")

    monkeypatch.setattr(firewall, "close_ports", refuse)
    one = supervisor.Supervisor({**order, "method": "duty_cycle"})
    monkeypatch.setattr(one, "_listen", lambda: setattr(one, "_ending", True))
    one.run()
    assert {"event": "open", "reason": "nft is not installed"} in map(json.loads, capfd.readouterr().out.splitlines())


def test_no_group_is_looked_for_where_a_duty_cycle_was_asked_for(monkeypatch):
    monkeypatch.setattr(cgroup, "parent_folder", lambda: pytest.fail("looked"))
    assert supervisor._group_parent("duty_cycle", False) is None


def test_without_a_usable_hierarchy_there_is_no_group(monkeypatch, tmp_path):
    monkeypatch.setattr(cgroup, "parent_folder", lambda: None)
    assert supervisor._group_parent(None, False) is None
    monkeypatch.setattr(cgroup, "parent_folder", lambda: (tmp_path, 1))
    assert supervisor._group_parent(None, False) is None and list(tmp_path.iterdir()) == []


def test_where_threads_are_to_be_limited_no_duty_cycle_takes_over(order, close_later, monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(supervisor, "_group_parent", lambda method, threaded: (tmp_path, 1))
    monkeypatch.setattr(cgroup.CpuGroup, "set_share", lambda group, share: None)
    monkeypatch.setattr(cgroup.CpuGroup, "add", _refuse)
    one = supervisor.Supervisor({**order, "method": None, "limit": "compute"})
    close_later(one)
    one._limit(one._workers[0], 0.5)
    assert one._workers[0].cycle is None and list(tmp_path.iterdir()) == []
    assert json.loads(capfd.readouterr().out) == {"event": "fault", "text": "cgroup.procs: Permission denied"}


def test_a_worker_whose_threads_have_no_names_cannot_be_limited_by_them(order, close_later, monkeypatch, capfd, tmp_path):
    monkeypatch.setattr(supervisor, "_group_parent", lambda method, threaded: (tmp_path, 1))
    for name in ("set_share", "add", "limit_thread", "free_thread"):
        monkeypatch.setattr(cgroup.CpuGroup, name, lambda group, value: None)
    one = supervisor.Supervisor({**order, "method": None, "limit": "compute"})
    close_later(one)
    one._limit(one._workers[0], 0.5)  # before TensorFlow is loaded
    assert json.loads(capfd.readouterr().out)["text"] == "threads: this TensorFlow does not name its threads that compute"
