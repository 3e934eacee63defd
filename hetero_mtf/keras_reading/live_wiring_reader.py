"""Reads the wiring of a Keras model in memory from its Keras nodes: masks and the parts of attention become nodes of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from hetero_mtf.graph.structure import leaves_of
from hetero_mtf.keras_reading.following import followed
from hetero_mtf.keras_reading.graph_of_calls import inner_function, traced
from hetero_mtf.keras_reading.keras_order import Call
from hetero_mtf.keras_reading.level import Place
from hetero_mtf.keras_reading.live_call import MASK_OUTPUT, LiveCall
from hetero_mtf.keras_reading.live_level import LiveLevel, is_special, live_level, takes_masks
from hetero_mtf.keras_reading.multi_head import attended, attention_options, output_options, projection_options
from hetero_mtf.keras_reading.operations import class_of, is_layer
from hetero_mtf.keras_reading.private_names import mask_of, output_structure, projections
from hetero_mtf.keras_reading.wiring import Node, Wiring
from hetero_mtf.keras_reading.wiring_reader import WiringReader, checked
from hetero_mtf.layers.contraction.heads import ATTENTION, OUTPUT, PROJECTION
from hetero_mtf.layers.elementwise.masked import MASKED


def read_wiring(model: keras.Model, all_faults: bool = False) -> Wiring:
    """Return the layers of a Keras model in memory, and how they are connected.

    Parameters
    ----------
    model : keras.Model, with the shapes of its inputs known.
    all_faults : whether to return what is not supported in how layers are called with the wiring, rather than raise.

    Raises
    ------
    UnsupportedError
        If it is no model, is not built, has steps of its own, or more than `CALLS_UP_TO` calls.
    """
    function = traced(model)
    again = followed(function)
    reader = LiveWiringReader(function if again is None else again, again is not None)
    return checked(reader, lambda: reader.wiring_of(reader.outermost), all_faults)


class LiveWiringReader(WiringReader[LiveLevel]):
    """Reads the wiring of a model in memory; layers are told apart by their objects.

    Parameters
    ----------
    function : the model's graph of calls.
    masks_pass : whether masks pass through nested models in it.
    """

    def __init__(self, function: Any, masks_pass: bool) -> None:
        super().__init__()
        self.outermost = live_level(function, ())
        self._symbols, self._masks_pass = leaves_of(output_structure(function)), masks_pass

    def _final(self, level: LiveLevel, outputs: list[int], values: dict[Place, int]) -> list[int]:
        return [self._masked(level, index, symbol, values) for index, symbol in zip(outputs, self._symbols)]

    def _masked(self, level: LiveLevel, index: int, symbol: Any, values: dict[Place, int]) -> int:
        """Return the node of an output of the outermost model; where it carries a mask, a further one that reads both."""
        name, mask = self.nodes[index].name, self._mask(level, symbol, values)
        return index if mask is None else self._add_part(f"{name}[masked]", MASKED, {"dtype": str(symbol.dtype)}, [index, mask], None)

    def _inner(self, level: LiveLevel, name: str) -> LiveLevel:
        return live_level(inner_function(level.live[name]), (*level.path, name))

    def _call(self, level: LiveLevel, call: Call, values: dict[Place, int]) -> list[int]:
        keras_node = level.nodes[call]
        heads = attended(keras_node)
        if heads is not None:
            return [self._add_heads(level, call[0], keras_node, [self._read(level, tensor, values) for tensor in heads])]
        self._check_masks(level, call[0], keras_node)
        return super()._call(level, call, values)

    def _check_masks(self, level: LiveLevel, name: str, keras_node: Any) -> None:
        """Add a fault if a nested model takes or hands on a mask, of which Keras knows only as it computes."""
        function = inner_function(level.live[name])
        if self._masks_pass or function is None:
            return
        if any(mask_of(symbol) is not None for symbol in [*leaves_of(output_structure(function)), *keras_node.arguments.keras_tensors]):
            shown = "/".join([*level.path, name])
            wrong = f"masks cannot be followed through the nested model {shown}, as its layers cannot be called with other symbolic tensors"
            self.faults.append((shown, f"{wrong}; call its layers in the outer model, or drop the mask by an operator, such as x * 1.0"))

    def _add_input(self, level: LiveLevel, name: str) -> int:
        return self._add(level, (name, 0), (), {})

    def _add_call(self, level: LiveLevel, call: Call, inputs: Sequence[int], values: dict[Place, int]) -> int:
        return self._add(level, call, inputs, values)

    def _add(self, level: LiveLevel, call: Call, inputs: Sequence[int], values: dict[Place, int], output: int = 0) -> int:
        """Add one output of one call of a layer and return its index."""
        self._check_count()
        name, keras_node = call[0], level.nodes[call]
        masks = self._masks(level, keras_node, values, output)
        live, index = level.live[name], len(self.nodes)
        first = self._firsts.setdefault(id(live), index)
        shown = self._unused_name("/".join([*level.path, name]) + {0: "", MASK_OUTPUT: "[mask]"}.get(output, f"[{output}]"))
        own = [mask for mask in masks if mask is not None]
        order = iter(range(len(own)))
        masked = tuple(None if mask is None else next(order) for mask in masks)
        symbol = mask_of(keras_node.outputs[0]) if output == MASK_OUTPUT else keras_node.outputs[output]
        live_call = LiveCall(live, keras_node, output, masked, level.batches, symbol)
        special = output != 0 or bool(own) or is_special(keras_node) or len(keras_node.outputs) > 1
        config = level.entries[name]["config"]
        self.nodes.append(Node(shown, class_of(live), config, (*inputs, *own), live, first, live_call, special, is_layer(live)))
        return index

    def _read(self, level: LiveLevel, symbol: Any, values: dict[Place, int]) -> int:
        return self._value(level.place(symbol), values, level)

    def _add_heads(self, level: LiveLevel, name: str, keras_node: Any, sources: Sequence[int]) -> int:
        """Add the parts of a call of multi-head attention, which reads query, key and value, and return the index of its output."""
        layer, path = keras_node.operation, "/".join([*level.path, name])
        *parts, last = projections(layer)
        read = [
            self._add_part(f"{path}/{part.name}", PROJECTION, projection_options(part, layer), [source], part)
            for part, source in zip(parts, sources)
        ]
        attention = self._add_part(f"{path}/attention", ATTENTION, attention_options(keras_node), read, None)
        return self._add_part(f"{path}/{last.name}", OUTPUT, output_options(layer), [attention], last)

    def _add_part(self, name: str, kind: str, options: Mapping[str, Any], inputs: Sequence[int], live: Any) -> int:
        self._check_count()
        index = len(self.nodes)
        first = index if live is None else self._firsts.setdefault(id(live), index)
        self.nodes.append(Node(self._unused_name(name), kind, options, tuple(inputs), live, first))
        return index

    def _masks(self, level: LiveLevel, keras_node: Any, values: dict[Place, int], output: int) -> tuple[int | None, ...]:
        """Return the node of the mask of each tensor that a call reads, None where it has none or does not look at it.

        Keras makes most masks arguments of the call, which are tensors like others.
        """
        arguments = keras_node.arguments
        if output != MASK_OUTPUT and not takes_masks(keras_node):
            return (None,) * len(arguments.keras_tensors)
        return tuple(self._mask(level, symbol, values) for symbol in arguments.keras_tensors)

    def _mask(self, level: LiveLevel, symbol: Any, values: dict[Place, int]) -> int | None:
        """Return the node of a tensor's mask: that of its layer's input where the layer hands it on, or one of its own."""
        place = level.place(symbol)
        if mask_of(symbol) is None:
            return None
        if level.nodes[place.key].is_input or level.opens(place.key):  # of a nested model, which takes and gives masks as tensors
            return self._value(level.place(mask_of(symbol)), values, level)
        mask_place = dataclasses.replace(place, output=MASK_OUTPUT)
        if mask_place in values:
            return values[mask_place]
        keras_node = level.nodes[place.key]
        sources = keras_node.arguments.keras_tensors
        hands_on = type(keras_node.operation).compute_mask is keras.layers.Layer.compute_mask and len(sources) == 1
        index = self._mask(level, sources[0], values) if hands_on else None
        if index is None:
            inputs = [self._value(level.place(source), values, level) for source in sources]
            index = self._add(level, place.key, inputs, values, MASK_OUTPUT)
        values[mask_place] = index
        return index

    def _value(self, place: Place, values: dict[Place, int], level: LiveLevel) -> int:
        if place in values or level.opens(place.key):
            return super()._value(place, values, level)
        inputs = [self._value(source, values, level) for source in leaves_of(level.calls[place.key])]
        index = values[place] = self._add(level, place.key, inputs, values, place.output)
        return index
