"""The only import of Mesh-TensorFlow, with the names that today's TensorFlow lacks defined meanwhile.

Mesh-TensorFlow 0.1.21 needs, while it is imported, three names that TensorFlow no longer has:
`tensorflow.compat.v1.estimator` (two classes of it), and two functions of
`tensorflow.python.framework.ops`. They are defined for the duration of the import and removed after it,
so neither the installed files nor the user's TensorFlow are changed.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import types
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import tensorflow as tf
import tensorflow.compat.v1 as tf1

from hetero_mtf.errors import HeteroError

__all__ = ["SUPPORTED_VERSIONS", "Tensor", "check_version", "mtf", "placement"]

SUPPORTED_VERSIONS = ("0.1.21",)


def check_version(version: str | None) -> None:
    """Check that an installed version of Mesh-TensorFlow is supported.

    Parameters
    ----------
    version : installed version, or None if it is not installed.

    Raises
    ------
    HeteroError
        If it is missing or another version.
    """
    if version not in SUPPORTED_VERSIONS:
        installed = f"mesh-tensorflow {version} is installed" if version else "mesh-tensorflow is not installed"
        raise HeteroError(
            f"{installed}, this project needs {SUPPORTED_VERSIONS[0]}", f"pip install mesh-tensorflow=={SUPPORTED_VERSIONS[0]}"
        )


def _installed_version() -> str | None:
    try:
        return importlib.metadata.version("mesh-tensorflow")
    except importlib.metadata.PackageNotFoundError:
        return None


@contextlib.contextmanager
def _missing_names() -> Iterator[None]:
    """Define the names that Mesh-TensorFlow's import looks up in TensorFlow's modules; remove them at the end."""
    # private, so a TensorFlow may lack them: then the import below fails with the versions named
    from tensorflow.python.framework import ops, tensor_conversion_registry

    estimator = types.ModuleType("tensorflow.compat.v1.estimator")
    estimator.CheckpointSaverListener = tf1.train.CheckpointSaverListener  # type: ignore[attr-defined]
    estimator.SessionRunHook = tf1.train.SessionRunHook  # type: ignore[attr-defined]
    missing = (
        (tf1, "estimator", estimator),
        (ops, "register_tensor_conversion_function", tensor_conversion_registry.register_tensor_conversion_function),
        (ops, "register_dense_tensor_like_type", lambda tensor_type: None),
    )
    defined = [(module, name) for module, name, _ in missing if not hasattr(module, name)]
    for module, name, value in missing:
        if (module, name) in defined:
            setattr(module, name, value)
    try:
        yield
    finally:
        for module, name in defined:
            delattr(module, name)


def _import_mesh_tensorflow() -> tuple[types.ModuleType, types.ModuleType]:
    check_version(_installed_version())
    try:
        with _missing_names(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("mesh_tensorflow"), importlib.import_module("mesh_tensorflow.placement_mesh_impl")
    except (ImportError, AttributeError) as fault:
        raise HeteroError(
            f"mesh-tensorflow {_installed_version()} cannot be imported on TensorFlow {tf.__version__} ({fault})",
            "install a TensorFlow from 2.16 to 2.21"
        ) from fault


if TYPE_CHECKING:  # a type checker takes the names of a module, not those of a variable
    import mesh_tensorflow as mtf
    from mesh_tensorflow import Tensor
    from mesh_tensorflow import placement_mesh_impl as placement
else:
    mtf, placement = _import_mesh_tensorflow()
    Tensor = mtf.Tensor
