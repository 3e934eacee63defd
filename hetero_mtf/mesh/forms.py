"""The forms in which Mesh-TensorFlow takes a mesh shape, layout rules and devices, read into one form each."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf

Sizes: TypeAlias = "Sequence[int] | Sequence[Sequence[int]]"
_SHAPE = 'write it as "devices:3", [("devices", 3)] or an mtf.Shape'
_LAYOUT = 'write it as "hidden:devices", [("hidden", "devices")], {"hidden": "devices"} or mtf.LayoutRules, {} for none'
_SIZES = 'write them as {"hidden": [5, 2, 1]}'
_DEVICES = 'write a list with one device string or tf.DeviceSpec a processor, such as ["/device:GPU:0", "/device:CPU:0"]'


def mesh_shape(shape: Any) -> Any:
    """Return the axes of a mesh as an `mtf.Shape`.

    Parameters
    ----------
    shape : text, pairs, mapping or `mtf.Shape`.

    Raises
    ------
    LayoutError
        If it is none of these, an axis has no size of 1 or more, or occurs twice.
    """
    axes: dict[str, int] = {}
    for axis, count in _pairs(shape, "the shape of the mesh", _SHAPE):
        name = _name(axis, "a mesh axis", _SHAPE)
        if name in axes:
            raise LayoutError(f"the mesh axis {name} is listed more than once in {shape!r}", "give every axis its own name")
        axes[name] = _count(count, name)
    return mtf.Shape([mtf.Dimension(name, count) for name, count in axes.items()])


def layout_axes(layout: Any) -> dict[str, str]:
    """Return the layout rules as dimension name -> mesh axis name.

    Parameters
    ----------
    layout : text, pairs, mapping or `mtf.LayoutRules`.

    Raises
    ------
    LayoutError
        If it is none of these, or a dimension lies on two axes.
    """
    pairs = layout._pairs if isinstance(layout, mtf.LayoutRules) else layout  # its only way to list them
    axes: dict[str, str] = {}
    for dimension, axis in _pairs(pairs, "the layout", _LAYOUT):
        name, axis_name = _name(dimension, "a dimension of the layout", _LAYOUT), _name(axis, "a mesh axis of the layout", _LAYOUT)
        if axes.setdefault(name, axis_name) != axis_name:
            both = " and ".join(sorted((axes[name], axis_name)))
            raise LayoutError(f"the layout puts dimension {name} on the mesh axes {both}", "choose one of them")
    return axes


def device_strings(devices: Any) -> list[str]:
    """Return the devices as strings, which are compared and counted; None, for no constraint, is "".

    Parameters
    ----------
    devices : strings, `tf.DeviceSpec`, logical devices or None.

    Raises
    ------
    LayoutError
        If one is neither, or no device string.
    """
    if isinstance(devices, str) or not isinstance(devices, Iterable):
        raise LayoutError(f"the devices of the mesh are {devices!r}", _DEVICES)
    return [_device_string(device) for device in devices]


def size_lists(sizes: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield (dimension name, extents along its mesh axis), one for each list of extents.

    Parameters
    ----------
    sizes : dimension, by its name or as `mtf.Dimension`, -> extents, or several lists of extents; as a mapping or pairs.

    Raises
    ------
    LayoutError
        If it has another form, or the extents of an `mtf.Dimension` do not sum to its size.
    """
    for dimension, values in _pairs(sizes, "the sizes", _SIZES):
        name = _name(dimension, "a dimension of the sizes", _SIZES)
        for extents in _extents(name, values):
            if isinstance(dimension, mtf.Dimension) and sum(extents) != dimension.size:
                fault = f"dimension {name} has {dimension.size} units, its sizes {list(extents)} sum to {sum(extents)}"
                raise LayoutError(fault, "make them agree")
            yield name, extents


def _pairs(value: Any, what: str, remedy: str) -> list[tuple[Any, Any]]:
    """Return the pairs of a text, a mapping or an iterable, which may be a generator."""
    if isinstance(value, str):
        # The separators of Mesh-TensorFlow's own texts.
        listed: list[Any] = [part.split(":") for part in re.split(r"[\s,.;]+", value) if part]
    elif isinstance(value, Mapping):
        listed = list(value.items())
    elif isinstance(value, Iterable):
        listed = list(value)
    else:
        raise LayoutError(f"{what} is {value!r}", remedy)
    if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in listed):
        raise LayoutError(f"{what} is {value!r}, which are no pairs", remedy)
    return [(first, second) for first, second in listed]


def _name(value: Any, what: str, remedy: str) -> str:
    name = value.name if isinstance(value, mtf.Dimension) else value
    if not isinstance(name, str) or not name:
        raise LayoutError(f"{what} has the name {name!r}", remedy)
    return name


def _count(value: Any, name: str) -> int:
    """Return the processors of a mesh axis, as an int for Mesh-TensorFlow, which takes no other."""
    try:
        count = int(value) if isinstance(value, str) else operator.index(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise LayoutError(f"the mesh axis {name} has {value!r} processors, which is no number of 1 or more", _SHAPE)
    return count


def _extents(name: str, values: Any) -> list[tuple[int, ...]]:
    """Return one list of extents, or several, as tuples of int."""
    try:
        listed = list(values)
        several = any(hasattr(extents, "__len__") for extents in listed)
        return [tuple(operator.index(n) for n in extents) for extents in (listed if several else [listed])]
    except TypeError:
        raise LayoutError(f"dimension {name} has the sizes {values!r}, which is no list of integers", _SIZES) from None


def _device_string(device: Any) -> str:
    text = "" if device is None else device
    if isinstance(device, tf.DeviceSpec):
        text = device.to_string()
    if isinstance(device, tf.config.LogicalDevice):
        text = device.name
    try:
        tf.DeviceSpec.from_string(text)
    except (AttributeError, ValueError):
        raise LayoutError(f"{device!r} is no device of a processor", _DEVICES) from None
    return str(text)
