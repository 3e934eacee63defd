"""Keras models by the name of the function that makes them."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from hetero_mtf.commands.options.model import float_type
from hetero_mtf.commands.process.quiet import load_tensorflow
from hetero_mtf.errors import HeteroError
from hetero_mtf.file_kind import file_kind, in_place_of

FORM = "FILE.py:function, package.module:function or FILE.keras"


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
    place, _, name = text.rpartition(":")
    if is_keras_file(text):
        if arguments:
            raise HeteroError(f"{text} is a saved model, which is not called with {', '.join(arguments)}", "leave --model-arg out")
    elif not place or not name.isidentifier():
        wrong = in_place_of(text, "a Keras model") if file_kind(text) else f"{text!r} names no function of a file or module"
        raise HeteroError(wrong, f"write {FORM}")
    load_tensorflow()
    import keras

    if is_keras_file(text):
        from hetero_mtf.commands.workload.keras_file import load_keras_file

        return load_keras_file(text, precision, seed)

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
    import keras

    keras.config.set_floatx(float_type(precision))
    keras.config.set_dtype_policy(precision or "float32")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(keras.config.floatx())


def is_keras_file(text: str) -> bool:
    """Return whether --model names a file that Keras has saved, rather than a function.

    Parameters
    ----------
    text : --model.
    """
    return text.endswith(".keras")


def source_files(text: str) -> tuple[pathlib.Path, ...]:
    """Return the files that a model's function comes from: its module's and those of the packages around it, none of them executed.

    Parameters
    ----------
    text : as for `load_model`; a module that cannot be found has no files.
    """
    place = text if is_keras_file(text) else text.rpartition(":")[0] or text
    if is_keras_file(text) or _is_path(place):
        return (pathlib.Path(place),)
    names, paths = place.split("."), list[pathlib.Path]()
    search: list[str] | None = sys.path if os.getcwd() in sys.path else [os.getcwd(), *sys.path]
    if not all(name.isidentifier() for name in names):
        return ()
    for depth in range(1, len(names) + 1):
        spec = None if search is None else _spec(".".join(names[:depth]), search)
        if spec is None:
            break
        if spec.origin is not None and spec.has_location:
            paths.append(pathlib.Path(spec.origin))
        search = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    return tuple(paths)


def _spec(name: str, search: list[str]) -> importlib.machinery.ModuleSpec | None:
    """Return where a module would be loaded from, by the search path or, as for packages in development, by another finder."""
    finders: list[Any] = [importlib.machinery.PathFinder, *(finder for finder in sys.meta_path if hasattr(finder, "find_spec"))]
    return next((spec for finder in finders if (spec := finder.find_spec(name, search)) is not None), None)


def _is_path(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


def _module(place: str) -> ModuleType:
    if _is_path(place):
        return _module_of_file(pathlib.Path(place))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not all(part.isidentifier() for part in place.split(".")):
        raise HeteroError(f"{place!r} is no name of a module", f"write {FORM}")
    return _guarded(lambda: importlib.import_module(place), f"module {place} cannot be imported")


def _module_of_file(path: pathlib.Path) -> ModuleType:
    if not path.is_file():
        installed = f"hetero_mtf.models.{path.stem}"
        known = path.parent.name == "models" and path.stem.isidentifier() and _spec(installed, _installed_models()) is not None
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
