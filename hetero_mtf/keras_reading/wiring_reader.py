"""Reads the wiring in a Keras configuration, as a file holds it: nothing is built, and Keras is not imported.

`live_wiring_reader` reads models in memory by the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from hetero_mtf.errors import UnsupportedError, refuse
from hetero_mtf.graph.structure import Structure, leaves_of, map_leaves
from hetero_mtf.keras_reading.keras_order import Call, call_order
from hetero_mtf.keras_reading.level import Level, Place, kind_in, stored_level
from hetero_mtf.keras_reading.wiring import CALLS_UP_TO, Node, Wiring

AnyLevel = TypeVar("AnyLevel", bound=Level)


def read_configuration(config: Mapping[str, Any], all_faults: bool = False) -> Wiring:
    """Return the wiring in the configuration of a Keras functional or sequential model, which need not have been built.

    Parameters
    ----------
    config : what `model.get_config()` gives, or a file holds in its place.
    all_faults : whether to return what is not supported in how layers are called with the wiring, rather than raise.

    Raises
    ------
    UnsupportedError
        If the layers are not connected as those of a model are, or there are more than `CALLS_UP_TO` calls.
    """
    reader = StoredWiringReader()
    return checked(reader, lambda: reader.wiring_of(stored_level(config, (), reader.faults)), all_faults)


def checked(reader: WiringReader[Any], read: Callable[[], Wiring], all_faults: bool) -> Wiring:
    """Return what is read, or raise all faults at once.

    Parameters
    ----------
    reader, read : what reads the wiring, and how.
    all_faults : as for `read_configuration`.
    """
    try:
        wiring = read()
    except UnsupportedError:
        refuse([text for _, text in reader.faults])  # what cannot be followed further may come of these
        raise
    if not all_faults:
        refuse([text for _, text in wiring.faults])
    return wiring


class WiringReader(Generic[AnyLevel]):
    """Collects nodes, level by level; subclasses say what a call of a layer is and what is inside of a nested model.

    Attributes
    ----------
    nodes, nested_inputs, faults : as in `Wiring`, of what was read so far.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.nested_inputs: list[Node] = []
        self.faults: list[tuple[str, str]] = []
        self._firsts: dict[Any, int] = {}
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}

    def wiring_of(self, level: AnyLevel) -> Wiring:
        """Return the wiring of the outermost model."""
        input_nodes = {place.key: self._add_input(level, place.layer) for place in leaves_of(level.inputs)}
        outputs, values = self._through(level, input_nodes)
        indices = self._final(level, outputs, values)
        structures = _structure(level.inputs), _structure(level.outputs)
        return Wiring(tuple(self.nodes), tuple(indices), tuple(self.nested_inputs), *structures, tuple(self.faults))

    def _final(self, level: AnyLevel, outputs: list[int], values: dict[Place, int]) -> list[int]:
        """Return the nodes that the outermost model returns, of those of its outputs."""
        return outputs

    def _add_input(self, level: AnyLevel, name: str) -> int:
        """Add an input of the outermost model and return its index."""
        raise NotImplementedError

    def _add_call(self, level: AnyLevel, call: Call, inputs: Sequence[int], values: dict[Place, int]) -> int:
        """Add a call of a layer, which reads these nodes, and return the index of its first output."""
        raise NotImplementedError

    def _inner(self, level: AnyLevel, name: str) -> AnyLevel:
        """Return the level inside of a nested model."""
        raise NotImplementedError

    def _through(self, level: AnyLevel, input_nodes: Mapping[Call, int]) -> tuple[list[int], dict[Place, int]]:
        """Add the calls of a level; return the nodes of its outputs, in the flat order, and those of all places.

        Parameters
        ----------
        level : the level.
        input_nodes : node of each of its inputs.
        """
        values: dict[Place, int] = {Place(*call, 0): index for call, index in input_nodes.items()}
        reads = {call: [place.key for place in leaves_of(arguments)] for call, arguments in level.calls.items()}
        reads.update({call: [] for call in input_nodes})
        outputs = leaves_of(level.outputs)
        _check_connected(level, input_nodes, reads, outputs)
        for call in call_order(reads, [place.key for place in outputs]):
            if call not in input_nodes:
                values.update({Place(*call, at): index for at, index in enumerate(self._call(level, call, values))})
        return [self._value(place, values, level) for place in outputs], values

    def _call(self, level: AnyLevel, call: Call, values: dict[Place, int]) -> list[int]:
        """Add a call and return the nodes of its outputs."""
        arguments = level.calls[call]
        if level.opens(call):
            return self._nested(level, call[0], map_leaves(arguments, lambda place: self._value(place, values, level)))
        return [self._add_call(level, call, [self._value(place, values, level) for place in leaves_of(arguments)], values)]

    def _nested(self, level: AnyLevel, name: str, arguments: Any) -> list[int]:
        """Add the calls of a nested model that is called with nodes and return those of its outputs."""
        inner = self._inner(level, name)
        what, structure = f"what the nested model {'/'.join(inner.path)} is called with", _structure(inner.inputs)
        alone = structure.count == 1 and len(leaves_of(arguments)) == 1
        sources = leaves_of(arguments) if alone else structure.flatten(arguments, what, UnsupportedError, spare=True)
        places = leaves_of(inner.inputs)
        self._check_count()
        for place, source in zip(places, sources):
            shown = "/".join([*inner.path, place.layer])
            self.nested_inputs.append(Node(shown, "InputLayer", inner.entries[place.layer]["config"], (source,)))
        return self._through(inner, dict(zip([place.key for place in places], sources)))[0]

    def _value(self, place: Place, values: dict[Place, int], level: AnyLevel) -> int:
        """Return the node behind a place; of an output that is not supported, that of the first."""
        if place in values:
            return values[place]
        name = "/".join([*level.path, place.layer])
        wrong = f"output {place.output} of layer {name} is read; only layers with one output are supported"
        first = Place(place.layer, place.call, 0)
        if first not in values:
            raise UnsupportedError(wrong)
        self.faults.append((name, wrong))
        return values[first]

    def _unused_name(self, name: str) -> str:
        """Return a name that no node has yet: the wanted one, with the number of the call behind a colon."""
        number, shown = self._numbers.get(name, 1), name
        shown = name if number == 1 else f"{name}:{number}"
        while shown in self._names:
            number += 1
            shown = f"{name}:{number}"
        self._numbers[name] = number
        self._names.add(shown)
        return shown

    def _check_count(self) -> None:
        if len(self.nodes) + len(self.nested_inputs) >= CALLS_UP_TO:
            raise UnsupportedError(f"the model has more than {CALLS_UP_TO} calls of layers", "build a smaller one")


