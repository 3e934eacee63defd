"""Which model --model names, and the files that it comes from: known without TensorFlow, and before anything of the model runs."""

from __future__ import annotations

import importlib.machinery
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from hetero_mtf.errors import HeteroError
from hetero_mtf.file_kind import file_kind, in_place_of

FORM = "FILE.py:function, package.module:function or FILE.keras"


def check_model(text: str, arguments: Mapping[str, Any]) -> None:
    """Refuse what names no model, before TensorFlow is loaded for it.

    Parameters
    ----------
    text, arguments : as for `load_model`.

    Raises
    ------
    HeteroError
        If it is of another form, or a file that Keras has saved is to be called with arguments.
    """
    place, _, name = text.rpartition(":")
    if is_keras_file(text):
        if arguments:
            raise HeteroError(f"{text} is a saved model, which is not called with {', '.join(arguments)}", "leave --model-arg out")
    elif not place or not name.isidentifier():
        wrong = in_place_of(text, "a Keras model") if file_kind(text) else f"{text!r} names no function of a file or module"
        raise HeteroError(wrong, f"write {FORM}")


def is_keras_file(text: str) -> bool:
    """Return whether --model names a file that Keras has saved, rather than a function.

    Parameters
    ----------
    text : --model.
    """
    return text.endswith(".keras")


def gives_float_type(text: str, precision: str | None) -> bool:
    """Return whether the samples get the float type of the model, which is made before they are read.

    Parameters
    ----------
    text, precision : --model and --precision.
    """
    return precision is None and is_keras_file(text)


def source_files(text: str) -> tuple[pathlib.Path, ...]:
    """Return the files that a model's function comes from: its module's and those of the packages around it, none of them executed.

    Parameters
    ----------
    text : as for `load_model`; a module that cannot be found has no files.
    """
    place = text if is_keras_file(text) else text.rpartition(":")[0] or text
    if is_keras_file(text) or is_path(place):
        return (pathlib.Path(place),)
    names, paths = place.split("."), list[pathlib.Path]()
    search: list[str] | None = sys.path if os.getcwd() in sys.path else [os.getcwd(), *sys.path]
    if not all(name.isidentifier() for name in names):
        return ()
    for depth in range(1, len(names) + 1):
        spec = None if search is None else spec_of(".".join(names[:depth]), search)
        if spec is None:
            break
        if spec.origin is not None and spec.has_location:
            paths.append(pathlib.Path(spec.origin))
        search = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    return tuple(paths)


def spec_of(name: str, search: list[str]) -> importlib.machinery.ModuleSpec | None:
    """Return where a module would be loaded from, by the search path or, as for packages in development, by another finder."""
    finders: list[Any] = [importlib.machinery.PathFinder, *(finder for finder in sys.meta_path if hasattr(finder, "find_spec"))]
    return next((spec for finder in finders if (spec := finder.find_spec(name, search)) is not None), None)


def is_path(place: str) -> bool:
    """Return whether what is before the colon of --model is the path of a file, rather than the name of a module."""
    return place.endswith(".py") or os.sep in place
