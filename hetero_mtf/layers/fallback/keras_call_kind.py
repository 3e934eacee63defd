"""KerasCall: a layer or operation that is computed by Keras's own call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.layers.kind import CHANNELWISE, ITS_OWN, REPLICATED, LayerKind, Shape, extent
from hetero_mtf.units import list_text

_NAMED = 6  # layers named in a sentence
OPTION = "keras"  # the attribute that marks a layer as computed by Keras's own call


class KerasCall(LayerKind):
    """A layer that is taken as it is: Keras's own call on each processor's slices, its gradients TensorFlow's.

    Its attributes, under `OPTION`:

    digest : of the configuration and the arguments.
    split : what it may be split over: "elements" (as an activation), "samples", or "" for nothing.
    shape, dtype : of its output, batch left out; a scalar a sample has the shape (1,).
    batch : whether its output has a batch; without, every sample holds all of it.
    written : names of the variables that its call writes and no optimizer updates.
    rewritten : names of those that it writes and the optimizer updates, where there are any.
    losses : whether its call adds to the loss.
    flops : of the forward pass of one sample, estimated.
    kept : elements a sample that its backward pass keeps besides its inputs.
    """

    keras_class = "keras.Operation"
    precision = ITS_OWN
    draws = True  # for all that is known here
    needs_flat = True  # its own shapes are those of Keras
    merges = True

    def __init__(self, full_batch: bool = False) -> None:
        self.mixes_samples = full_batch  # type: ignore[misc]

    def of(self, attributes: Mapping[str, Any]) -> LayerKind:
        return SPLIT if attributes[OPTION]["split"] else UNSPLIT

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        shape = tuple(attributes[OPTION]["shape"])
        own = attributes[OPTION].get("channels")
        if attributes[OPTION]["split"] == "elements" and own and inputs[0][-1] != own:  # a part of the layer
            return (*shape[:-1], max(read[-1] for read in inputs))
        return shape

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        option, channels = attributes[OPTION], self.output_shape(attributes, inputs)[-1]
        split = option["split"] == "elements"
        return tuple(
            Variable(name, (*shape[:-1], channels) if split and shape and shape[-1] == option["channels"] else tuple(shape), trainable)
            for name, shape, trainable in option["variables"]
        )

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(attributes[OPTION]["flops"]) or float(extent(output))

    def layouts(self, layer: Layer) -> frozenset[str]:
        return CHANNELWISE if layer.attributes[OPTION]["split"] == "elements" and _alike(layer) else REPLICATED

    def needs(self, layer: Layer) -> frozenset[str]:
        return frozenset({"input", "inner"} if layer.attributes[OPTION].get("kept") else {"input"})

    def inner(self, layer: Layer) -> float:
        return float(layer.attributes[OPTION].get("kept", 0)) / extent(layer.output_shape)

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.call_keras(layer, inputs)


SPLIT, UNSPLIT = KerasCall(), KerasCall(full_batch=True)


def is_keras_call(layer: Layer) -> bool:
    """Return whether a layer is computed by Keras's own call."""
    return OPTION in layer.attributes


def layers_that_add_losses(graph: LayerGraph) -> list[str]:
    """Return the names of the layers whose call adds to the loss (`add_loss`).

    Parameters
    ----------
    graph : the network.
    """
    return [layer.name for layer in graph.layers if is_keras_call(layer) and layer.attributes[OPTION]["losses"]]


def _alike(layer: Layer) -> bool:
    return bool(layer.attributes[OPTION].get("alike", False))


def keras_calls_text(graph: LayerGraph) -> str:
    """Return a sentence that names the layers computed by Keras's own call and what each may be split over, "" for none.

    Parameters
    ----------
    graph : the network.
    """
    groups = {"elements": "as an activation", "samples": "on samples", "": "on the whole batch"}
    named = {
        words: [f"{layer.name} ({layer.kind.removeprefix('keras.layers.')})" for layer in graph.layers if _splits_over(layer) == over]
        for over, words in groups.items()
    }
    clauses = [f"{words} {list_text(layers, _NAMED)}" for words, layers in named.items() if layers]
    return f"Computed by Keras's own call: {'; '.join(clauses)}" if clauses else ""


def _splits_over(layer: Layer) -> str | None:
    return layer.attributes[OPTION]["split"] if is_keras_call(layer) else None
