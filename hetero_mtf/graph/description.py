"""What can be wrong with the JSON description of a network, every fault at once, each with its path."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from hetero_mtf.units import value_text

DTYPES = ("float32", "float64")  # of networks
FLOATS = ("bfloat16", "float16", *DTYPES)  # of layers, by their policies
_LISTED = (list, tuple)
_LARGEST = 2**62  # of an extent
_DEEPEST = 20  # lists and objects in each other


def description_faults(document: Any) -> list[str]:
    """Return everything that keeps a document from being a network, such as "layers[2].flops is nan, must be zero or more".

    Parameters
    ----------
    document : what a JSON file holds.
    """
    if not isinstance(document, Mapping):
        return [f"it is {value_text(document)}, must be an object"]
    faults = [f"{name} is missing" for name in ("dtype", "digest", "outputs", "layers") if name not in document]
    if "dtype" in document and document["dtype"] not in DTYPES:
        faults.append(f"dtype is {value_text(document['dtype'])}, must be one of {', '.join(DTYPES)}")
    if not isinstance(document.get("digest", ""), str):
        faults.append(f"digest is {value_text(document['digest'])}, must be a text")
    layers = document.get("layers", ())
    if not isinstance(layers, _LISTED) or ("layers" in document and not layers):
        return [*faults, f"layers is {value_text(layers)}, must be a list of at least one"]
    for index, layer in enumerate(layers):
        faults += [f"layers[{index}]{path} {text}" for path, text in _layer_faults(layer, index)]
    if "outputs" in document:
        faults += [f"outputs{path} {text}" for path, text in _numbers(document["outputs"], 0, len(layers) - 1)]
    return faults


_PathFaults = Iterator[tuple[str, str]]


def _layer_faults(layer: Any, index: int) -> _PathFaults:
    if not isinstance(layer, Mapping):
        yield "", f"is {value_text(layer)}, must be an object"
        return
    for name in ("name", "kind", "attributes", "inputs", "output_shape", "variables", "flops", "shared_with"):
        if name not in layer:
            yield f".{name}", "is missing"
            continue
        value = layer[name]
        if name in ("name", "kind") and not isinstance(value, str):
            yield f".{name}", f"is {value_text(value)}, must be a text"
        elif name == "attributes":
            yield from ((f".attributes{path}", text) for path, text in _attribute_faults(value))
        elif name in ("inputs", "output_shape"):
            low, high = (0, index - 1) if name == "inputs" else (1, _LARGEST)
            yield from ((f".{name}{path}", text) for path, text in _numbers(value, low, high))
        elif name == "variables":
            yield from _variables_faults(value)
        elif name == "flops" and not (_is_number(value) and 0 <= value <= 1e300):
            yield ".flops", f"is {value_text(value)}, must be a number of zero or more"
        elif name == "shared_with" and value is not None and not _within(value, 0, index - 1):
            yield ".shared_with", f"is {value_text(value)}, must be an earlier layer or null"
    for name in ("compute_dtype", "variable_dtype"):
        if layer.get(name) is not None and layer[name] not in FLOATS:
            yield f".{name}", f"is {value_text(layer[name])}, must be one of {', '.join(FLOATS)}, or left out"


def _variables_faults(variables: Any) -> _PathFaults:
    if not isinstance(variables, _LISTED):
        yield ".variables", f"is {value_text(variables)}, must be a list"
        return
    for index, variable in enumerate(variables):
        path = f".variables[{index}]"
        if not isinstance(variable, Mapping):
            yield path, f"is {value_text(variable)}, must be an object"
            continue
        for name, form, words in (("name", str, "a text"), ("shape", _LISTED, "a list"), ("trainable", bool, "true or false")):
            if name not in variable:
                yield f"{path}.{name}", "is missing"
            elif not isinstance(variable[name], form):
                yield f"{path}.{name}", f"is {value_text(variable[name])}, must be {words}"
        if isinstance(variable.get("shape"), _LISTED):
            yield from ((f"{path}.shape{at}", text) for at, text in _numbers(variable["shape"], 1, _LARGEST))


def _attribute_faults(value: Any) -> _PathFaults:
    """Yield numbers that are not finite, wherever they are in a layer's attributes."""
    if not isinstance(value, Mapping):
        yield "", f"is {value_text(value)}, must be an object"
        return
    left: list[tuple[str, Any, int]] = [("", value, 0)]
    while left:
        path, inner, depth = left.pop()
        if depth > _DEEPEST:
            yield path, "is nested too deeply"
        elif isinstance(inner, Mapping):
            left += [(f"{path}.{key}", entry, depth + 1) for key, entry in inner.items()]
        elif isinstance(inner, _LISTED):
            left += [(f"{path}[{at}]", entry, depth + 1) for at, entry in enumerate(inner)]
        elif isinstance(inner, int | float) and not (_is_number(inner) or isinstance(inner, bool)):
            yield path, f"is {value_text(inner)}, must be a finite number"


def _numbers(values: Any, low: int, high: int) -> _PathFaults:
    """Yield where a list of whole numbers leaves its bounds."""
    if not isinstance(values, _LISTED):
        yield "", f"is {value_text(values)}, must be a list"
        return
    among = f"from {low} to {high}" if high < _LARGEST else f"at least {low}"
    yield from ((f"[{at}]", f"is {value_text(value)}, must be {among}") for at, value in enumerate(values) if not _within(value, low, high))


def _within(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -1e300 <= value <= 1e300 and math.isfinite(value)
