"""Instruction sets of CPUs, by which emulated devices are made unlike each other: oneDNN's kernels use no newer one than is named.

Layers then differ in speed from device to device by other factors each, as on real devices of two generations; a share of a core slows
all layers alike. Operations that TensorFlow computes by Eigen are compiled once and do not look at it.

Reference: oneDNN Developer Guide, "CPU Dispatcher Control".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetero_mtf.devices.host import cpu_info
from hetero_mtf.errors import ClusterError

VARIABLE = "ONEDNN_MAX_CPU_ISA"  # read once by a process, with its first operation
ALL = ""  # whatever the CPU has
_LEVELS: Mapping[str, tuple[str, frozenset[str]]] = {
    "sse41": ("SSE41", frozenset({"sse4_1"})),
    "avx": ("AVX", frozenset({"avx"})),
    "avx2": ("AVX2", frozenset({"avx2", "fma"})),
    "avx512": ("AVX512_CORE", frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"})),
}
NAMES = tuple(_LEVELS)


def setting(name: str) -> str:
    """Return oneDNN's own name of an instruction set.

    >>> setting("avx512")
    'AVX512_CORE'
    """
    return _LEVELS[name][0]


def check_instruction_sets(names: Sequence[str], devices: int, text: str | None = None) -> tuple[str, ...]:
    """Return the instruction set of each device, `ALL` where none is named.

    Parameters
    ----------
    names : (devices,) names; empty for all that the CPU has.
    devices : how many there are.
    text : of /proc/cpuinfo; None to read it.

    Raises
    ------
    ClusterError
        If there are not as many as devices, or this CPU has not one of them.
    """
    if not names:
        return (ALL,) * devices
    if len(names) != devices:
        raise ClusterError(f"there are {len(names)} instruction sets for {devices} devices", "name one for each, or none")
    flags = cpu_flags(cpu_info() if text is None else text)
    for name in names:
        if name and name not in _LEVELS:
            raise ClusterError(f"{name!r} is no instruction set", f"use one of {', '.join(NAMES)}")
        if name and not _LEVELS[name][1] <= flags:
            there = [known for known, (_, needed) in _LEVELS.items() if needed <= flags]
            raise ClusterError(f"this CPU has no {name}", f"use one of {', '.join(there)}" if there else "leave it out")
    return tuple(names)


def cpu_flags(text: str) -> frozenset[str]:
    """Return the flags of the first processor in the text of /proc/cpuinfo.

    >>> sorted(cpu_flags("processor : 0\\nflags\\t\\t: fpu avx2\\n"))
    ['avx2', 'fpu']
    """
    for line in text.splitlines():
        key, _, values = line.partition(":")
        if key.strip() == "flags":
            return frozenset(values.split())
    return frozenset()
