"""Faults: TensorFlow's errors and workers' logs in one sentence."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.devices.records import Device
from hetero_mtf.errors import DeviceMemoryError, HeteroError, WorkerError
from hetero_mtf.runtime.layer_trace import source_of
from hetero_mtf.units import bytes_text

_FRAME = re.compile(
    r"^(Graph execution error:|Detected at node|From /job:|File \"|Node: |Traceback|\.\.\.|\d+ root error)"
    r"|^\(\d+\) \w+:\s*$|defined at \(most recent|^=+$"
)
_NOISE = re.compile(r"absl::InitializeLog|oneDNN|cudart|cuInit|cuda_platform|^I\d{4} |TF-TRT|cpu_feature_guard|^W\d{4} ")
_STAMP = re.compile(r"^[IWEF]\d{4} [\d:.]+\s+\d+ [\w./]+:\d+\] ")
# what TensorFlow says where a client resets the server that this program's sessions go through, and of a session that is gone by then
_RESET = re.compile(r"explicit call to `Session::Close\(\)`|[Ss]ession \S+ is not found")
_NO_ROOM = re.compile(r"OOM when allocating tensor with shape\[([\d,]*)\] and type (\w+) on (/job:\S+) by allocator")
_NO_PRIMITIVE = re.compile(r"Operation received an exception: ?Status: 1,")  # oneDNN's status of what ran out of memory
_TASK = re.compile(r"^From (/job:\S+/task:\d+):", re.MULTILINE)
_NODE = re.compile(r"\{\{node ([^}]+)\}\}|\[\[node ([^ \]]+)")
_LONGEST = 300


def log_end(text: str, lines: int = 2) -> str:
    """Return the last telling lines of a worker's log on one line, or "" where there are none.

    Parameters
    ----------
    text : the log.
    lines : how many lines at most.
    """
    telling = [_STAMP.sub("", line).strip() for line in text.splitlines() if line.strip() and not _NOISE.search(line)]
    return " | ".join(telling[-lines:])[-_LONGEST:]


def death(index: int, end: Mapping[str, Any]) -> WorkerError:
    """Return the error for an emulated device's worker that has ended.

    Parameters
    ----------
    index : number of the worker.
    end : the supervisor's report: "code", whether it was "ready", and the "tail" of its log.
    """
    code = end["code"]
    try:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    except ValueError:
        how = f"was killed by signal {-code}"
    when = "" if end["ready"] else " while it started"
    wrote = log_end(end["tail"])
    logged = f", end of its log: {wrote}" if wrote else ""
    remedy = "open the cluster again" + (", with a smaller batch if memory ran out" if code == -signal.SIGKILL else "")
    return WorkerError(f"worker:{index} {how}{when}{logged}", remedy, [(index,)])


def first_line(message: str) -> str:
    """Return the line of a TensorFlow message that states the error, without the frames around it."""
    telling = [line.strip() for line in message.splitlines() if line.strip() and not _FRAME.search(line.strip())]
    return (telling[0] if telling else message.strip().split("\n")[0])[:_LONGEST].rstrip(" .;")


def is_lost_connection(exception: BaseException) -> bool:
    """Return whether an error means that a server went away, the reason of which may become known a moment later."""
    import tensorflow as tf  # here, as a cluster is made without it

    return isinstance(exception, (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError))


def explain(
    exception: BaseException, fault: WorkerError | None = None, devices: Sequence[Device] = (), layers: Sequence[str] = ()
) -> HeteroError:
    """Return one sentence for an error that came out of a session.

    Parameters
    ----------
    exception : what was raised; an error of ours is returned as it is.
    fault : what is known to be wrong with the cluster's workers, which then is the reason.
    devices : those of the cluster, to name one of them.
    layers : names of the network's layers, to name one of them.
    """
    import tensorflow as tf

    if isinstance(exception, HeteroError):
        return exception
    if fault is not None:
        return fault
    said = first_line(str(getattr(exception, "message", None) or exception) or type(exception).__name__)
    message = str(getattr(exception, "message", ""))
    if isinstance(exception, tf.errors.ResourceExhaustedError) or _NO_PRIMITIVE.search(message):
        return _out_of_memory(message, said, devices, layers)
    if _RESET.search(said):
        remedy = "let no other program connect to them, see who may connect in docs/hosts.md, and open the cluster again"
        return WorkerError(f"another client has closed the sessions of this program on the workers ({said})", remedy)
    if isinstance(exception, (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)):
        return WorkerError(f"a worker stopped answering ({said})", "start the workers and open the cluster again")
    return HeteroError(f"TensorFlow failed with {type(exception).__name__} ({said})", "this plan cannot run on this cluster as it is")


def _out_of_memory(message: str, said: str, devices: Sequence[Device], layers: Sequence[str]) -> DeviceMemoryError:
    """Return the error for a device that ran out of memory, with the device, the layer and the bytes as far as they are told."""
    remedy = "use a smaller batch or a plan that puts less on that device"
    told, task, node = _NO_ROOM.search(message), _TASK.search(message), _NODE.search(message)
    place, what = "a device", f"({said})"
    if told is not None:
        import tensorflow as tf

        place, extents = told[3], [int(extent) for extent in told[1].split(",") if extent]
        size = bytes_text(math.prod(extents) * tf.as_dtype(told[2]).size)
        what = f"with no room for a tensor of {size}, {told[2]} {extents}"
    elif task is not None:
        place = f"{task[1]}/device:CPU:0"  # oneDNN computes on no other
    device = next((each.name for each in devices if each.tf_device == place.replace("/replica:0", "")), "")
    source = source_of(node[1] or node[2]) if node is not None else None
    of = f", for the {source[1]} pass of layer {layers[source[0]]}" if source is not None and source[0] < len(layers) else ""
    return DeviceMemoryError(f"{device or place} ran out of memory {what}{of}", remedy, device)
