"""Discovery of this machine: cores, CPU model, free memory and, through TensorFlow, GPUs."""

from __future__ import annotations

import os
import pathlib
import re
import socket
from collections.abc import Sequence
from typing import Any

from hetero_mtf.devices.cgroup_paths import cgroup_folder
from hetero_mtf.devices.records import ClusterRecord, Device, MemoryPool
from hetero_mtf.errors import ClusterError

_NAME = re.compile(r"(cpu|gpu):(\d+)", re.IGNORECASE)


def available_cores() -> tuple[int, ...]:
    """Return the numbers of the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def cpu_info() -> str:
    """Return the text of /proc/cpuinfo, "" where there is none."""
    return _read("/proc/cpuinfo")


def cpu_model(cpuinfo: str) -> str:
    """Return the CPU's model in the text of /proc/cpuinfo, or "" where it names none."""
    match = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return match[1].strip() if match else ""


def cpu_cores(cpuinfo: str) -> int:
    """Return the number of cores that the text of /proc/cpuinfo lists, 0 where it lists none."""
    return len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE))


def available_bytes(meminfo: str) -> int | None:
    """Return the bytes new programs can use by the text of /proc/meminfo, or None where it has none."""
    match = re.search(r"^MemAvailable:\s*(\d+)\s*kB", meminfo, re.MULTILINE) or re.search(r"^MemFree:\s*(\d+)\s*kB", meminfo, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def free_memory_bytes() -> int:
    """Return the bytes of main memory this process can still take: what is free, within its group's limit."""
    free = available_bytes(_read("/proc/meminfo"))
    if free is None:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    within = _group_rest_bytes()
    return free if within is None else min(free, within)


def host_cpu(tf_device: str = "/device:CPU:0", name: str = "cpu:0", share: float = 1.0) -> tuple[Device, MemoryPool]:
    """Return this machine's CPU as a device, and the pool of main memory it draws from.

    Parameters
    ----------
    tf_device, name, share : as in `Device`.
    """
    pool = MemoryPool("host", free_memory_bytes())
    model, cores = cpu_model(cpu_info()), len(available_cores())
    return Device(name, "CPU", socket.gethostname(), tf_device, pool.free_bytes, pool.name, share, model, cores), pool


def this_host(names: Sequence[str] | None = None) -> ClusterRecord:
    """Return the devices of this process.

    TensorFlow is asked, and so imported, only where GPUs matter: when `names` is None or names a GPU.

    Parameters
    ----------
    names : "cpu:0" or "gpu:N" each; a name may be repeated, for several processors on one device. None: every GPU, then the CPU.

    Raises
    ------
    ClusterError
        If a name is of another form, or there is no such device.
    """
    if isinstance(names, str):
        raise ClusterError(f"the devices are the text {names!r}", f"write a list of names, such as [{names!r}]")
    if names is not None and not names:
        raise ClusterError('the list of devices is empty', 'name at least one, such as "cpu:0"')
    wanted = None if names is None else [_normal_name(name) for name in names]
    cpu, pool = host_cpu()
    available = {cpu.name: (cpu, pool)}
    if wanted is None or any(name.startswith("gpu") for name in wanted):
        available = {**_gpus(cpu.host), **available}
    wanted = list(available) if wanted is None else wanted
    missing = sorted({name for name in wanted if name not in available})
    if missing:
        raise ClusterError(
            f"{', '.join(missing)} is not on this host, which has {', '.join(available)}", "leave it out or check the drivers"
        )
    pools = {available[name][1].name: available[name][1] for name in wanted}
    return ClusterRecord(tuple(available[name][0] for name in wanted), tuple(pools.values()))


def allow_memory_growth() -> None:
    """Let TensorFlow take GPU memory as it needs it; without effect once it has started to use a GPU."""
    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except (RuntimeError, ValueError):
            return


def _gpus(host: str) -> dict[str, tuple[Device, MemoryPool]]:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return {}
    allow_memory_growth()
    config = tf.compat.v1.ConfigProto(gpu_options=tf.compat.v1.GPUOptions(allow_growth=True))
    with tf.compat.v1.Session(graph=tf.Graph(), config=config) as session:
        limits = [listed.memory_limit_bytes for listed in session.list_devices() if listed.device_type == "GPU"]
    return dict(_gpu(index, limit, host, gpus) for index, limit in enumerate(limits))


def _gpu(index: int, limit_bytes: int, host: str, gpus: Sequence[Any]) -> tuple[str, tuple[Device, MemoryPool]]:
    import tensorflow as tf

    model = str(tf.config.experimental.get_device_details(gpus[index]).get("device_name", ""))
    name, pool = f"gpu:{index}", MemoryPool(f"gpu:{index}", int(limit_bytes))
    return name, (Device(name, "GPU", host, f"/device:GPU:{index}", pool.free_bytes, pool.name, 1.0, model), pool)


def _normal_name(name: str) -> str:
    match = _NAME.fullmatch(name.strip().removeprefix("/device:")) if isinstance(name, str) else None
    if match is None:
        raise ClusterError(f'{name!r} is no device name', 'write "cpu:0" or "gpu:0"')
    return f"{match[1].lower()}:{int(match[2])}"


def _group_rest_bytes() -> int | None:
    cgroup = cgroup_folder("memory", _read("/proc/self/mountinfo"), _read("/proc/self/cgroup"))
    if cgroup is None:
        return None
    folder, version = cgroup
    limit, used = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    texts = [_read(str(folder / name)).strip() for name in (limit, used)]
    if not all(text.isdigit() for text in texts):
        return None
    return max(0, int(texts[0]) - int(texts[1]))


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""
