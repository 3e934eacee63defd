"""Graphs of calls, followed once more with symbolic tensors that say more: masks of nested models, and extents that were left open.

A symbolic call of a nested model carries no masks: Keras finds those that go into it or come out of it only as it computes. Followed once
more, with the same layers, it takes the masks of its inputs as further inputs and gives those of its outputs as further outputs.

A layer that computes extents from an open batch leaves its own extents open; what they are is seen with batches of two sizes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.structure import Structure, leaves_of, map_leaves
from hetero_mtf.keras_reading.graph_of_calls import functional_of, inner_function, input_name, kept_in, trace
from hetero_mtf.keras_reading.operations import is_symbol
from hetero_mtf.keras_reading.private_names import calls_in, input_structure, mask_of, output_structure, run_through, set_mask, set_shape

FOLLOWED = "_hetero_mtf_followed"  # the attribute of a graph of calls that the one which was followed is kept in


def followed(function: Any) -> Any | None:
    """Return the graph of calls of a model, in which nested models have known extents and masks pass through them.

    That is itself where there is nothing of this kind, and None where its layers cannot be called with other
    symbolic tensors. It is kept in the model.

    Parameters
    ----------
    function : keras.Functional.
    """
    return kept_in(function, FOLLOWED, lambda: _again(function) if _says_less(function) else function)


def traced_with(model: keras.Model, shapes: Sequence[tuple[int, ...]]) -> Any:
    """Return the graph of calls of a model with inputs of these shapes, or itself where its layers cannot be called so.

    Parameters
    ----------
    model : keras.Model that is built.
    shapes : (inputs,) shapes, batch left out, in the flat order.
    """
    function = functional_of(model)
    if function is None:
        return trace(model, shapes)
    again = _again(function, shapes)
    return function if again is None else again


def _again(function: Any, shapes: Sequence[tuple[int, ...]] | None = None) -> Any | None:
    """Return a graph of calls with the same layers, with inputs of other shapes if any are given."""
    extents = iter([symbol.shape for symbol in function.inputs] if shapes is None else [(None, *shape) for shape in shapes])
    inputs = map_leaves(input_structure(function), lambda symbol: _like(symbol, next(extents)))
    following = _Following()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras has said by now which layers drop masks
            outputs = iter(following.outputs_of(function, leaves_of(inputs)))
        packed = map_leaves(output_structure(function), lambda _: next(outputs))
        again = keras.Model(inputs, packed, name=function.name)
    except Exception:  # layers that were built for other extents, or look at values
        return None
    kept_in(again, FOLLOWED, lambda: again)
    return again if shapes or following.changes else function


def _says_less(function: Any) -> bool:
    """Return whether a graph of calls has nested models and anywhere tensors with masks, or more open extents than its inputs have."""
    inner = [each for each in map(inner_function, function.operations) if each is not None]
    is_open = any(map(_is_open, function.inputs))
    symbols = list(_symbols(function))
    return (not is_open and any(map(_is_open, symbols))) or (
        bool(inner) and any(mask_of(symbol) is not None or _is_open(symbol) for symbol in symbols)
    )


def _symbols(function: Any) -> Iterator[Any]:
    """Yield what the calls of a graph give, and those of the models nested in it."""
    for operation in function.operations:
        inner = inner_function(operation)
        yield from () if inner is None else _symbols(inner)
    yield from (symbol for node in calls_in(function) for symbol in node.outputs)


def _is_open(symbol: Any) -> bool:
    return None in symbol.shape[1:]


def _like(symbol: Any, shape: Sequence[int | None]) -> Any:
    """Return an input like a symbolic one, with known extents of a shape where it has open ones."""
    own = symbol.shape
    known = own if len(shape) != len(own) else [source_extent if extent is None else extent for extent, source_extent in zip(own, shape)]
    return keras.Input(batch_shape=tuple(known), dtype=symbol.dtype, name=input_name(symbol), sparse=symbol.sparse)


def _specs(operation: keras.Operation, arguments: Any, named: Any, batch: int) -> list[Any]:
    """Return (outputs,) symbolic outputs of a call with batches of a size, which no graph knows of."""

    def sized(leaf: Any) -> Any:
        is_batch = is_symbol(leaf) and leaf.shape[:1] == (None,)
        return keras.KerasTensor((batch, *leaf.shape[1:]), leaf.dtype) if is_batch else leaf

    arguments, named = keras.tree.map_structure(sized, (arguments, named))
    return list(keras.tree.flatten(operation.compute_output_spec(*arguments, **named)))


class _Following:
    """Follows graphs of calls with symbolic tensors, which may carry masks.

    Attributes
    ----------
    changes : calls of nested models that masks go into or come out of, and calls that give other extents.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._models: dict[Any, tuple[Any, list[int | None]]] = {}  # by the nested graph and the forms of what it is called with
        self._numbers: dict[int, int] = {}  # of the models made of each nested graph

    def outputs_of(self, function: Any, inputs: Sequence[Any]) -> list[Any]:
        """Return (outputs,) symbolic outputs of a graph for symbolic inputs, in the flat order.

        Parameters
        ----------
        function : keras.Functional.
        inputs : (inputs,) symbolic tensors.
        """
        outputs = run_through(function, inputs, self._call_of)
        return list(keras.tree.flatten(outputs))

    def _call_of(self, operation: keras.Operation) -> Any:
        function = inner_function(operation)
        if function is None:
            return lambda *arguments, **named: self._closed(operation, arguments, named)

        def call(*arguments: Any, **named: Any) -> Any:
            others = sorted(name for name, value in named.items() if value is not None and name not in ("mask", "training"))
            if len(arguments) != 1 or others:
                raise UnsupportedError(f"the nested model {operation.name} is called with {', '.join(others) or 'several arguments'}")
            return self._called(operation, function, arguments[0], named.get("mask"))

        return call

    def _closed(self, operation: keras.Operation, arguments: Any, named: Any) -> Any:
        """Return the outputs of a call, with the extents that do not depend on the batch."""
        outputs = operation(*arguments, **named)
        left = [symbol for symbol in keras.tree.flatten(outputs) if is_symbol(symbol) and _is_open(symbol)]
        if left and not any(is_symbol(leaf) and _is_open(leaf) for leaf in keras.tree.flatten((arguments, named))):
            specs = [_specs(operation, arguments, named, batch) for batch in (2, 3)]
            for symbol, *two in zip(keras.tree.flatten(outputs), *specs, strict=True):
                set_shape(symbol, tuple(one if one == other else None for one, other in zip(two[0].shape, two[1].shape, strict=True)))
            self.changes += not all(map(_is_open, left))
        return outputs

    def _called(self, operation: keras.Operation, function: Any, argument: Any, mask: Any) -> Any:
        """Return the outputs of a call of a nested model, with their masks."""
        names = Structure.of(map_leaves(input_structure(function), input_name))
        symbols = leaves_of(argument) if names.count == 1 else names.flatten(argument, "the call", UnsupportedError, spare=True)
        masks = [mask_of(symbol) for symbol in symbols] if mask is None else leaves_of(mask)
        model, origins = self._model(operation, function, symbols, masks)
        # As an operation, since a layer would look for masks once more.
        outputs = keras.Operation.symbolic_call(model, [*symbols, *(each for each in masks if each is not None)])
        count = len(origins)
        for symbol, origin in zip(outputs[:count], origins):
            if origin is not None:
                set_mask(symbol, masks[origin] if origin >= 0 else outputs[count - 1 - origin])
        left = iter(outputs)
        return map_leaves(output_structure(function), lambda _: next(left))

    def _model(
        self, operation: keras.Operation, function: Any, symbols: Sequence[Any], masks: Sequence[Any]
    ) -> tuple[Any, list[int | None]]:
        """Return the nested model with masks among its inputs and outputs, and what is the mask of each output.

        That is the number of the input that it is of; -1, -2 and so on for further outputs of the model; None for none.
        """
        forms = [None if each is None else (tuple(each.shape), str(each.dtype)) for each in (*symbols, *masks)]
        key = id(function), *forms
        if key not in self._models:
            self._models[key] = self._widened(operation, function, symbols, masks)
        return self._models[key]

    def _widened(
        self, operation: keras.Operation, function: Any, sources: Sequence[Any], masks: Sequence[Any]
    ) -> tuple[Any, list[int | None]]:
        own = function.inputs
        inputs = [_like(symbol, source.shape) for symbol, source in zip(own, sources, strict=True)]
        for symbol, mask in zip(inputs, masks):
            if mask is not None:
                set_mask(symbol, keras.Input(batch_shape=mask.shape, dtype=mask.dtype, name=f"{input_name(symbol)}[mask]"))
        input_masks = [mask_of(symbol) for symbol in inputs]
        outputs = self.outputs_of(function, inputs)
        origins, further = list[int | None](), list[Any]()
        for mask in map(mask_of, outputs):
            origin = next((index for index, each in enumerate(input_masks) if each is mask and mask is not None), None)
            if mask is not None and origin is None:
                further.append(mask)
                origin = -len(further)
            origins.append(origin)
        is_other = any(one.shape != other.shape for one, other in zip(inputs, own))
        self.changes += is_other or any(mask is not None for mask in [*input_masks, *further])
        number = self._numbers[id(function)] = self._numbers.get(id(function), 0) + 1
        name = operation.name if number == 1 else f"{operation.name}:{number}"  # one with masks, say, and one without
        model = keras.Model([*inputs, *(mask for mask in input_masks if mask is not None)], [*outputs, *further], name=name)
        return model, origins
