"""Which part of TensorFlow a process that serves loads, in processes of their own."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

BEGIN = "import sys\nfrom hetero_mtf.runtime.processes import server_tensorflow as part\n"
CHECK = """
part.load_server_part()
import tensorflow as tf
from hetero_mtf.runtime.shared.worker_functions import register
graph = register()
tf.distribute.Server({"worker": ["127.0.0.1:0"]}, job_name="worker", task_index=0, start=False, config=tf.compat.v1.ConfigProto())
assert issubclass(tf.errors.OpError, Exception)
print(hasattr(tf, "data"), any(name.startswith("keras.") for name in sys.modules))
"""


def loaded(text: str) -> str:
    """Return what a program prints: whether all of TensorFlow is loaded, and whether Keras is."""
    ended = subprocess.run([sys.executable, "-c", f"{BEGIN}{text}{CHECK}"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_a_server_and_functions_of_python_need_neither_keras_nor_most_of_tensorflow() -> None:
    kernels = pathlib.Path(tf.__file__).parent / "core" / "kernels"  # which TensorFlow 2.16 loads when it is imported, so all is loaded
    assert loaded("") == f"{kernels.exists()} False"


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "part._has_plugins = lambda folder: True",
        "def missing(): raise AttributeError\npart._names = missing",
        "part._names = lambda: __import__('tensorflow.python.moved')",
    ],
)
def test_where_there_are_plug_ins_or_names_have_moved_all_but_keras_is_loaded(change: str) -> None:
    assert loaded(change) == "True False"


def test_plug_ins_are_looked_for_where_tensorflow_does(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from hetero_mtf.runtime.processes.server_tensorflow import _has_plugins

    monkeypatch.delenv("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    assert not _has_plugins(str(tmp_path))
    (tmp_path / "site" / "tensorflow-plugins").mkdir(parents=True)
    assert _has_plugins(str(tmp_path))
    monkeypatch.setattr(sys, "path", [])
    assert not _has_plugins(str(tmp_path))
    monkeypatch.setenv("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "/a")
    assert _has_plugins(str(tmp_path))
