"""GPUs: those that the driver shows beside those that TensorFlow uses, and whether TensorFlow has kernels for them.

A binary kernel runs on GPUs of its own major compute capability from its minor on; one in PTX is compiled by the driver for every later
GPU, with the first use, which takes minutes. The wheels of TensorFlow 2.16 to 2.20 fail so on capability 12.0 (RTX 50xx):
CUDA_ERROR_INVALID_PTX, then CUDA_ERROR_INVALID_HANDLE (tensorflow/tensorflow issues 89272, 90291, 99592, 101746).

References: CUDA C++ Programming Guide, "Application Compatibility"; `tf.sysconfig.get_build_info`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.doctor.findings import DOUBT, FAULT, GOOD, LEFT_OUT, Finding

QUERY = ("nvidia-smi", "--query-gpu=index,name,compute_cap,memory.total,driver_version", "--format=csv,noheader,nounits")
NEW_MAJOR = 12  # of the RTX 50xx
CONTAINER = "use NVIDIA's container nvcr.io/nvidia/tensorflow, or a TensorFlow that is built for this capability"
_CODE = re.compile(r"(sm|compute)_(\d+)(\d)[a-z]?$")


@dataclasses.dataclass(frozen=True)
class DriverGpu:
    """A GPU as the driver shows it.

    Parameters
    ----------
    index : its number.
    name : the maker's name.
    capability : (major, minor); None where the driver does not say.
    memory_mib : its memory.
    driver : version of the driver.
    """

    index: int
    name: str
    capability: tuple[int, int] | None
    memory_mib: int
    driver: str


def driver_gpus(text: str) -> list[DriverGpu]:
    """Return the GPUs in what `QUERY` prints; lines of another form are left out.

    Examples
    --------
    >>> driver_gpus("0, NVIDIA GeForce RTX 5090, 12.0, 32607, 570.86.16")[0].capability
    (12, 0)
    """
    found = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 5 and parts[0].isdigit():
            major, dot, minor = parts[2].partition(".")
            capability = (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else None
            found.append(DriverGpu(int(parts[0]), parts[1], capability, int(parts[3]) if parts[3].isdigit() else 0, parts[4]))
    return found


def kernels_for(capability: tuple[int, int], built: Sequence[str]) -> str:
    """Return how a TensorFlow runs on a GPU: "binary", "ptx" (compiled at the first use) or "" (not at all).

    Parameters
    ----------
    capability : (major, minor) of the GPU.
    built : what TensorFlow was built for, such as "sm_80" and "compute_90".

    Examples
    --------
    >>> kernels_for((8, 6), ["sm_80", "compute_90"]), kernels_for((12, 0), ["sm_80", "compute_90"]), kernels_for((5, 2), ["sm_60"])
    ('binary', 'ptx', '')
    """
    codes = [(found[1], (int(found[2]), int(found[3]))) for code in built if (found := _CODE.match(code))]
    if any(kind == "sm" and code[0] == capability[0] and code <= capability for kind, code in codes):
        return "binary"
    return "ptx" if any(kind == "compute" and code <= capability for kind, code in codes) else ""


def gpu_findings(shown: Sequence[DriverGpu] | None, build: Mapping[str, Any], seen: int, hidden: str | None) -> list[Finding]:
    """Return what is to be said of the GPUs.

    Parameters
    ----------
    shown : GPUs that the driver shows; None where there is no driver.
    build : `tf.sysconfig.get_build_info()`.
    seen : number of GPUs that TensorFlow sees.
    hidden : value of CUDA_VISIBLE_DEVICES; None where it is not set.
    """
    if shown is None:
        return [Finding("GPUs", LEFT_OUT, "nvidia-smi is not there, so no NVIDIA driver is looked for")]
    if not shown:
        return [Finding("GPUs", LEFT_OUT, "the driver shows none")]
    findings = [_seen(shown, build, seen, hidden)]
    built = [str(code) for code in build.get("cuda_compute_capabilities", ())]
    return findings + [_kernels(gpu, built) for gpu in shown if build.get("is_cuda_build")]


def _seen(shown: Sequence[DriverGpu], build: Mapping[str, Any], seen: int, hidden: str | None) -> Finding:
    names = ", ".join(gpu.name for gpu in shown)
    memory_mib = [gpu.memory_mib for gpu in shown]
    figures = {"shown": [gpu.name for gpu in shown], "seen": seen, "driver": shown[0].driver, "memory_mib": memory_mib}
    text = f"the driver {shown[0].driver} shows {names}, TensorFlow uses {seen}"
    if seen == len(shown):
        return Finding("GPUs", GOOD, text, figures=figures)
    if hidden is not None:
        return Finding("GPUs", DOUBT, f"{text}, as CUDA_VISIBLE_DEVICES is {hidden!r}", "unset it to use them all", figures)
    if not build.get("is_cuda_build"):
        return Finding("GPUs", FAULT, f"{text}, as it was built without CUDA", 'run pip install "tensorflow[and-cuda]"', figures)
    remedy = 'run pip install "tensorflow[and-cuda]" into the same environment, or install a newer driver'
    text = f"{text}, as it finds no CUDA {build.get('cuda_version', '')} libraries or the driver is too old"
    return Finding("GPUs", FAULT, text, remedy, figures)


def _kernels(gpu: DriverGpu, built: Sequence[str]) -> Finding:
    what, figures = f"kernels for gpu:{gpu.index}", {"capability": gpu.capability, "built": list(built)}
    if gpu.capability is None or not built:
        return Finding(what, LEFT_OUT, f"the capability of {gpu.name}, or what TensorFlow was built for, is not known", figures=figures)
    text = f"{gpu.name} has compute capability {gpu.capability[0]}.{gpu.capability[1]}, TensorFlow was built for {', '.join(built)}"
    kind = kernels_for(gpu.capability, built)
    if kind == "binary":
        return Finding(what, GOOD, text, figures=figures)
    if kind == "":
        return Finding(what, FAULT, f"{text}, which has no kernels for it", CONTAINER, figures)
    if gpu.capability[0] >= NEW_MAJOR:
        text = f"{text}: its kernels are compiled for minutes with their first use, and fail with CUDA_ERROR_INVALID_PTX in many versions"
        return Finding(what, DOUBT, text, CONTAINER, figures)
    text = f"{text}: its kernels are compiled for minutes with their first use"
    return Finding(what, DOUBT, text, "set CUDA_CACHE_MAXSIZE=4294967296, so that this is done once", figures)
