"""Faults: TensorFlow's errors and workers' logs in one sentence."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from hetero_mtf.errors import ClusterError, HeteroError, WorkerError

_FRAME = re.compile(
    r"^(Graph execution error:|Detected at node|From /job:|File \"|Node: |Traceback|\.\.\.|\d+ root error)"
    r"|^\(\d+\) \w+:\s*$|defined at \(most recent"
)
_NOISE = re.compile(r"absl::InitializeLog|oneDNN|cudart|cuInit|cuda_platform|^I\d{4} |TF-TRT|cpu_feature_guard|^W\d{4} ")
_STAMP = re.compile(r"^[IWEF]\d{4} [\d:.]+\s+\d+ [\w./]+:\d+\] ")
# what TensorFlow says where a client resets the server that this program's sessions go through, and of a session that is gone by then
_RESET = re.compile(r"explicit call to `Session::Close\(\)`|[Ss]ession \S+ is not found")
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


def explain(exception: BaseException, fault: WorkerError | None = None) -> HeteroError:
    """Return one sentence for an error that came out of a session.

    Parameters
    ----------
    exception : what was raised; an error of ours is returned as it is.
    fault : what is known to be wrong with the cluster's workers, which then is the reason.
    """
    import tensorflow as tf

    if isinstance(exception, HeteroError):
        return exception
    if fault is not None:
        return fault
    said = first_line(str(getattr(exception, "message", None) or exception) or type(exception).__name__)
    if isinstance(exception, tf.errors.ResourceExhaustedError):
        return ClusterError(f"a device ran out of memory ({said})", "use a smaller batch or a plan that puts less on that device")
    if _RESET.search(said):
        remedy = "let no other program connect to them, see who may connect in docs/hosts.md, and open the cluster again"
        return WorkerError(f"another client has closed the sessions of this program on the workers ({said})", remedy)
    if isinstance(exception, (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)):
        return WorkerError(f"a worker stopped answering ({said})", "start the workers and open the cluster again")
    return HeteroError(f"TensorFlow failed with {type(exception).__name__} ({said})", "this plan cannot run on this cluster as it is")
