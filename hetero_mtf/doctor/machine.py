"""What is installed and what the machine has: versions, GPUs, devices, memory, control groups, ports."""

from __future__ import annotations

import os
import platform
import subprocess
import warnings
from collections.abc import Collection, Mapping

from hetero_mtf.devices import ClusterRecord
from hetero_mtf.devices.environment import FAST_KERNELS, variables
from hetero_mtf.devices.host import available_cores, cpu_info, free_memory_bytes
from hetero_mtf.devices.instruction_sets import cpu_flags
from hetero_mtf.doctor.findings import DOUBT, FAULT, GOOD, LEFT_OUT, Chapter, Finding
from hetero_mtf.doctor.gpus import QUERY, DriverGpu, driver_gpus, gpu_findings
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.installed import installed_versions
from hetero_mtf.report.table import Table
from hetero_mtf.units import bytes_text

_PROGRAMS = ("tensorflow", "tensorflow-cpu", "keras", "keras-nightly", "mesh-tensorflow", "numpy", "scipy", "h5py", "nibabel")
_DRIVER_LIMIT_S = 20.0
# Of one of these instruction sets, as Linux names them, for TensorFlow to use oneDNN by itself (tensorflow/core/util/util.cc, 2.21).
_TAKES_ONEDNN = frozenset({"avx512_vnni", "avx_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"})


def versions_chapter() -> Chapter:
    """Return the versions of what takes part, and whether they go together. TensorFlow has to be loaded."""
    import keras
    import tensorflow as tf

    from hetero_mtf.mesh.framework_versions import NEWEST_TESTED, check_versions

    versions = installed_versions(_PROGRAMS)
    build = dict(tf.sysconfig.get_build_info())
    figures = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine(), **versions}
    cuda = {key: str(build[key]) for key in ("cuda_version", "cudnn_version") if build.get(key)}
    text = f"Python {figures['python']}, TensorFlow {tf.__version__}, Keras {keras.__version__}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_versions({"TensorFlow": tf.__version__, "Keras": keras.__version__})
        state = Finding("programs", GOOD, text, figures={**figures, **cuda})
    except UnsupportedError as fault:
        state = Finding("programs", FAULT, f"{text}: {fault.reason}", fault.remedy, {**figures, **cuda})
    except UserWarning as warning:
        newest = " and ".join(f"{name} {major}.{minor}" for name, (major, minor) in NEWEST_TESTED.items())
        state = Finding("programs", DOUBT, f"{text}: {warning}", f"{newest} were tested", {**figures, **cuda})
    backend = keras.backend.backend()
    findings = [state]
    if backend != "tensorflow":
        findings.append(Finding("Keras's backend", FAULT, f"it is {backend}", "set KERAS_BACKEND=tensorflow before Keras is imported"))
    text = ", ".join(f"{key.removesuffix('_version')} {value}" for key, value in cuda.items()) or "TensorFlow was built without CUDA"
    findings.append(Finding("CUDA", GOOD if cuda else LEFT_OUT, text, figures=cuda))
    return Chapter("Versions", (*findings, *kernel_findings(cpu_flags(cpu_info()), variables())))


def kernel_findings(flags: Collection[str], variables: Mapping[str, str]) -> list[Finding]:
    """Return what is to be known of TensorFlow's kernels on a CPU; nothing where it takes those of oneDNN by itself.

    Parameters
    ----------
    flags : of the CPU, as in /proc/cpuinfo.
    variables : of the environment.
    """
    if "sse4_1" not in flags or not _TAKES_ONEDNN.isdisjoint(flags):  # other architectures decide otherwise
        return []
    ((name, value),) = FAST_KERNELS.items()
    if variables.get(name, value) != value:
        slow = f"TensorFlow computes without oneDNN, as {name}={variables[name]}"
        return [Finding("kernels", DOUBT, slow, f"unset it: on this CPU steps may be three times as fast with {name}={value}")]
    text = f"oneDNN is used here and by workers; in scripts set {name}={value} before TensorFlow is loaded, which leaves it out on this CPU"
    return [Finding("kernels", GOOD, text)]


def gpus_chapter() -> Chapter:
    """Return the GPUs that the driver shows and those that TensorFlow uses. TensorFlow has to be loaded."""
    import tensorflow as tf

    seen = len(tf.config.list_physical_devices("GPU"))
    findings = gpu_findings(shown_gpus(), dict(tf.sysconfig.get_build_info()), seen, os.environ.get("CUDA_VISIBLE_DEVICES"))
    return Chapter("GPUs", tuple(findings))


def shown_gpus() -> list[DriverGpu] | None:
    """Return the GPUs that the driver shows; None where there is no driver, or it does not answer."""
    try:
        ended = subprocess.run(QUERY, capture_output=True, text=True, timeout=_DRIVER_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return driver_gpus(ended.stdout) if ended.returncode == 0 else None


def machine_chapter(record: ClusterRecord, limited_by: str, open_ports: tuple[int, ...]) -> Chapter:
    """Return the devices of the cluster and what this machine allows.

    Parameters
    ----------
    record : the cluster's devices.
    limited_by : how emulated devices are limited, "" for others.
    open_ports : ports of emulated workers that others can reach.
    """
    rows = tuple(
        (device.name, device.kind, device.model or "-", bytes_text(device.memory_bytes), device.share_text) for device in record.devices
    )
    cores, memory = len(available_cores()), free_memory_bytes()
    findings = [
        Finding("cores and memory", GOOD, f"{cores} cores, {bytes_text(memory)} free", figures={"cores": cores, "free_bytes": memory}),
        _devices(record),
    ]
    if limited_by:
        exact = limited_by.startswith("cgroup")
        text = f"emulated devices are limited by {'control groups' if exact else 'stopping and continuing them, which is coarser'}"
        findings.append(Finding("limits", GOOD if exact else DOUBT, text, figures={"limited_by": limited_by}))
        closed = "the ports of emulated workers are closed to other users and hosts"
        opened = "the ports of emulated workers are open to other users and hosts while they run"
        remedy = "install nft (package nftables), or use a machine that nobody else reaches"
        findings.append(Finding("ports", DOUBT, opened, remedy) if open_ports else Finding("ports", GOOD, closed))
    return Chapter("Devices", tuple(findings), Table(("device", "kind", "model", "memory", "share"), rows, left=3))


def _devices(record: ClusterRecord) -> Finding:
    count, kinds = len(record.devices), sorted({device.kind for device in record.devices})
    figures = {"devices": [{"kind": d.kind, "model": d.model, "share": d.share, "memory_bytes": d.memory_bytes} for d in record.devices]}
    if count < 2:
        text = f"there is one device, a {kinds[0]}, so nothing can be split"
        remedy = "name more by --cluster: emulate:1.0,0.5 to try it, hosts:HOST:PORT,... for other hosts"
        return Finding("devices", DOUBT, text, remedy, figures)
    return Finding("devices", GOOD, f"{count} of kind {' and '.join(kinds)}", figures=figures)

