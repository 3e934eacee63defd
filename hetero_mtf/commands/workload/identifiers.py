"""Losses and metrics by Keras's identifiers, and what an unknown one may have been meant for."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import keras

from hetero_mtf.commands.options.loss_options import Identified
from hetero_mtf.errors import UnsupportedError

_NOT_NAMES = frozenset({"get", "serialize", "deserialize", "Loss", "Metric", "MeanMetricWrapper"})
_ALIASES = ("mse", "mae", "mape", "msle", "bce")
_SHOWN = 4  # near matches in a message


def loss_kind(identifier: Identified) -> Any:
    """Return the class of keras.losses that an identifier or a configuration names, or its function where no class wraps it.

    Parameters
    ----------
    identifier : in the spelling of the class, of the function or in lower case; a configuration's "class_name" counts.

    Raises
    ------
    UnsupportedError
        If Keras knows no such loss; near matches are named.
    """
    kind = _kind(keras.losses, "loss", identifier)
    if inspect.isclass(kind) or not inspect.isfunction(kind):
        return kind
    classes = (each for each in vars(keras.losses).values() if inspect.isclass(each) and each is not keras.losses.Loss)
    return next((each for each in classes if getattr(each(), "fn", None) is kind), kind)


def metric_kind(identifier: Identified) -> Any:
    """Return the class or function of keras.metrics that an identifier or a configuration names.

    Parameters
    ----------
    identifier : as for `loss_kind`.

    Raises
    ------
    UnsupportedError
        If Keras knows no such metric; near matches are named.
    """
    return _kind(keras.metrics, "metric", identifier)


def _kind(module: Any, what: str, identifier: Identified) -> Any:
    """Return the class or function of a module of Keras that an identifier or a configuration names."""
    name = identifier["class_name"] if isinstance(identifier, Mapping) else identifier
    kind = _looked_up(module, name)
    if kind is None:
        raise UnsupportedError(f"there is no {what} {name!r} in Keras", f"{_remedy(module, name)}")
    return kind


def title_of(kind: Any) -> str:
    """Return a class or function of Keras in words.

    Parameters
    ----------
    kind : such as keras.losses.SquaredHinge.

    Examples
    --------
    >>> title_of(type("CategoricalHinge", (), {}))
    'categorical hinge'
    """
    name = getattr(kind, "__name__", type(kind).__name__)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("_", " ")
    return re.sub(r"\bcross ?entropy\b", "cross-entropy", words)


def _looked_up(room: ModuleType, name: str) -> Any:
    """Return the class or function of a name in keras.losses or keras.metrics; None where there is none."""
    members = {key: value for key, value in vars(room).items() if callable(value) and key not in _NOT_NAMES and not key.startswith("_")}
    if name in _NOT_NAMES:
        return None
    bare = name.lower().replace("_", "")
    alike = {key.lower().replace("_", ""): value for key, value in members.items() if inspect.isclass(value)}
    if bare in alike:
        return alike[bare]
    if name in members:
        return members[name]
    try:
        known = room.get(name)  # aliases such as mse, and what the model's file has registered
    except (ValueError, TypeError):
        return None
    return known if inspect.isfunction(known) else type(known)


def _remedy(room: ModuleType, name: str) -> str:
    """Return what to write instead of a name that is unknown."""
    names = {_spelt(key) for key, value in vars(room).items() if inspect.isclass(value) and key not in _NOT_NAMES}
    near = difflib.get_close_matches(_spelt(name), sorted({*names, *_ALIASES}), n=_SHOWN, cutoff=0.5)
    option = f"--{'loss' if room.__name__.endswith('losses') else 'metrics'}"
    if near:
        return f"for {option} there are {', '.join(near)}"
    return f"write one of its names behind {option}, such as {', '.join(sorted(names)[:_SHOWN])}"


def _spelt(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
