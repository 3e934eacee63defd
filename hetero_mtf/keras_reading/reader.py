"""Reads the wiring of a Keras model: which layers there are, their options, and which layer reads which.

A model in memory is read from its Keras nodes, the structure in a file from its configuration. Nothing here imports Keras;
`hetero_mtf.layers` interprets the layers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError, refuse
from hetero_mtf.graph.structure import Structure, leaves_of, map_leaves
from hetero_mtf.keras_reading.call_order import Call, call_order
from hetero_mtf.keras_reading.following import followed
from hetero_mtf.keras_reading.heads import (
    attended,
    attention_options,
    output_options,
    projection_options,
    projections,
)
from hetero_mtf.keras_reading.level import Level, Place, kind_in, stored_level
from hetero_mtf.keras_reading.live import MASK_OUTPUT, LiveCall, class_of, keras_module
from hetero_mtf.keras_reading.live_level import inner_function, is_special, live_level, mask_of, takes_masks, traced
from hetero_mtf.layers.contraction.heads import ATTENTION, OUTPUT, PROJECTION
from hetero_mtf.layers.elementwise.masked import MASKED

CALLS_UP_TO = 20_000  # nested models that are called many times each multiply


@dataclasses.dataclass(frozen=True)
class Node:
    """One call of a layer of a Keras model, not yet interpreted.

    Parameters
    ----------
    name : the layer's name, behind those of the models it is nested in; a later call of a layer has its number behind a colon.
    kind : Keras class name; a class outside `keras.layers` has its registered name, or its module as a prefix.
    config : the layer's own options, as `get_config` gives them.
    inputs : indices of the nodes it reads; those of masks come last.
    live : the Keras layer itself; None where the model does not give it.
    first : index of the node that is the first call of the same layer; its own where it is that.
    call : the call of the Keras layer; None where the model does not give it.
    special : whether it is called with more than tensors as positional arguments.
    """

    name: str
    kind: str
    config: Mapping[str, Any]
    inputs: tuple[int, ...]
    live: Any = None
    first: int = 0
    call: LiveCall | None = None
    special: bool = False


@dataclasses.dataclass(frozen=True)
class Wiring:
    """The calls of a model's layers, nested models opened up.

    Parameters
    ----------
    nodes : the inputs in the model's order, then the calls in the order in which Keras runs them.
    outputs : (outputs,) indices of the nodes that the model returns, in the flat order of `output_structure`.
    nested_inputs : the inputs of nested models, which are no nodes; each reads the node that it stands for.
    input_structure, output_structure : how the model packs its inputs and outputs.
    faults : what is not supported in how layers are called: the layer's name, and a sentence.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    nested_inputs: tuple[Node, ...]
    input_structure: Structure
    output_structure: Structure
    faults: tuple[tuple[str, str], ...] = ()


def read_wiring(model: Any, all_faults: bool = False) -> Wiring:
    """Return the layers of a Keras functional or sequential model, and how they are connected.

    Parameters
    ----------
    model : keras.Model, with the shapes of its inputs known.
    all_faults : whether to return what is not supported in how layers are called with the wiring, rather than raise.

    Raises
    ------
    UnsupportedError
        If it is no model, is not built, or has steps of its own.
    """
    function = traced(model)
    again = followed(function)
    return _checked(lambda reading: reading.live_wiring(function if again is None else again, again is not None), all_faults)


def read_configuration(config: Mapping[str, Any], all_faults: bool = False) -> Wiring:
    """Return the wiring in the configuration of a Keras functional or sequential model, which need not have been built.

    Parameters
    ----------
    config : what `model.get_config()` gives, or a file holds in its place.
    all_faults : as for `read_wiring`.

    Raises
    ------
    UnsupportedError
        As `read_wiring`, or if there are more than `CALLS_UP_TO` calls.
    """
    return _checked(lambda reading: reading.wiring(config), all_faults)


def _checked(read: Callable[[_Reading], Wiring], all_faults: bool) -> Wiring:
    """Return what is read, or raise all faults at once."""
    reading = _Reading()
    try:
        wiring = read(reading)
    except UnsupportedError:
        refuse([text for _, text in reading.faults])  # what cannot be followed further may come of these
        raise
    if not all_faults:
        refuse([text for _, text in wiring.faults])
    return wiring


