"""The part of TensorFlow that the worker of an emulated device needs: its server, and functions of Python that operations call.

`import tensorflow` loads the Python of all that TensorFlow can do, and Keras with what that imports, in about four times the time. Graphs
run in C++, and are built elsewhere.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any

from hetero_mtf.devices import environment

_KERAS = ("keras", "tf_keras")
_PLUGINS, _PLUGIN_VARIABLE = "tensorflow-plugins", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"


def load_server_part() -> None:
    """Make `import tensorflow` give a module that has what a worker uses, and load nothing else of it; for a process that only serves.

    Where TensorFlow loads libraries of plug-ins, or keeps these names elsewhere, all of it is loaded, without Keras.
    """
    if "tensorflow" in sys.modules:
        return
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.submodule_search_locations is None or _has_plugins(spec.submodule_search_locations[0]):
        _load_all()
        return
    part = importlib.util.module_from_spec(spec)  # with the path of its packages, and none of its code
    sys.modules["tensorflow"] = part
    try:
        vars(part).update(_names())
    except (ImportError, AttributeError):
        del sys.modules["tensorflow"]
        _load_all()


def _names() -> dict[str, Any]:
    """Return what a worker uses, by its public name.

    The private places are the same in TensorFlow 2.16 and 2.21.
    """

    def of(module: str, name: str) -> Any:
        return getattr(importlib.import_module(f"tensorflow.{module}"), name)

    of("python.tf2", "enable")()  # as TensorFlow does first, for its runtime in C++ too
    return {
        "distribute": types.SimpleNamespace(Server=of("python.training.server_lib", "Server")),
        "compat": types.SimpleNamespace(v1=types.SimpleNamespace(ConfigProto=of("core.protobuf.config_pb2", "ConfigProto"))),
        "errors": types.SimpleNamespace(OpError=of("python.framework.errors_impl", "OpError")),
        "Graph": of("python.framework.ops", "Graph"),
        "constant": of("python.framework.constant_op", "constant"),
        "float32": of("python.framework.dtypes", "float32"),
        "numpy_function": of("python.ops.script_ops", "numpy_function"),
    }


def _load_all() -> None:
    for name in _KERAS:
        sys.modules[name] = None  # type: ignore[assignment]  # an import of it fails, as where it is not installed
    importlib.import_module("tensorflow")


def _has_plugins(folder: str) -> bool:
    """Return whether TensorFlow, in a folder, would load further libraries when it is imported."""
    return (
        bool(environment.variables().get(_PLUGIN_VARIABLE))
        or os.path.exists(os.path.join(folder, "core", "kernels"))
        or any(os.path.exists(os.path.join(path, _PLUGINS)) for path in sys.path)
    )
