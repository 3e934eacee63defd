"""Configurations of Keras's losses, metrics and optimizers in files, checked so that none of them leads to code that the file names."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from hetero_mtf.errors import HeteroError
from hetero_mtf.units import value_text

_DROPPED = ("dtype",)  # what Keras gives them here is that of this process
_LONGEST = 10_000  # numbers in a list


class ForeignObject(HeteroError):
    """A configuration names what is not one of Keras's own classes; it is not followed.

    Parameters
    ----------
    named : what it names.
    fault : what is wrong with it.
    remedy : what to do.
    """

    def __init__(self, named: str, fault: str, remedy: str) -> None:
        super().__init__(f"{named} {fault}", remedy)
        self.args, self.named = (named, fault, remedy), named


def plain_configuration(entry: Any, room: ModuleType, base: type) -> dict[str, Any]:
    """Return {"class_name": ..., "config": ...} of an object that a file describes, nothing else of which counts.

    Parameters
    ----------
    entry : what the file holds.
    room : the module whose public classes may be named, such as keras.losses.
    base : the class that they are derived from.

    Raises
    ------
    ForeignObject
        If it is no public class of that module, or its options are more than numbers, texts and lists of these.
    """
    if not isinstance(entry, Mapping) or not isinstance(entry.get("class_name"), str):
        raise ForeignObject(value_text(entry), f"names no class of {_public(room)}", "name one")
    name, config = entry["class_name"], entry.get("config")
    kind = vars(room).get(name)
    module = entry.get("module", _public(room))
    of_keras = isinstance(module, str) and (module == _public(room) or module.startswith("keras.src."))
    if not of_keras or entry.get("registered_name") not in (None, name) or not (inspect.isclass(kind) and issubclass(kind, base)):
        shown = config if name == "function" and isinstance(config, str) else name
        raise ForeignObject(value_text(shown), f"is no class of {_public(room)}", "name one")
    if not isinstance(config, Mapping) or "fn" in config:
        raise ForeignObject(name, "has no options that are plain values", "name it by its name")
    options = {key: value for key, value in config.items() if key not in _DROPPED}
    strange = [str(key) for key, value in options.items() if not isinstance(key, str) or not _is_plain(value)]
    if strange:
        raise ForeignObject(name, f"has options that are no plain values ({value_text(', '.join(strange))})", "name it by its name")
    return {"class_name": name, "config": options}


def _public(room: ModuleType) -> str:
    """Return the name of one of Keras's public modules: up to Keras 3.9 such a module calls itself keras.api.losses."""
    return room.__name__.replace("keras.api.", "keras.", 1)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= _LONGEST and all(_is_plain(entry) and not isinstance(entry, (list, tuple)) for entry in value)
    return value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value))
