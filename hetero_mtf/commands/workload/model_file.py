"""Keras models by the name of the function that makes them; imported after TensorFlow is."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import keras

from hetero_mtf.commands.options.model import float_type
from hetero_mtf.commands.workload.keras_file import load_keras_file
from hetero_mtf.commands.workload.model_source import FORM, check_model, is_keras_file, is_path, spec_of
from hetero_mtf.errors import HeteroError


def load_model(text: str, arguments: Mapping[str, Any], precision: str | None = None, seed: int = 0) -> Any:
    """Return the Keras model that a function of the user makes, or that Keras has saved in a file.

    Parameters
    ----------
    text : "FILE.py:function", "package.module:function" or "FILE.keras"; a package may be in the working directory.
    arguments : what the function is called with, by name.
    precision : name of Keras's dtype policy while the model is made; None for float32, and for that of a file.
    seed : seed of the initial weights; a file has its own.

    Raises
    ------
    HeteroError
        If there is no such file, module or function, or it fails or returns something else.
    """
    check_model(text, arguments)
    if is_keras_file(text):
        return load_keras_file(text, precision, seed)
    place, _, name = text.rpartition(":")
    with dtype_policy(precision):
        keras.utils.set_random_seed(seed)
        function = _function(_module(place), name, place)
        _check_arguments(function, arguments, text)
        model = _guarded(lambda: function(**arguments), f"the function {text} failed")
    if not isinstance(model, keras.Model):
        raise HeteroError(
            f"{text} returned a {type(model).__name__} and not a Keras model", "return a functional or sequential keras.Model"
        )
    return model


@contextlib.contextmanager
def dtype_policy(precision: str | None) -> Iterator[None]:
    """Make layers under a dtype policy of Keras in the block; its float type stays afterwards, for losses and metrics.

    Parameters
    ----------
    precision : name of the policy; None for float32.
    """
    keras.config.set_floatx(float_type(precision))
    keras.config.set_dtype_policy(precision or "float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(keras.config.floatx())


def _module(place: str) -> ModuleType:
    if is_path(place):
        return _module_of_file(pathlib.Path(place))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not all(part.isidentifier() for part in place.split(".")):
        raise HeteroError(f"{place!r} is no name of a module", f"write {FORM}")
    return _guarded(lambda: importlib.import_module(place), f"module {place} cannot be imported")


def _module_of_file(path: pathlib.Path) -> ModuleType:
    if not path.is_file():
        installed = f"hetero_mtf.models.{path.stem}"
        known = path.parent.name == "models" and path.stem.isidentifier() and spec_of(installed, _installed_models()) is not None
        raise HeteroError(f"there is no model file {path}", f"{f'write {installed}:...' if known else f'check the path, and write {FORM}'}")
    spec = importlib.util.spec_from_file_location(f"hetero_mtf_model_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise HeteroError(f"{path} is no Python file", f"write {FORM}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    _guarded(lambda: spec.loader.exec_module(module), f"the model file {path} failed")  # type: ignore[union-attr]
    return module


def _installed_models() -> list[str]:
    """Return the folders of the networks that are installed with this program."""
    spec = importlib.util.find_spec("hetero_mtf.models")
    return [] if spec is None else list(spec.submodule_search_locations or ())


def _function(module: ModuleType, name: str, place: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if callable(function):
        return function
    own = [key for key, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == module.__name__]
    there = ", ".join(key for key in own if not key.startswith("_")) or "none"
    raise HeteroError(f"{place} has no function {name}, it has {there}", "write one of them behind the colon")


def _check_arguments(function: Callable[..., Any], arguments: Mapping[str, Any], text: str) -> None:
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as fault:
        given = ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"
        raise HeteroError(f"{text} cannot be called with {given} ({fault})", "correct --model-arg") from fault
    except ValueError:
        return  # a callable without a readable signature speaks for itself when it is called


def _guarded(call: Callable[[], Any], what: str) -> Any:
    """Return what code of the user returns; whatever it raises is its own fault, not this program's."""
    try:
        return call()
    except HeteroError:
        raise
    except (Exception, SystemExit) as fault:
        said = " ".join(str(fault).split())[:300]
        raise HeteroError(f"{what} with {type(fault).__name__} ({said})", "correct it") from fault
