"""Which part of a step oneDNN computes, whose instruction set can be chosen; TensorFlow's other kernels are compiled for one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_BY_ONEDNN = re.compile(r" = _Mkl")  # how TensorFlow names its operations by oneDNN
_NO_WORK = re.compile(r" = (?:Const|NoOp|_Send|_Recv|_HostSend|_HostRecv|Placeholder)\(")


def onednn_part(records: Iterable[Any]) -> float:
    """Return the part of the time of all operations that those of oneDNN take.

    Parameters
    ----------
    records : StepStats of steps of one device, see `recorded_steps`.
    """
    by_onednn_s = all_s = 0.0
    for record in records:
        for entry in record.dev_stats:
            for node in entry.node_stats:
                if node.node_name == "RecvTensor" or _NO_WORK.search(node.timeline_label):
                    continue
                took_s = (node.op_end_rel_micros - node.op_start_rel_micros) / 1e6
                all_s += took_s
                if _BY_ONEDNN.search(node.timeline_label):
                    by_onednn_s += took_s
    return by_onednn_s / all_s if all_s else 0.0
