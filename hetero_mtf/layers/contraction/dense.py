"""Dense layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedOptionError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.contraction.kernel import MixingKind
from hetero_mtf.layers.kind import Shape


class Dense(MixingKind):
    """`keras.layers.Dense` over the last dimension; kernel (inputs, units)."""

    keras_class = "Dense"
    pointwise = True
    units_option = "units"
    kept = ("units", *MixingKind.kept)
    fixed = {**MixingKind.fixed, "lora_rank": (None,), "lora_alpha": (None,)}

    def kernel_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (inputs[0][-1], attributes["units"])

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*inputs[0][:-1], attributes["units"])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return self.finish(b, layer, b.multiply_matrix(inputs[0], "kernel"))


class EinsumDense(Dense):
    """`keras.layers.EinsumDense` where its equation is that of a Dense, such as "abc,cd->abd" or "...c,cd->...d"."""

    keras_class = "EinsumDense"
    free = frozenset({*Dense.free, "equation", "output_shape", "bias_axes", "gptq_unpacked_column_size"})

    def attributes(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        terms = re.fullmatch(r"(\w+|\.\.\.)(\w),\2(\w)->\1\3", str(config["equation"]).replace(" ", ""))
        if terms is None or config["bias_axes"] not in (None, terms[3]):
            raise UnsupportedOptionError(f"layer {name} (EinsumDense) has the equation {config['equation']}", "use Dense", "equation")
        shape = config["output_shape"]
        units = shape[-1] if isinstance(shape, (list, tuple)) else shape
        return super().attributes(name, {**config, "units": units, "use_bias": config["bias_axes"] is not None})
