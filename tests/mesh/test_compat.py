"""Mesh-TensorFlow on today's TensorFlow: imported quietly, nothing left behind, wrong versions refused."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.mesh import compat


@pytest.mark.parametrize(
    "version, words",
    [
        ("0.1.20", "mesh-tensorflow 0.1.20 is installed, this project needs 0.1.21; pip install mesh-tensorflow==0.1.21"),
        ("0.2.0", "mesh-tensorflow 0.2.0 is installed"),
        (None, "mesh-tensorflow is not installed, this project needs 0.1.21; pip install"),
    ],
)
def test_another_version_is_refused(version: str | None, words: str) -> None:
    with pytest.raises(HeteroError, match=words):
        compat.check_version(version)


def test_the_supported_version_is_accepted() -> None:
    compat.check_version("0.1.21")


def test_a_tensorflow_that_lacks_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise AttributeError("module 'tensorflow' has no attribute 'gone'")

    monkeypatch.setattr(compat.importlib, "import_module", fail)
    with pytest.raises(
        HeteroError, match="mesh-tensorflow 0.1.21 cannot be imported on TensorFlow .*'gone'.*; install a TensorFlow from 2.16"
    ):
        compat._import_mesh_tensorflow()


def test_once_lent_its_names_it_is_imported_by_its_own_name() -> None:
    import mesh_tensorflow

    assert mesh_tensorflow is compat.mtf


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=200
    )


@pytest.mark.slow
def test_importing_warns_of_nothing_and_gives_lent_names_back() -> None:
    done = _python(
        """
        import os
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import warnings
        import tensorflow as tf
        from tensorflow.python.framework import ops
        import keras
        lent = ("register_tensor_conversion_function", "register_dense_tensor_like_type")
        names = lambda: (hasattr(tf.compat.v1, "estimator"), *(hasattr(ops, name) for name in lent))
        before = names()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            from hetero_mtf.mesh.compat import mtf
        print([str(w.message) for w in caught], names() == before, tf.executing_eagerly(), mtf.__name__)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] True True mesh_tensorflow"
    noise = [line for line in done.stderr.splitlines() if "mesh" in line.lower() or "warning" in line.lower() and "absl" not in line]
    assert noise == []


@pytest.mark.slow
def test_keras_fits_before_and_after_in_one_process() -> None:
    done = _python(
        """
        import os
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import keras, numpy as np
        def fit():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
            model.compile("sgd", "mse")
            model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
            return model
        model = fit()
        import hetero_mtf as hm
        cluster = hm.Cluster.local(["cpu:0"] * 2)
        with hm.Trainer(model, hm.Plan.filters(model, [1, 1], cluster, 4), cluster, loss="mse") as trainer:
            trainer.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
            fit()
            trainer.to_keras().predict(np.ones((1, 3)), verbose=0)
        fit()
        print("done")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"
