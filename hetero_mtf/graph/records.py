"""LayerGraph: a network as layers with shapes, variables and costs, free of any framework."""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from hetero_mtf.errors import HeteroError
from hetero_mtf.graph.description import description_faults
from hetero_mtf.units import list_text

ITEM_BYTES = {
    **{name: 1 for name in ("bool", "int8", "uint8")},
    **{name: 2 for name in ("int16", "uint16", "bfloat16", "float16")},
    **{name: 4 for name in ("int32", "uint32", "float32")},
    **{name: 8 for name in ("int64", "uint64", "float64")},
}
"""Bytes of one element, by dtype."""

FAULTS_UP_TO = 200  # named; of more, how many


@dataclasses.dataclass(frozen=True)
class Variable:
    """One weight of a layer, as Keras stores it.

    Parameters
    ----------
    name : the variable's own name, such as "kernel".
    shape : (rank,) full shape.
    trainable : whether the optimizer updates it.
    """

    name: str
    shape: tuple[int, ...]
    trainable: bool

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer of a network; its place in `LayerGraph.layers` is its index.

    Parameters
    ----------
    name : the user's name for it; for people, not part of the structure.
    kind : Keras class name, such as "Conv2D"; "InputLayer" for the input.
    attributes : JSON-able options that decide what the layer computes.
    inputs : indices of the layers it reads, all smaller than its own index.
    output_shape : shape of one sample of its output, channels last, batch left out.
    variables : its weights in Keras's order.
    flops : floating-point operations of the forward pass of one sample.
    shared_with : index of the earlier layer whose variables this one uses, where one Keras layer is called more than once.
    compute_dtype, variable_dtype : dtypes that it computes in and keeps its variables in, by its dtype policy; None for the network's.
    live : the call of the Keras operation itself (`keras_reading.live_call.LiveCall`), of a layer read from a model in memory; part of no
        document, digest or comparison.
    """

    name: str
    kind: str
    attributes: Mapping[str, Any]
    inputs: tuple[int, ...]
    output_shape: tuple[int, ...]
    variables: tuple[Variable, ...] = ()
    flops: float = 0.0
    shared_with: int | None = None
    compute_dtype: str | None = None
    variable_dtype: str | None = None
    live: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def units(self) -> int:
        """Number of output channels: the extent of the last dimension."""
        return self.output_shape[-1]

    def dtype(self, network: str) -> str:
        """Return the dtype of its output: that of its options or its policy, else the network's.

        Parameters
        ----------
        network : dtype of the network.
        """
        # `OPTION` of layers.fallback by its text: graph lies below layers and imports nothing of it
        option = self.attributes.get("keras", self.attributes)
        own = option.get("dtype") if self.kind == "InputLayer" or option is not self.attributes else self.compute_dtype
        return str(own or network)

    def output_item_bytes(self, network: str) -> int:
        """Return the bytes of one element of its output; parameters as for `dtype`."""
        return ITEM_BYTES[self.dtype(network)]

    def variable_item_bytes(self, network: str) -> int:
        """Return the bytes of one element of its variables, and of their slots; parameters as for `dtype`."""
        return ITEM_BYTES[self.variable_dtype or network]

    def structure(self) -> dict[str, Any]:
        """Return what decides this layer's arithmetic: everything but its name, and but estimates that TensorFlow's version decides."""
        document = self.to_json()
        document.pop("name")
        attributes = document["attributes"]
        if isinstance(attributes.get("keras"), Mapping):
            estimated = {key: value for key, value in attributes["keras"].items() if key != "kept"}
            document["attributes"] = {**attributes, "keras": estimated}
        return document

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document, without the Keras operation."""
        document = dataclasses.asdict(dataclasses.replace(self, live=None))
        document.pop("live")
        for name in ("compute_dtype", "variable_dtype"):
            if document[name] is None:
                document.pop(name)
        return document