class StoredWiringReader(WiringReader[Level]):
    """Reads the wiring of a model that is described only; nested models are told apart by their paths."""

    def _add_input(self, level: Level, name: str) -> int:
        return self._add(level, name, ())

    def _add_call(self, level: Level, call: Call, inputs: Sequence[int], values: dict[Place, int]) -> int:
        return self._add(level, call[0], inputs)

    def _add(self, level: Level, name: str, inputs: Sequence[int]) -> int:
        self._check_count()
        index, path, entry = len(self.nodes), (*level.path, name), level.entries[name]
        first = self._firsts.setdefault(path, index)
        self.nodes.append(Node(self._unused_name("/".join(path)), kind_in(entry), entry["config"], tuple(inputs), first=first))
        return index

    def _inner(self, level: Level, name: str) -> Level:
        return stored_level(level.entries[name]["config"], (*level.path, name), self.faults)


def _structure(places: Any) -> Structure:
    return Structure.of(map_leaves(places, lambda place: place.layer))


def _check_connected(level: Level, input_nodes: Mapping[Call, int], reads: Mapping[Call, Sequence[Call]], outputs: Sequence[Place]) -> None:
    for call in [*(place.key for place in outputs), *(source for sources in reads.values() for source in sources)]:
        if not reads.get(call) and call not in input_nodes:
            raise UnsupportedError(f"layer {'/'.join([*level.path, call[0]])} is read and reads nothing itself", "connect it to an input")