class _Reading:
    """Collects nodes, level by level."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.nested_inputs: list[Node] = []
        self.faults: list[tuple[str, str]] = []
        self._firsts: dict[Any, int] = {}
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        self._masks_pass = False

    def wiring(self, config: Mapping[str, Any]) -> Wiring:
        """Return the wiring of the outermost model."""
        return self._of_level(stored_level(config, (), self.faults))

    def live_wiring(self, function: Any, masks_pass: bool) -> Wiring:
        """Return the wiring of the outermost model in memory; say whether masks pass through nested models in it."""
        self._masks_pass = masks_pass
        return self._of_level(live_level(function, ()), leaves_of(function._outputs_struct))

    def _of_level(self, level: Level, symbols: Sequence[Any] = ()) -> Wiring:
        given = {place.key: self._add(level, place.layer, ()) for place in leaves_of(level.inputs)}
        outputs = self._through(level, given, symbols)
        structures = _structure(level.inputs), _structure(level.outputs)
        return Wiring(tuple(self.nodes), tuple(outputs), tuple(self.nested_inputs), *structures, tuple(self.faults))

    def _through(self, level: Level, given: Mapping[Call, int], symbols: Sequence[Any] = ()) -> list[int]:
        """Add the calls of a level and return the nodes of its outputs, in the flat order.

        Parameters
        ----------
        level : the level.
        given : node of each of its inputs.
        symbols : (outputs,) the symbolic outputs of the outermost model in memory, which may carry masks.
        """
        values: dict[Place, int] = {Place(*call, 0): index for call, index in given.items()}
        reads = {call: [place.key for place in leaves_of(arguments)] for call, arguments in level.calls.items()}
        reads.update({call: [] for call in given})
        outputs = leaves_of(level.outputs)
        _check_connected(level, given, reads, outputs)
        for name, number in call_order(reads, [place.key for place in outputs]):
            if (name, number) in given:
                continue
            arguments = level.calls[name, number]
            keras_node = level.nodes.get((name, number))
            heads = None if keras_node is None else attended(keras_node)
            if heads is not None:
                node_indices = [self._add_heads(level, name, keras_node, [self._read(level, tensor, values) for tensor in heads])]
            elif level.opens((name, number)):
                self._check_masks(level, name, keras_node)
                node_indices = self._nested(level, (name, number), map_leaves(arguments, lambda place: self._value(place, values, level)))
            else:
                self._check_masks(level, name, keras_node)
                node_indices = [self._add(level, name, [self._value(p, values, level) for p in leaves_of(arguments)], number, values)]
            values.update({Place(name, number, at): index for at, index in enumerate(node_indices)})
        indices = [self._value(place, values, level) for place in outputs]
        return [self._masked(level, *each, values) for each in zip(indices, symbols)] if symbols else indices

    def _masked(self, level: Level, index: int, symbol: Any, values: Mapping[Place, int]) -> int:
        """Return the node of an output of the outermost model; where it carries a mask, a further one that reads both."""
        name, mask = self.nodes[index].name, self._mask(level, symbol, values)
        return index if mask is None else self._add_part(f"{name}[masked]", MASKED, {"dtype": str(symbol.dtype)}, [index, mask], None)

    def _check_masks(self, level: Level, name: str, keras_node: Any) -> None:
        """Add a fault if a nested model in memory takes or hands on a mask, of which Keras knows only as it computes."""
        function = inner_function(level.live.get(name))
        if self._masks_pass or function is None:
            return
        if any(mask_of(symbol) is not None for symbol in [*leaves_of(function._outputs_struct), *keras_node.arguments.keras_tensors]):
            shown = "/".join([*level.path, name])
            wrong = f"masks cannot be followed through the nested model {shown}, as its layers cannot be called with other symbolic tensors"
            self.faults.append((shown, f"{wrong}; call its layers in the outer model, or drop the mask by an operator, such as x * 1.0"))

    def _nested(self, level: Level, call: Call, arguments: Any) -> list[int]:
        """Add the calls of a nested model that is called with nodes and return those of its outputs."""
        inner = self._inner(level, call)
        what, structure = f"what the nested model {'/'.join(inner.path)} is called with", _structure(inner.inputs)
        alone = structure.count == 1 and len(leaves_of(arguments)) == 1
        given = leaves_of(arguments) if alone else structure.flatten(arguments, what, UnsupportedError, spare=True)
        places = leaves_of(inner.inputs)
        self._check_count()
        for place, source in zip(places, given):
            shown = "/".join([*inner.path, place.layer])
            self.nested_inputs.append(Node(shown, "InputLayer", inner.entries[place.layer]["config"], (source,)))
        return self._through(inner, dict(zip([place.key for place in places], given)))

    def _inner(self, level: Level, call: Call) -> Level:
        name, path = call[0], (*level.path, call[0])
        if name in level.live:
            return live_level(inner_function(level.live[name]), path)
        return stored_level(level.entries[name]["config"], path, self.faults)

    def _add(
        self,
        level: Level,
        name: str,
        inputs: Sequence[int],
        number: int = 0,
        values: Mapping[Place, int] | None = None,
        output: int = 0,
    ) -> int:
        """Add one output of one call of a layer and return its index."""
        self._check_count()
        keras_node = level.nodes.get((name, number))
        masks = self._masks(level, keras_node, values or {}, output) if keras_node is not None else ()
        entry, live, index = level.entries[name], level.live.get(name), len(self.nodes)
        path = (*level.path, name)
        first = self._firsts.setdefault(path if live is None else id(live), index)
        shown = self._unused_name("/".join(path) + {0: "", MASK_OUTPUT: "[mask]"}.get(output, f"[{output}]"))
        own = [mask for mask in masks if mask is not None]
        order = iter(range(len(own)))
        masked = tuple(None if mask is None else next(order) for mask in masks)
        call = None if keras_node is None else LiveCall(live, keras_node, output, masked, level.batches)
        special = keras_node is not None and (output != 0 or bool(own) or is_special(keras_node) or len(keras_node.outputs) > 1)
        kind = kind_in(entry) if keras_node is None else class_of(live)
        self.nodes.append(Node(shown, kind, entry["config"], (*inputs, *own), live, first, call, special))
        return index

    def _read(self, level: Level, symbol: Any, values: Mapping[Place, int]) -> int:
        assert level.place is not None
        return self._value(level.place(symbol), values, level)

    def _add_heads(self, level: Level, name: str, keras_node: Any, sources: Sequence[int]) -> int:
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

    def _unused_name(self, wanted: str) -> str:
        """Return a name that no node has yet: the wanted one, with the number of the call behind a colon."""
        number, shown = self._numbers.get(wanted, 1), wanted
        shown = wanted if number == 1 else f"{wanted}:{number}"
        while shown in self._names:
            number += 1
            shown = f"{wanted}:{number}"
        self._numbers[wanted] = number
        self._names.add(shown)
        return shown

    def _masks(self, level: Level, keras_node: Any, values: Mapping[Place, int], output: int) -> tuple[int | None, ...]:
        """Return the node of the mask of each tensor that a call reads, None where it has none or does not look at it.

        Keras makes most masks arguments of the call, which are tensors like others.
        """
        assert level.place is not None
        arguments = keras_node.arguments
        if output != MASK_OUTPUT and not takes_masks(keras_node):
            return (None,) * len(arguments.keras_tensors)
        return tuple(self._mask(level, symbol, values) for symbol in arguments.keras_tensors)

    def _mask(self, level: Level, symbol: Any, values: Mapping[Place, int]) -> int | None:
        """Return the node of a tensor's mask: that of its layer's input where the layer hands it on, or one of its own."""
        assert level.place is not None
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
        base = keras_module().layers.Layer
        hands_on = type(keras_node.operation).compute_mask is base.compute_mask and len(sources) == 1
        index = self._mask(level, sources[0], values) if hands_on else None
        if index is None:
            inputs = [self._value(level.place(source), values, level) for source in sources]
            index = self._add(level, place.layer, inputs, place.call, values, MASK_OUTPUT)
        values[mask_place] = index  # type: ignore[index]
        return index

    def _value(self, place: Place, values: Mapping[Place, int], level: Level) -> int:
        """Return the node behind a place; of an output that is not supported, that of the first."""
        if place in values:
            return values[place]
        if place.key in level.nodes and not level.opens(place.key):
            inputs = [self._value(source, values, level) for source in leaves_of(level.calls[place.key])]
            index = values[place] = self._add(level, place.layer, inputs, place.call, values, place.output)  # type: ignore[index]
            return index
        name = "/".join([*level.path, place.layer])
        wrong = f"output {place.output} of layer {name} is read; only layers with one output are supported"
        first = Place(place.layer, place.call, 0)
        if first not in values:
            raise UnsupportedError(wrong)
        self.faults.append((name, wrong))
        return values[first]

    def _check_count(self) -> None:
        if len(self.nodes) + len(self.nested_inputs) >= CALLS_UP_TO:
            raise UnsupportedError(f"the model has more than {CALLS_UP_TO} calls of layers; build a smaller one")


def _structure(places: Any) -> Structure:
    return Structure.of(map_leaves(places, lambda place: place.layer))


def _check_connected(level: Level, given: Mapping[Call, int], reads: Mapping[Call, Sequence[Call]], outputs: Sequence[Place]) -> None:
    for call in [*(place.key for place in outputs), *(source for sources in reads.values() for source in sources)]:
        if not reads.get(call) and call not in given:
            raise UnsupportedError(f"layer {'/'.join([*level.path, call[0]])} is read and reads nothing itself; connect it to an input")