@dataclasses.dataclass(frozen=True)
class LayerGraph:
    """A network: layers in topological order, every input a layer of its own.

    Parameters
    ----------
    layers : the layers, each reading only earlier ones; those that read none are the inputs, in the model's order.
    dtype : "float32" or "float64", of losses, and of variables and activations where a layer's policy says nothing else.
    outputs : (outputs,) indices of the layers whose values the model returns, in its order; empty for the last layer.

    Raises
    ------
    HeteroError
        If a layer reads one that is not before it, shares the variables of one that is not the first call with these variables, or an
        output is no layer.
    """

    layers: tuple[Layer, ...]
    dtype: str
    outputs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.outputs:
            object.__setattr__(self, "outputs", (len(self.layers) - 1,))
        for index, layer in enumerate(self.layers):
            if any(not 0 <= source < index for source in layer.inputs):
                raise HeteroError(f"layer {layer.name} reads layers {layer.inputs}, which do not all come before it", "sort the layers")
            if layer.shared_with is not None and not self._owns(layer.shared_with, index):
                wrong = f"layer {layer.name} is shared with layer {layer.shared_with}"
                raise HeteroError(f"{wrong}, which is no earlier first call with the same variables", "name the first call")
        if any(not 0 <= index < len(self.layers) for index in self.outputs):
            raise HeteroError(f"the outputs are layers {self.outputs} of {len(self.layers)}", "give indices of layers")

    def _owns(self, owner: int, index: int) -> bool:
        """Return whether layer `owner` may hold the variables of layer `index`."""
        if not 0 <= owner < index:
            return False
        first = self.layers[owner]
        return first.shared_with is None and first.kind == self.layers[index].kind and first.variables == self.layers[index].variables

    @property
    def item_bytes(self) -> int:
        """Bytes of one element of the network's dtype."""
        return ITEM_BYTES[self.dtype]

    @property
    def has_one_variable_dtype(self) -> bool:
        """Whether all variables have the network's dtype."""
        return all(layer.variable_dtype in (None, self.dtype) for layer in self.layers if layer.variables)

    @property
    def dtype_text(self) -> str:
        """The dtype for people, with those that layers compute in: "float32" or "float32, bfloat16 in 12 of 14 layers"."""
        inner = [layer for layer in self.layers if layer.inputs]
        computed = collections.Counter(layer.compute_dtype for layer in inner if layer.compute_dtype not in (None, self.dtype))
        return ", ".join([self.dtype, *(f"{name} in {count} of {len(inner)} layers" for name, count in sorted(computed.items()))])

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that name the structure; layer names and weights do not enter."""
        structure = [layer.structure() for layer in self.layers]
        text = json.dumps([structure, self.dtype, self.outputs], sort_keys=True, default=list)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def inputs(self) -> tuple[int, ...]:
        """Indices of the input layers, in the model's order."""
        return tuple(index for index, layer in enumerate(self.layers) if not layer.inputs)

    def owner(self, index: int) -> int:
        """Return the index of the layer that holds the variables of a layer: its own, or that of the one it is shared with.

        Parameters
        ----------
        index : index of the layer.
        """
        shared = self.layers[index].shared_with
        return index if shared is None else shared

    @functools.cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of the layers that read it, in order, each once."""
        readers: list[list[int]] = [[] for _ in self.layers]
        for index, layer in enumerate(self.layers):
            for source in dict.fromkeys(layer.inputs):
                readers[source].append(index)
        return tuple(map(tuple, readers))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document."""
        layers = [layer.to_json() for layer in self.layers]
        return {"dtype": self.dtype, "digest": self.digest, "outputs": list(self.outputs), "layers": layers}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LayerGraph:
        """Return the graph in a document made by `to_json`.

        Raises
        ------
        HeteroError
            If an entry is missing or of the wrong form, all of them named with their paths, or the digest does not fit.
        """
        faults = description_faults(document)
        if faults:
            raise HeteroError(f"the network description is damaged: {list_text(faults, FAULTS_UP_TO)}", "calibrate again")
        graph = cls(tuple(_layer(entry) for entry in document["layers"]), document["dtype"], tuple(document["outputs"]))
        digest = document["digest"]
        if digest != graph.digest:
            raise HeteroError(f"the network description has digest {graph.digest} and its file {digest}", "calibrate again")
        return graph


def _layer(entry: Mapping[str, Any]) -> Layer:
    variables = tuple(Variable(v["name"], tuple(int(n) for n in v["shape"]), bool(v["trainable"])) for v in entry["variables"])
    return Layer(
        name=str(entry["name"]),
        kind=str(entry["kind"]),
        attributes=dict(entry["attributes"]),
        inputs=tuple(int(i) for i in entry["inputs"]),
        output_shape=tuple(int(n) for n in entry["output_shape"]),
        variables=variables,
        flops=float(entry["flops"]),
        shared_with=None if entry["shared_with"] is None else int(entry["shared_with"]),
        compute_dtype=entry.get("compute_dtype"),
        variable_dtype=entry.get("variable_dtype"),
    )
