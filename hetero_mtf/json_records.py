"""Reads records out of JSON documents and collects every fault with its path."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from hetero_mtf.units import list_text, value_text

LARGEST = sys.float_info.max
LISTED_UP_TO = 1000  # faults


@dataclasses.dataclass(frozen=True)
class Fault:
    """One thing wrong with a document.

    Parameters
    ----------
    path : where, such as "stages[0].layouts[3].sizes".
    text : what is wrong.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def listed(faults: list[Fault]) -> str:
    """Return the faults as one clause, such as "1 fault: batch_size: is 0, must be at least 1"; of thousands the first thousand."""
    return f"{len(faults)} fault{'s' * (len(faults) != 1)}: " + list_text([str(fault) for fault in faults], LISTED_UP_TO, "; ")


def unless_caused(faults: list[Fault], causes: list[Fault]) -> list[Fault]:
    """Return the faults that lie neither inside nor around a part that `causes` already names. O(length of all paths)."""
    named = {cause.path for cause in causes}
    around = {outer for path in named for outer in _around(path)}
    return [f for f in faults if f.path not in around and named.isdisjoint(_around(f.path))]


def read_value(form: Any, value: Any, path: str, faults: list[Fault]) -> Any:
    """Return `value` as the type `form`; where it does not fit, add a fault and return a stand-in of that type.

    Parameters
    ----------
    form : bool, int, float, str, a frozen record, `tuple[X, ...]`, `tuple[X, Y]`, `dict[str, X]` or `X | None`.
    value : what the JSON document holds.
    path : its path, for faults.
    faults : the list that faults are added to.
    """
    origin = typing.get_origin(form)
    if origin in (types.UnionType, typing.Union):
        inner = next(a for a in typing.get_args(form) if a is not type(None))
        return None if value is None else read_value(inner, value, path, faults)
    if dataclasses.is_dataclass(form) and isinstance(form, type):
        return form(**read_fields(form, value, path, faults))
    if origin is tuple:
        return _sequence(typing.get_args(form), value, path, faults)
    if origin in (dict, Mapping):
        return _mapping(typing.get_args(form)[1], value, path, faults)
    return _scalar(form, value, path, faults)


def read_fields(record: type, document: Any, path: str, faults: list[Fault], ignored: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the fields of `record` that `document` holds; missing and unknown entries are faults.

    Parameters
    ----------
    record : a dataclass; fields with a default may be missing.
    document : JSON object.
    path : its path, "" at the top.
    faults : the list that faults are added to.
    ignored : entries that are neither read nor called unknown.
    """
    if not isinstance(document, Mapping):
        faults.append(Fault(path or "document", f"is {value_text(document)}, must be an object"))
        document = None
    forms = _forms(record)
    fields = {field.name: field for field in dataclasses.fields(record) if field.name not in ignored}
    prefix = f"{path}." if path else ""
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if document is not None and name in document:
            values[name] = read_value(forms[name], document[name], prefix + name, faults)
        elif document is None or _required(field):
            values[name] = _stand_in(forms[name])
            faults.extend([Fault(prefix + name, "is missing")] if document is not None else [])
    for name in sorted(set(document or ()) - set(fields) - ignored):
        faults.append(Fault(f"{prefix}{name}", "is not known"))
    return values


def renamed(document: Any, names: Mapping[str, str]) -> Any:
    """Return a JSON document of an earlier schema with the keys of its objects, at any depth, under their present names.

    A key stays where its object has the new one too; the reader then refuses it as unknown.

    Examples
    --------
    >>> renamed({"parts": [{"busy_s": 1.0}]}, {"busy_s": "compute_s"})
    {'parts': [{'compute_s': 1.0}]}
    """
    if isinstance(document, Mapping):
        return {(key if names.get(key, key) in document else names[key]): renamed(value, names) for key, value in document.items()}
    return [renamed(entry, names) for entry in document] if isinstance(document, list) else document


def unchecked(record: type, values: dict[str, Any]) -> Any:
    """Return a frozen record made without its own checks, so that they can be run beside others."""
    instance: Any = object.__new__(record)
    for field in dataclasses.fields(record):
        default = field.default if field.default is not dataclasses.MISSING else None
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        object.__setattr__(instance, field.name, values.get(field.name, default))
    return instance


def _around(path: str) -> Iterator[str]:
    """Yield a path and the paths of the parts that it lies in."""
    yield path
    for at in range(len(path) - 1, 0, -1):
        if path[at] in ".[":
            yield path[:at]


@functools.cache
def _forms(record: type) -> dict[str, Any]:
    return typing.get_type_hints(record)


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _sequence(forms: tuple[Any, ...], value: Any, path: str, faults: list[Fault]) -> tuple[Any, ...]:
    fixed = len(forms) != 2 or forms[1] is not Ellipsis
    if not isinstance(value, list | tuple) or (fixed and len(value) != len(forms)):
        wanted = f"a list of {len(forms)} entries" if fixed else "a list"
        faults.append(Fault(path, f"is {value_text(value)}, must be {wanted}"))
        return tuple(_stand_in(form) for form in forms) if fixed else ()
    inner = forms if fixed else (forms[0],) * len(value)
    return tuple(read_value(form, entry, f"{path}[{i}]", faults) for i, (form, entry) in enumerate(zip(inner, value)))


def _mapping(form: Any, value: Any, path: str, faults: list[Fault]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        faults.append(Fault(path, f"is {value_text(value)}, must be an object"))
        return {}
    return {key: read_value(form, entry, f"{path}.{key}", faults) for key, entry in value.items()}


def _scalar(form: Any, value: Any, path: str, faults: list[Fault]) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    if form is float and number:
        return float(value)
    if form is not float and isinstance(value, form) and (form is not int or number):
        return value
    expected = {float: "a finite number", int: "a whole number", str: "a text", bool: "true or false"}
    faults.append(Fault(path, f"is {value_text(value)}, must be {expected[form]}"))
    return form()


def _stand_in(form: Any) -> Any:
    return read_value(form, None, "", [])
