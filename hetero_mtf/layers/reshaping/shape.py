"""Layers that move values about: input, flatten, reshape, padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import CHANNELWISE, INTEGERS, REPLICATED, LayerKind, Shape, extent
from hetero_mtf.layers.reach import Reach


class InputLayer(LayerKind):
    """`keras.layers.InputLayer`; every dimension but the batch must be known. A single number has the shape (1,)."""

    keras_class = "InputLayer"
    backward = frozenset()
    kept = ("batch_shape",)
    free = frozenset({"sparse"})  # sparse samples are handed over as dense ones
    fixed = {"ragged": (False, None), "optional": (False, None)}

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        shape = list(super().attributes(name, config)["batch_shape"])
        if None in shape[1:]:
            raise UnsupportedError(f"input {name} has the shape {tuple(shape[1:])}", "every dimension but the batch must be a number")
        dtype = config.get("dtype")
        return {"shape": shape[1:] or [1], **({"dtype": dtype} if dtype in INTEGERS else {})}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return tuple(attributes["shape"])

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 0.0

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return (Reach(),) * (len(attributes["shape"]) - 1)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.batch()


class Flatten(LayerKind):
    """`keras.layers.Flatten`; a split input stays split, by the same sizes of its channels."""

    keras_class = "Flatten"
    backward = frozenset({"view"})
    fixed = {"data_format": ("channels_last",)}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (extent(inputs[0]),)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 0.0

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.flatten(inputs[0])


class ZeroPadding2D(LayerKind):
    """`keras.layers.ZeroPadding2D`."""

    keras_class = "ZeroPadding2D"
    backward = frozenset()
    kept = ("padding",)
    fixed = {"data_format": ("channels_last",)}

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"padding": _sides(super().attributes(name, config)["padding"])}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        space = (n + sum(sides) for n, sides in zip(inputs[0][:-1], attributes["padding"]))
        return (*space, inputs[0][-1])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return tuple(Reach(before=before) for before, _ in attributes["padding"])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.pad_space(inputs[0], layer.attributes["padding"])


class ZeroPadding3D(ZeroPadding2D):
    """`keras.layers.ZeroPadding3D`."""

    keras_class = "ZeroPadding3D"


class ZeroPadding1D(ZeroPadding2D):
    """`keras.layers.ZeroPadding1D`."""

    keras_class = "ZeroPadding1D"


class Cropping2D(LayerKind):
    """`keras.layers.Cropping2D`."""

    keras_class = "Cropping2D"
    backward = frozenset()
    kept = ("cropping",)
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {"data_format": ("channels_last",)}

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"cropping": _sides(super().attributes(name, config)["cropping"])}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        space = (n - sum(sides) for n, sides in zip(inputs[0][:-1], attributes["cropping"]))
        return (*space, inputs[0][-1])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return tuple(Reach(before=-before) for before, _ in attributes["cropping"])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.crop_space(inputs[0], layer.attributes["cropping"])


class Cropping1D(Cropping2D):
    """`keras.layers.Cropping1D`."""

    keras_class = "Cropping1D"
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {}


class Cropping3D(Cropping2D):
    """`keras.layers.Cropping3D`."""

    keras_class = "Cropping3D"


class UpSampling2D(LayerKind):
    """`keras.layers.UpSampling2D` by repetition or bilinear interpolation."""

    keras_class = "UpSampling2D"
    backward = frozenset()
    kept: ClassVar[tuple[str, ...]] = ("size", "interpolation")
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {"data_format": ("channels_last",), "interpolation": ("nearest", "bilinear")}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*(n * times for n, times in zip(inputs[0], attributes["size"])), inputs[0][-1])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        if attributes.get("interpolation", "nearest") != "nearest":
            return ()
        return tuple(Reach(times, times, transposed=True) for times in attributes["size"])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.enlarge_space(inputs[0], **layer.attributes)


class UpSampling3D(UpSampling2D):
    """`keras.layers.UpSampling3D`, by repetition."""

    keras_class = "UpSampling3D"
    kept = ("size",)
    fixed = {"data_format": ("channels_last",)}


class UpSampling1D(UpSampling2D):
    """`keras.layers.UpSampling1D`, by repetition."""

    keras_class = "UpSampling1D"
    kept = ("size",)
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"size": [super().attributes(name, config)["size"]]}


class Reshape(LayerKind):
    """`keras.layers.Reshape`; where the last dimension stays as it is, it may be split."""

    keras_class = "Reshape"
    backward = frozenset({"view"})
    kept = ("target_shape",)
    needs_flat = True

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        if attributes.get("keeps_channels"):  # it may now be a part of a layer, of fewer channels
            return {**attributes, "target_shape": [*attributes["target_shape"][:-1], inputs[0][-1]]}
        shape = self.output_shape(attributes, inputs)
        return {**attributes, "target_shape": list(shape), "keeps_channels": shape[-1] == inputs[0][-1]}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        target = tuple(attributes["target_shape"])
        rest = extent(tuple(n for n in target if n != -1))
        shape = tuple(extent(inputs[0]) // rest if n == -1 else n for n in target)
        if not shape or extent(shape) != extent(inputs[0]):
            raise UnsupportedError(
                f"a Reshape has target_shape={target} for the shape {inputs[0]}", f"give one of {extent(inputs[0])} elements"
            )
        return shape

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 0.0

    def layouts(self, layer: Layer) -> frozenset[str]:
        return CHANNELWISE if layer.attributes["keeps_channels"] else REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.reshape(inputs[0])


class Permute(LayerKind):
    """`keras.layers.Permute`; where the last dimension stays the last, it may be split."""

    keras_class = "Permute"
    backward = frozenset()
    kept = ("dims",)
    needs_flat = True

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return tuple(inputs[0][dim - 1] for dim in attributes["dims"])

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 0.0

    def layouts(self, layer: Layer) -> frozenset[str]:
        dims = layer.attributes["dims"]
        return CHANNELWISE if dims[-1] == len(dims) else REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.permute(inputs[0], layer.attributes["dims"])


def _sides(value: Sequence[Any]) -> list[list[int]]:
    """Return what is added or left out before and after each spatial dimension; of one dimension, Keras says the two numbers alone.

    >>> _sides((1, 2)), _sides(((1, 2), (3, 4)))
    ([[1, 2]], [[1, 2], [3, 4]])
    """
    return [[int(n) for n in value]] if isinstance(value[0], int) else [list(sides) for sides in value]
