"""Instruction sets of emulated devices: names, what the CPU has, and that oneDNN obeys in a process that has loaded TensorFlow already."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import hetero_mtf as hm
from hetero_mtf.devices.host import host_cpu
from hetero_mtf.devices.instruction_sets import ALL, NAMES, VARIABLE, check_instruction_sets, cpu_flags, setting
from hetero_mtf.doctor.trials import split_difference
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime import worker

NEW = "processor\t: 0\nflags\t\t: sse4_1 avx avx2 fma avx512f avx512bw avx512dq avx512vl\n"
OLD = "processor\t: 0\nflags\t\t: sse4_1 avx\n"


def test_without_names_every_device_has_all_instructions() -> None:
    assert check_instruction_sets([], 3, OLD) == (ALL, ALL, ALL)


def test_names_are_checked_against_the_cpu() -> None:
    assert check_instruction_sets(["avx512", ""], 2, NEW) == ("avx512", "")
    with pytest.raises(ClusterError, match="this CPU has no avx512; use one of sse41, avx"):
        check_instruction_sets(["avx", "avx512"], 2, OLD)
    with pytest.raises(ClusterError, match="this CPU has no avx; leave it out"):
        check_instruction_sets(["avx"], 1, "flags : neon\n")


def test_other_names_and_numbers_of_names_are_refused() -> None:
    with pytest.raises(ClusterError, match="'avx3' is no instruction set; use one of sse41, avx, avx2, avx512"):
        check_instruction_sets(["avx3"], 1, NEW)
    with pytest.raises(ClusterError, match="there are 1 instruction sets for 2 devices; name one for each, or none"):
        check_instruction_sets(["avx2"], 2, NEW)


def test_a_machine_without_flags_has_none() -> None:
    assert cpu_flags("") == cpu_flags("model name : x\n") == frozenset()


def test_an_emulated_device_shows_its_instruction_set() -> None:
    import dataclasses

    device = dataclasses.replace(host_cpu()[0], instruction_set="avx2")
    assert device.share_text == "1 (avx2)" and dataclasses.replace(device, limit="compute").share_text == "1 (avx2, compute only)"
    assert device.traits != host_cpu()[0].traits


def test_a_worker_sets_the_variable_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(worker, "tie_to_parent", lambda *_: True)
    monkeypatch.setattr(worker, "check_port", lambda *_: None)
    monkeypatch.setattr(worker, "register", lambda: None)
    monkeypatch.setattr(worker, "serve", lambda *_, **__: seen.append(os.environ.get(VARIABLE)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.delenv(VARIABLE, raising=False)
    order = {"supervisor": 1, "hosts": ["127.0.0.1:2222"], "task": 0, "core": 0}
    assert worker.main({**order, "instruction_set": ""}) == worker.main({**order, "instruction_set": "avx2"}) == 0
    assert seen == [None, "AVX2"]


_CODE = """
import os
import tensorflow as tf
os.environ[{variable!r}], os.environ["ONEDNN_VERBOSE"] = {value!r}, "1"
tf.nn.conv2d(tf.ones((8, 16, 16, 16)), tf.ones((3, 3, 16, 32)), 1, "SAME").numpy()
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name in ("avx2", "sse41")])
def test_onednn_obeys_where_tensorflow_is_loaded_already(name: str) -> None:
    if not _has(name):
        pytest.skip(f"this CPU has no {name}")
    code = _CODE.format(variable=VARIABLE, value=setting(name))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    told = [line for line in ended.stdout.splitlines() if "isa:" in line]
    assert told and {"avx2": "AVX2", "sse41": "SSE4.1"}[name] in told[0] and "AVX-512" not in told[0]


@pytest.mark.slow
def test_devices_of_unlike_instruction_sets_train_to_the_numbers_of_one_device() -> None:
    there = [name for name in ("sse41", "avx2", "avx512") if _has(name)]
    if len(there) < 2:
        pytest.skip("this CPU has one instruction set only")
    with hm.Cluster.emulate([1.0, 1.0], instruction_sets=[there[-1], there[0]]) as cluster:
        assert split_difference(cluster, (0, 1), "float64") < 1e-8
        assert split_difference(cluster, (1, 0), "float32") < 1e-4


def _has(name: str) -> bool:
    try:
        return bool(check_instruction_sets([name], 1))
    except ClusterError:
        return False
