"""A worker of a cluster of several processes."""

import pathlib
import signal
import socket

import pytest

from hetero_mtf.commands.worker import _addresses
from hetero_mtf.devices.environment import MEMORY_FIRST
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.ports import free_ports


def test_hosts_without_a_port_get_the_one_given():
    assert _addresses("a, b:62000", 61000, {}).hosts == ("a:61000", "b:62000")


def test_servers_come_from_tf_config_or_slurm_where_no_hosts_are_given():
    text = '{"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}'
    assert _addresses(None, None, {"TF_CONFIG": text}).task == 1
    with pytest.raises(ClusterError, match="no servers are named: neither --hosts nor TF_CONFIG nor a Slurm job; add --hosts"):
        _addresses(None, None, {})


def test_the_port_is_added_to_a_bare_ipv6_address_and_to_nothing_that_has_one():
    assert _addresses("[::1],[fe80::1%eth0]:62000", 61000, {}).hosts == ("[::1]:61000", "[fe80::1%eth0]:62000")
    with pytest.raises(ClusterError, match=r"'a:\+80' \(the port .* is no number\)"):
        _addresses("a:+80", 61000, {})


def test_a_process_of_the_chief_is_told_that_only_workers_serve(cli, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["192.0.2.1:1"]}, "task": {"type": "chief", "index": 0}}')
    assert (
        'TF_CONFIG has the task {"type": "chief", "index": 0}, and only cluster.worker serves: 192.0.2.1:1; start' in cli("worker").sentence
    )
    assert "192.0.2.1:1, worker 0 of 192.0.2.1:1, is no address of this machine" in cli("worker", "--allow-root", "--index", "0").sentence


def test_a_worker_of_a_slurm_job_outside_a_step_is_told_to_use_srun_and_in_a_part_of_the_job_is_refused(cli, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    job = {"SLURM_JOBID": "1", "SLURM_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "1(x2)"}
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    assert "n1:61001, n2:61001 is unknown; add --index, or in a Slurm job start it with srun" in cli("worker").sentence
    for name, value in {"STEP_ID": "0", "PROCID": "0", "NODEID": "0", "LOCALID": "0", "STEP_NODELIST": "n1"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    for options in ([], ["--index", "0"]):
        assert "SLURM_STEP_NODELIST is 'n1' and SLURM_JOB_NODELIST 'n[1-2]'; start" in cli("worker", *options).sentence


def test_a_worker_that_does_not_know_which_it_is_is_refused(cli):
    assert "the index of this worker among a:61000 is unknown; add --index" in cli("worker", "--hosts", "a:61000").sentence


def test_a_port_in_use_is_refused(cli):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = cli("worker", "--allow-root", "--hosts", f"127.0.0.1:{port}", "--index", "0").sentence
        assert f"port {port} is in use by another process" in said


def test_an_address_that_is_not_of_this_machine_is_refused(cli):
    said = cli("worker", "--allow-root", "--hosts", "127.0.0.1:61000,192.0.2.1:61001", "--index", "1").sentence
    assert "192.0.2.1:61001, worker 1 of 127.0.0.1:61000, 192.0.2.1:61001, is no address of this machine; correct --index or" in said


@pytest.mark.slow
def test_a_worker_serves_its_devices_until_interrupted(start, cli):
    host = f"127.0.0.1:{free_ports(1)[0]}"
    process = start("worker", "--allow-root", "--hosts", host, "--index", "0", "--memory-first")
    assert f"worker 0 serves on {host}" in process.stdout.readline()
    given = pathlib.Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    assert set(given).issuperset(f"{name}={value}" for name, value in MEMORY_FIRST.items())
    said = cli("devices", "--cluster", f"hosts:{host}")
    assert said.code == 0 and "worker:0" in said.out
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and err.strip().endswith("hetero-mtf: interrupted")
    (line,) = (line for line in err.splitlines() if line.startswith("hetero-mtf: warning: "))
    assert f"reach port {host.rpartition(':')[2]} can connect to this worker" in line and "; close the port by a firewall" in line
