"""GPUs that the driver shows beside those that TensorFlow uses, without any: what `nvidia-smi` prints is made up."""

from __future__ import annotations

import os
import pathlib

import pytest

from hetero_mtf.doctor.findings import DOUBT, FAULT, GOOD, LEFT_OUT
from hetero_mtf.doctor.gpus import DriverGpu, driver_gpus, gpu_findings, kernels_for
from hetero_mtf.doctor.machine import shown_gpus

WHEEL = {"is_cuda_build": True, "cuda_version": "12.5.1", "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"]}
LINES = "0, NVIDIA GeForce RTX 3090, 8.6, 24576, 550.54.14\n1, NVIDIA GeForce RTX 5090, 12.0, 32607, 550.54.14\n"


def test_what_the_driver_prints_is_read_and_other_lines_are_left_out() -> None:
    gpus = driver_gpus(LINES + "No devices were found\n2, Tesla M40, [N/A], 11448, 470.1\n")
    assert gpus[0] == DriverGpu(0, "NVIDIA GeForce RTX 3090", (8, 6), 24576, "550.54.14")
    assert gpus[1].capability == (12, 0) and gpus[2].capability is None and len(gpus) == 3


@pytest.mark.parametrize(
    ("capability", "kind"),
    [((6, 1), "binary"), ((7, 5), "binary"), ((8, 9), "binary"), ((9, 0), "ptx"), ((10, 0), "ptx"), ((12, 0), "ptx"), ((5, 2), "")],
)
def test_kernels_are_binary_for_later_minors_of_a_major_and_ptx_for_later_gpus(capability: tuple[int, int], kind: str) -> None:
    assert kernels_for(capability, WHEEL["cuda_compute_capabilities"]) == kind  # type: ignore[arg-type]


def test_gpus_that_tensorflow_uses_are_fine() -> None:
    first, *others = gpu_findings(driver_gpus(LINES), WHEEL, 2, None)
    assert first.state == GOOD and "shows NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 5090, TensorFlow uses 2" in first.text
    assert [finding.state for finding in others] == [GOOD, DOUBT]
    assert "CUDA_ERROR_INVALID_PTX" in others[1].text and "nvcr.io/nvidia/tensorflow" in others[1].remedy


def test_gpus_that_are_hidden_say_by_what() -> None:
    finding = gpu_findings(driver_gpus(LINES), WHEEL, 0, "")[0]
    assert finding.state == DOUBT and "CUDA_VISIBLE_DEVICES is ''" in finding.text and finding.remedy == "unset it to use them all"


def test_gpus_that_tensorflow_cannot_use_are_a_fault_with_what_to_install() -> None:
    without = gpu_findings(driver_gpus(LINES), {"is_cuda_build": False}, 0, None)
    assert [finding.state for finding in without] == [FAULT] and "built without CUDA" in without[0].text
    assert "tensorflow[and-cuda]" in without[0].remedy
    finding = gpu_findings(driver_gpus(LINES), WHEEL, 0, None)[0]
    assert finding.state == FAULT and "finds no CUDA 12.5.1 libraries" in finding.text


def test_a_gpu_that_is_too_old_has_no_kernels() -> None:
    old = gpu_findings([DriverGpu(0, "Tesla M40", (5, 2), 11448, "470.1")], WHEEL, 1, None)[1]
    assert old.state == FAULT and "has no kernels for it" in old.text
    hopper = gpu_findings([DriverGpu(0, "H100", (9, 0), 81559, "550.1")], WHEEL, 1, None)[1]
    assert hopper.state == DOUBT and "CUDA_CACHE_MAXSIZE" in hopper.remedy


def test_without_a_driver_nothing_is_looked_for() -> None:
    assert [finding.state for finding in gpu_findings(None, WHEEL, 0, None)] == [LEFT_OUT]
    assert [finding.state for finding in gpu_findings([], WHEEL, 0, None)] == [LEFT_OUT]


def test_the_driver_is_asked_by_its_program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shown_gpus() is None
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{LINES.encode('unicode_escape').decode()}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    found = shown_gpus()
    assert found is not None and [gpu.index for gpu in found] == [0, 1]
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver'\nexit 9\n")
    assert shown_gpus() is None
