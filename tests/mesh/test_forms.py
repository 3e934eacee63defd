"""The forms in which Mesh-TensorFlow takes a mesh shape, layout rules and devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh import UnevenMeshImpl
from hetero_mtf.mesh.compat import mtf, placement

CPU = "/device:CPU:0"
SHAPES: dict[str, Any] = {
    "pairs": [("p", 2), ("q", 3)],
    "dimensions": (mtf.Dimension("p", 2), mtf.Dimension("q", 3)),
    "text": "p:2,q:3",
    "text with spaces": "p:2 q:3",
    "mtf.Shape": mtf.Shape([mtf.Dimension("p", 2), mtf.Dimension("q", 3)]),
}
LAYOUTS: dict[str, Any] = {
    "pairs": [("c", "q"), ("d", "q")],
    "set": {("c", "q"), ("d", "q")},
    "text": "c:q;d:q",
    "mtf.LayoutRules": mtf.LayoutRules([("c", "q"), ("d", "q")]),
    "nothing in a list": [],
    "nothing in a text": "",
}


def _uneven(shape: Any = "p:2", layout: Any = "c:p", devices: Any = (CPU, CPU), sizes: Any = None) -> UnevenMeshImpl:
    return UnevenMeshImpl(shape, layout, devices, sizes)


def _same_as_stock(shape: Any, layout: Any) -> bool:
    stock, own = placement.PlacementMeshImpl(shape, layout, [CPU] * 6), _uneven(shape, layout, [CPU] * 6)
    axes = [[impl.tensor_dimension_to_mesh_axis(mtf.Dimension(name, 6)) for name in "abcd"] for impl in (stock, own)]
    return bool(own.shape == stock.shape) and axes[0] == axes[1]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_mesh_shape_is_taken_in_the_forms_of_mesh_tensorflow(shape: Any) -> None:
    assert _same_as_stock(shape, [("c", "q")])


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_layout_is_taken_in_the_forms_of_mesh_tensorflow(layout: Any) -> None:
    assert _same_as_stock([("p", 2), ("q", 3)], layout)


@pytest.mark.parametrize(
    "shape", [{"p": 2}, [["p", 2]], iter([("p", 2)]), [("p", np.int64(2))]], ids=["mapping", "lists", "iterator", "NumPy's integer"]
)
def test_a_mesh_shape_is_taken_in_the_forms_of_python_too(shape: Any) -> None:
    assert _uneven(shape).shape == mtf.Shape([mtf.Dimension("p", 2)])


@pytest.mark.parametrize(
    "layout",
    [{mtf.Dimension("c", 4): "p"}, [(mtf.Dimension("c", 4), mtf.Dimension("p", 2))], [["c", "p"]], [("c", "p")] * 2, iter([("c", "p")])],
    ids=["mapping", "dimensions", "lists", "twice", "iterator"],
)
def test_a_layout_names_its_dimensions_by_texts_or_as_dimensions(layout: Any) -> None:
    impl = _uneven(layout=layout)
    assert impl.axis_of("c") == 0 and impl.layout_rules.tensor_dimension_to_mesh_axis(mtf.Dimension("c", 4), impl.shape) == 0


def test_sizes_may_be_given_by_dimension_one_list_for_each_extent() -> None:
    c4, c2 = mtf.Dimension("c", 4), mtf.Dimension("c", 2)
    impl = _uneven(sizes={c4: [3, 1], c2: np.array([0, 2])})
    assert impl.sizes_of(c4) == (3, 1) and impl.sizes_of(c2) == (0, 2)
    assert _uneven(sizes=[("c", (n for n in (3, 1)))]).sizes_of(c4) == (3, 1)


@pytest.mark.parametrize(
    "device, text",
    [(tf.DeviceSpec(device_type="CPU", device_index=0), CPU), (tf.config.LogicalDevice(CPU, "CPU"), CPU), (None, ""), ("cpu:0", "cpu:0")],
    ids=["DeviceSpec", "LogicalDevice", "None", "text"],
)
def test_devices_are_strings_however_they_are_given(device: Any, text: str) -> None:
    assert _uneven(devices=[device] * 2).devices == [text] * 2 == _uneven(devices=iter([device] * 2)).devices


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a shape of no pairs": (lambda: _uneven("p"), 'the shape of the mesh is .p., .*; write it as "devices:3"'),
    "no shape": (lambda: _uneven(None), "the shape of the mesh is None; write it as"),
    "one dimension as a shape": (lambda: _uneven(mtf.Dimension("p", 2)), "the shape of the mesh is Dimension.*; write it as"),
    "an axis of no number": (lambda: _uneven("p:two"), "the mesh axis p has 'two' processors.*; write it as"),
    "an axis of no processors": (lambda: _uneven([("p", 0)]), "the mesh axis p has 0 processors"),
    "an axis twice": (lambda: _uneven("p:2,p:1"), "the mesh axis p is listed more than once.*; give every axis its own name"),
    "an axis without a name": (lambda: _uneven([(1, 2)]), "a mesh axis has the name 1; write"),
    "no layout": (lambda: _uneven(layout=None), "the layout is None; write it as .* {} for none"),
    "a layout of three": (lambda: _uneven(layout="c:p:q"), "the layout is 'c:p:q'.*; write it as"),
    "a name as a layout": (lambda: _uneven(layout=["cp"]), "the layout is .*; write it as"),
    "a dimension on two axes": (
        lambda: _uneven("p:2,q:1", "c:p,c:q"), "the layout puts dimension c on the mesh axes p and q; choose one"
    ),
    "an unknown axis": (lambda: _uneven(layout="c:q"), "the layout names the mesh axes q, the mesh has p; name one of these"),
    "one text as devices": (lambda: _uneven(devices="cpu:0"), "the devices of the mesh are 'cpu:0'; write a list"),
    "a device that is none": (lambda: _uneven(devices=["worker:0"] * 2), "'worker:0' is no device of a processor; write a list"),
    "a function of devices": (lambda: _uneven(devices=[print] * 2), "is no device of a processor; write a list"),
    "a part of a unit": (lambda: _uneven(sizes={"c": [2.5, 1.5]}), r"dimension c has the sizes \[2.5, 1.5\].*; write them as"),
    "sizes of no list": (lambda: _uneven(sizes={"c": None}), "dimension c has the sizes None"),
    "sizes of another sum": (
        lambda: _uneven(sizes={mtf.Dimension("c", 5): [3, 1]}), r"dimension c has 5 units, its sizes \[3, 1\] sum to 4; make them agree"
    ),
}  # fmt: skip


@pytest.mark.parametrize("work, words", FAULTS.values(), ids=FAULTS)
def test_what_has_another_form_is_refused(work: Callable[[], Any], words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        work()
