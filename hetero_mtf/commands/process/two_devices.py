"""Two unequal devices to show the program on."""

from __future__ import annotations

import sys

from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.devices.host import available_cores, this_host


def unequal_pair() -> str:
    """Return a cluster of two unequal devices on this machine, as --cluster says it.

    A GPU and the CPU where there is a GPU; else two emulated devices, one of half the speed of the other; on a system without
    emulation two processors on the CPU, which are equal.
    """
    load_tensorflow()
    if any(device.kind == "GPU" for device in this_host().devices):
        return "local"
    if not sys.platform.startswith("linux"):
        return "local:cpu:0,cpu:0"
    return "emulate:1.0,0.5" if len(available_cores()) > 1 else "emulate:0.6,0.3"
