"""Functions of workers that graphs call; a worker is another process."""

import subprocess
import sys

import numpy as np
import pytest

from hetero_mtf.runtime.shared.batch_memory import BatchMemory


@pytest.mark.slow
def test_another_process_reads_it_by_the_token_that_clients_use() -> None:
    array = np.arange(12.0).reshape(4, 3)
    memory = BatchMemory([(array.shape, str(array.dtype))], 2)
    memory.write(1, [array])
    memory.select(1)
    program = f"""
import tensorflow as tf
from hetero_mtf.runtime.shared.worker_functions import READ_PART, register
kept = register()
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    part = tf.raw_ops.PyFunc(input=[tf.constant({memory.order(0, [1, 1], [2, 2])!r})], token=READ_PART, Tout=[tf.float64])[0]
    print(session.run(part).ravel().tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[4.0, 5.0, 7.0, 8.0]", done.stderr


@pytest.mark.slow
def test_a_second_function_of_a_process_has_another_token_and_is_refused() -> None:
    program = """
import tensorflow as tf
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.shared.worker_functions import register
kept = register()
try:
    register()
except ClusterError as fault:
    print("refused;", fault)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("refused;"), done.stderr
