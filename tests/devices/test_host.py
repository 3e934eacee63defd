"""Finding what this machine has."""

import os
import subprocess
import sys

import pytest

from hetero_mtf.devices import host
from hetero_mtf.devices.host import available_bytes, available_cores, cpu_cores, cpu_model, free_memory_bytes, host_cpu, this_host
from hetero_mtf.errors import ClusterError


def test_the_cpu_is_found_with_its_memory():
    device, pool = host_cpu()
    assert (device.name, device.kind, device.tf_device, device.pool) == ("cpu:0", "CPU", "/device:CPU:0", pool.name)
    assert device.memory_bytes == pool.free_bytes > 2**20 and device.cores == len(available_cores())


def test_cores_are_those_this_process_may_use():
    assert set(available_cores()) == os.sched_getaffinity(0)


def test_naming_only_cpus_loads_no_tensorflow():
    program = "import sys; from hetero_mtf.devices.host import this_host; this_host(['cpu:0']); sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


@pytest.mark.parametrize("name", ["cpu:0", " CPU:0", "/device:CPU:0"])
def test_a_device_may_be_written_as_tensorflow_does(name):
    assert this_host([name]).devices[0].name == "cpu:0"


def test_gpus_come_before_the_cpu_when_there_are_any(monkeypatch):
    gpu = host_cpu("/device:GPU:0", "gpu:0")
    monkeypatch.setattr(host, "_gpus", lambda machine: {"gpu:0": gpu})
    assert [device.name for device in this_host().devices] == ["gpu:0", "cpu:0"]
    assert [device.name for device in this_host(["gpu:0", "cpu:0", "gpu:0"]).devices] == ["gpu:0", "cpu:0", "gpu:0"]


def test_a_device_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(host, "_gpus", lambda machine: {})
    with pytest.raises(ClusterError, match="cpu:1, gpu:7 is not on this host, which has cpu:0; leave it out or check the drivers"):
        this_host(["cpu:0", "gpu:7", "cpu:1"])


@pytest.mark.parametrize("name", ["tpu:0", "cpu", "cpu:x", "", 3])
def test_what_is_no_device_name_is_refused(name):
    with pytest.raises(ClusterError, match='is no device name; write "cpu:0" or "gpu:0"'):
        this_host([name])


def test_an_empty_list_is_refused():
    with pytest.raises(ClusterError, match="the list of devices is empty; name at least one"):
        this_host([])


def test_the_kernels_text_is_read():
    assert available_bytes("MemTotal: 10 kB\nMemFree: 2 kB\nMemAvailable:    3 kB\n") == 3072
    assert available_bytes("MemTotal: 10 kB\nMemFree: 2 kB\n") == 2048 and available_bytes("") is None
    assert cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz" and cpu_model("x") == ""
    assert cpu_cores("processor\t: 0\nmodel name\t: Some\n\nprocessor\t: 1\n") == 2 and cpu_cores("") == 0


@pytest.mark.parametrize(
    ("version", "names"), [(1, ("memory.limit_in_bytes", "memory.usage_in_bytes")), (2, ("memory.max", "memory.current"))]
)
def test_a_groups_limit_bounds_free_memory(monkeypatch, tmp_path, version, names):
    monkeypatch.setattr(host, "cgroup_folder", lambda *texts: (tmp_path, version))
    (tmp_path / names[0]).write_text("5000\n")
    (tmp_path / names[1]).write_text("2000\n")
    assert free_memory_bytes() == 3000
    (tmp_path / names[0]).write_text("max\n")
    assert free_memory_bytes() > 3000


def test_one_text_in_place_of_a_list_of_names_is_refused_as_such():
    with pytest.raises(ClusterError, match="the devices are the text 'cpu:0'; write a list of names, such as"):
        this_host("cpu:0")
