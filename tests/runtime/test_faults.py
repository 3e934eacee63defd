"""Errors of TensorFlow in one sentence."""

import pickle

import pytest

from hetero_mtf.devices.records import Device
from hetero_mtf.errors import DeviceMemoryError, HeteroError, LayoutError, WorkerError
from hetero_mtf.runtime.faults import explain, first_line, is_lost_connection, log_end

FRAMED = """Graph execution error:

Detected at node 'add' defined at (most recent call last):
    File "program.py", line 3, in <module>
Node: 'add'
From /job:worker/replica:0/task:1:
Incompatible shapes: [2,3] vs. [4].
\t [[{{node add}}]]"""


def test_the_line_that_tells_is_found_among_the_frames():
    assert first_line(FRAMED) == "Incompatible shapes: [2,3] vs. [4]"
    assert first_line("plain words.") == "plain words"
    assert first_line("=====================\nNumber of errors: 2\n=====") == "Number of errors: 2"
    assert first_line("Graph execution error:") == "Graph execution error:"


def test_the_last_telling_lines_of_a_log_are_kept():
    log = "I0000 00:00:1.5    77 port.cc:153] oneDNN custom operations are on\nfirst\n\nE0000 00:00:1.5    77 a/b.cc:52] second\nthird\n"
    assert log_end(log) == "second | third"
    assert log_end("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n") == ""


def test_our_own_errors_are_passed_on():
    error = LayoutError("a; b")
    assert explain(error, WorkerError("c; d")) is error


def test_a_dead_worker_is_the_reason_for_whatever_came_out():
    fault = WorkerError("worker:1 was killed by SIGKILL; open the cluster again")
    assert explain(RuntimeError("x"), fault) is fault


@pytest.mark.parametrize(
    ("kind", "wanted", "sentence"),
    [
        (
            "ResourceExhaustedError",
            DeviceMemoryError,
            "a device ran out of memory (said); use a smaller batch or a plan that puts less on that device",
        ),
        ("UnavailableError", WorkerError, "a worker stopped answering (said); start the workers and open the cluster again"),
        ("AbortedError", WorkerError, "a worker stopped answering (said); start the workers and open the cluster again"),
        ("DeadlineExceededError", WorkerError, "a worker stopped answering (said); start the workers and open the cluster again"),
        (
            "InvalidArgumentError",
            HeteroError,
            "TensorFlow failed with InvalidArgumentError (said); this plan cannot run on this cluster as it is",
        ),
    ],
)
def test_tensorflows_errors_become_one_sentence(kind, wanted, sentence):
    import tensorflow as tf

    error = getattr(tf.errors, kind)(None, None, "said")
    explained = explain(error)
    assert type(explained) is wanted and str(explained) == sentence
    assert is_lost_connection(error) == (kind in ("UnavailableError", "AbortedError"))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("CancelledError", "Step was cancelled by an explicit call to `Session::Close()`"),
        ("AbortedError", "Session 1f2e is not found. Possibly, this master has restarted."),
    ],
)
def test_sessions_that_another_client_has_closed_are_said_to_be(kind, said):
    import tensorflow as tf

    fault = explain(getattr(tf.errors, kind)(None, None, f"Graph execution error:\n\n{said}"))
    assert type(fault) is WorkerError and "another client has closed the sessions of this program" in str(fault), fault


def test_an_error_without_words_is_named():
    assert "MemoryError" in str(explain(MemoryError()))


NO_ROOM = """2 root error(s) found.
  (0) RESOURCE_EXHAUSTED: OOM when allocating tensor with shape[64,64,64,64] and type float on {place} by allocator mklcpu
\t [[{{{{node train_128/layer1_backward/mean_over_space_gradient/BroadcastTo_1}}}}]]
Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to RunOptions.
\t [[train_128/buckets/concat_1_S19]]
====================="""
NO_PRIMITIVE = """Graph execution error:

From /job:worker/replica:0/task:1:
Operation received an exception:Status: 1, message: could not create a primitive, in file tensorflow/core/kernels/mkl/mkl_conv_ops.cc:546
\t [[{{node while/body/_1/layer0_forward/Conv2D}}]]"""
TASKS = tuple(Device(f"worker:{task}", "CPU", "here", f"/job:worker/task:{task}/device:CPU:0", 2**30, "host") for task in range(2))


def test_a_device_that_ran_out_of_memory_is_named_with_the_layer_and_the_bytes():
    import tensorflow as tf

    error = tf.errors.ResourceExhaustedError(None, None, NO_ROOM.format(place="/job:worker/replica:0/task:1/device:CPU:0"))
    fault = explain(error, None, TASKS, ["stem", "pool"])
    assert type(fault) is DeviceMemoryError and fault.device == "worker:1"
    wanted = "worker:1 ran out of memory with no room for a tensor of 64.0 MiB, float [64, 64, 64, 64], for the backward pass of layer pool"
    assert fault.reason == wanted and type(pickle.loads(pickle.dumps(fault))) is DeviceMemoryError
    elsewhere = explain(tf.errors.ResourceExhaustedError(None, None, NO_ROOM.format(place="/job:localhost/replica:0/task:0/device:GPU:3")))
    assert elsewhere.device == "" and "/device:GPU:3 ran out of memory with no room" in str(elsewhere) and "layer" not in str(elsewhere)


def test_a_kernel_of_onednn_that_has_no_memory_is_no_worker_that_stopped():
    import tensorflow as tf

    fault = explain(tf.errors.AbortedError(None, None, NO_PRIMITIVE), None, TASKS, ["stem"])
    assert type(fault) is DeviceMemoryError and fault.device == "worker:1"
    assert fault.reason.startswith("worker:1 ran out of memory (Operation received an exception:Status: 1, message: could not create")
    assert fault.reason.endswith(", for the forward pass of layer stem")
