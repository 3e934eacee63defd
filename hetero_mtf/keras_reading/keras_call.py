"""Reads a call of a Keras operation that has no description of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.description import FLOATS
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.keras_reading.live_call import MASK_OUTPUT, LiveCall
from hetero_mtf.keras_reading.operations import (
    call_digest,
    class_of,
    hidden_state,
    is_layer,
    is_of_keras,
    is_seed,
    is_symbol,
    layers_in,
    named_weights,
)
from hetero_mtf.keras_reading.private_names import own_untrained_variables
from hetero_mtf.keras_reading.traced_calls.kept_memory import kept_elements
from hetero_mtf.keras_reading.traced_calls.tracing import NEITHER, Traced, drawn_rows, traced_split, written_weights
from hetero_mtf.layers.fallback.certain import (
    DECLARED,
    ELEMENTWISE_LAYERS,
    ELEMENTWISE_OPERATIONS,
    SAMPLEWISE_LAYERS,
    WRAPPERS,
    Operands,
    operation_is_samplewise,
)
from hetero_mtf.layers.fallback.keras_call_kind import OPTION, KerasCall, is_keras_call

OUTPUT_DTYPES = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "bool")
_DRAWS = ("dropout", "recurrent_dropout", "rate", "stddev")  # options by which a layer draws, or not


def keras_call(name: str, kind: str, call: LiveCall, inputs: Sequence[int], sources: Sequence[Layer], first: int | None) -> Layer:
    """Return a layer that is computed by Keras's own call.

    Parameters
    ----------
    name, kind, inputs : as in `Layer`.
    call : the call.
    sources : the layers it reads.
    first : index of the layer that holds its variables, where one Keras layer is called more than once.

    Raises
    ------
    UnsupportedError
        If its output has dimensions besides the batch that are not known, or is neither numbers nor truth values; or it holds a table.
    """
    symbol = call.symbol
    shape, dtype = tuple(symbol.shape), str(symbol.dtype)
    batch = call.has_batch(symbol)
    own = shape[1:] if batch else shape
    if any(n is None for n in own):
        raise UnsupportedError(f"layer {name} ({kind}) has the output shape {shape}", "give keras.Input every dimension but the batch")
    if dtype not in OUTPUT_DTYPES:
        raise UnsupportedError(f"layer {name} ({kind}) gives {dtype}", "cast what it gives to float32 or float64")
    operation = call.operation
    if holds_table(operation):
        wrong = f"layer {name} ({kind}) looks values up in a table of TensorFlow, which other graphs cannot read"
        raise UnsupportedError(wrong, "look them up in the data, before training")
    split, draws = _split(kind, call, batch, sources)
    split = "samples" if split == "elements" and not own else split  # a number a sample has no channels
    weights = {} if call.output == MASK_OUTPUT else named_weights(operation)
    variables = [(key, tuple(variable.shape), _trains(operation, variable)) for key, variable in weights.items()]
    option: dict[str, Any] = {
        "digest": call_digest(call),
        "split": split,
        "shape": list(own) or [1],
        "dtype": dtype,
        "batch": batch,
        "variables": [[key, list(of), trained] for key, of, trained in variables],
        "written": _written(operation, weights),
        "losses": call.output != MASK_OUTPUT and not split and adds_losses(operation),
        "flops": _flops(operation, own, sources),
        "kept": 0 if split == "elements" else kept_elements(call),
    }
    if rewritten := _rewritten(call, split, option["variables"]):
        option["rewritten"] = rewritten
    if any(draws):
        option["draws"] = [list(rows) for rows in draws]
    if split == "elements":
        option["channels"] = own[-1]
        option["alike"] = len({source.output_shape[-1] for source in sources}) == 1 and own[-1] == sources[0].output_shape[-1]
    attributes: dict[str, Any] = {OPTION: option}
    records = tuple(Variable(*entry) for entry in variables)
    flops = KerasCall().flops(attributes, (), tuple(option["shape"]))
    shown = f"keras.layers.{kind}" if kind.isidentifier() else kind
    return Layer(name, shown, attributes, tuple(inputs), tuple(option["shape"]), records, flops, first if records else None, live=call)


def weights_of(layer: Layer) -> dict[str, Any]:
    """Return the Keras variables of a layer of a model in memory, by the names of its record."""
    operation = layer.live.operation
    return named_weights(operation) if is_keras_call(layer) else {variable.name: variable for variable in operation.weights}


def draws_at_random(operation: Any) -> bool:
    """Return whether an operation has random seeds that its options let it use."""
    if not any(is_seed(variable) for variable in hidden_state(operation)):
        return False
    return any(_may_draw(layer) for layer in layers_in(operation))


def adds_losses(operation: Any) -> bool:
    """Return whether an operation may add to the loss: by a penalty on what it gives, or in a call of the user's own."""
    return any(layer.activity_regularizer is not None or not is_of_keras(layer) for layer in layers_in(operation))


def holds_table(operation: Any) -> bool:
    """Return whether an operation holds a look-up table of TensorFlow, whose values are those of the process that made it."""
    values = (value for layer in layers_in(operation) for value in vars(layer).values())
    return any(kind.__name__ == "LookupInterface" for value in values for kind in type(value).__mro__)


def _may_draw(layer: Any) -> bool:
    own = [value for name in _DRAWS if isinstance(value := getattr(layer, name, None), (int, float))]
    return any(own) if own else any(is_seed(variable) for variable in hidden_state(layer))


def _is_own(operation: Any) -> bool:
    """Return whether an operation is code of the user's: a layer of a class of one's own, or a Lambda."""
    return any(not is_of_keras(layer) or class_of(layer) == "Lambda" for layer in layers_in(operation))


def _split(kind: str, call: LiveCall, batch: bool, sources: Sequence[Layer]) -> Traced:
    """Return what a call may be split over: "elements", "samples" or "" for nothing; and what it draws at random there."""
    operation = call.operation
    if not batch or any(OPTION in source.attributes and not source.attributes[OPTION]["batch"] for source in sources):
        return Traced(NEITHER)
    if not is_layer(operation) or call.output == MASK_OUTPUT:
        return Traced(_split_of_operation(kind, call))
    if type(operation) in DECLARED:
        return _drawing("samples" if DECLARED[type(operation)] else NEITHER, call)
    if _is_own(operation):
        traced = traced_split(call)
        free = not any(variable.regularizer or variable.constraint for variable in operation.weights)
        return traced if free or traced.over != "elements" else Traced("samples", traced.draws)
    if adds_losses(operation) or _written(operation, named_weights(operation)):
        return Traced(NEITHER)
    if kind in ELEMENTWISE_LAYERS:
        return Traced("elements")
    return _drawing("samples" if all(_is_samplewise(layer) for layer in layers_in(operation)) else NEITHER, call)


def _drawing(over: str, call: LiveCall) -> Traced:
    """Return what a layer may be split over; not over samples, where it draws at random and it is not known what for each of them."""
    if not over or not draws_at_random(call.operation):
        return Traced(over)
    rows = drawn_rows(call)
    return Traced(NEITHER) if rows is None else Traced(over, rows)


def _split_of_operation(kind: str, call: LiveCall) -> str:
    if call.output == MASK_OUTPUT:
        return "samples" if kind in SAMPLEWISE_LAYERS else ""
    if not kind.startswith("keras.ops.") or not operation_is_samplewise(kind, _operands(call)):
        return ""
    return "elements" if kind in ELEMENTWISE_OPERATIONS and _constants_are_numbers(call) else "samples"


def _is_samplewise(layer: Any) -> bool:
    kind = class_of(layer)
    if kind == "EinsumDense":
        terms, _, output = layer.equation.partition("->")
        read, kernel = terms.split(",")
        return bool(read[0] == output[0] and read[0] not in kernel and "." not in read[:1])
    return kind in SAMPLEWISE_LAYERS or kind in WRAPPERS or bool(DECLARED.get(type(layer)))


def _operands(call: LiveCall) -> Operands:
    arguments = call.node.arguments
    shapes = tuple(_with_batch(call, symbol) for symbol in arguments.keras_tensors)
    positional = tuple(None if is_symbol(value) else value for value in arguments.args)
    return Operands(call.operation, shapes, _with_batch(call, call.symbol), (positional, arguments.kwargs))


def _with_batch(call: LiveCall, symbol: Any) -> tuple[int | None, ...]:
    """Return a symbolic tensor's shape, None for the batch."""
    return (None, *symbol.shape[1:]) if call.has_batch(symbol) else tuple(symbol.shape)


def _constants_are_numbers(call: LiveCall) -> bool:
    """Return whether all arguments besides tensors are the same for every element."""
    arguments = call.node.arguments
    values = [*arguments.args, *arguments.kwargs.values()]
    shapes = [getattr(value, "shape", ()) for value in values if not is_symbol(value)]
    return all(len(shape) == 0 for shape in shapes) and not any(isinstance(v, (list, tuple)) for v in values)


def _trains(operation: Any, variable: Any) -> bool:
    return bool(variable.trainable) and any(variable is v for v in getattr(operation, "trainable_weights", ()))


def _written(operation: Any, weights: dict[str, Any]) -> list[str]:
    """Return the names of the weights that a call may write: those that no optimizer ever updates."""
    own = {id(variable) for layer in layers_in(operation) for variable in own_untrained_variables(layer)}
    return [key for key, variable in weights.items() if id(variable) in own]


def _rewritten(call: LiveCall, split: str, variables: Sequence[Any]) -> list[str]:
    """Return the names of the trained weights that a call on the whole batch writes, as spectral normalisation does."""
    operation = call.operation
    trained = [name for name, _, trains in variables if trains]
    if split or not trained or not is_layer(operation) or call.output == MASK_OUTPUT:
        return []
    if not _is_own(operation) and "SpectralNormalization" not in map(class_of, layers_in(operation)):
        return []
    written = written_weights(call)
    return [name for name in trained if name in written]


def _flops(operation: Any, own: Sequence[int], sources: Sequence[Layer]) -> float:
    """Return a rough number of floating-point operations a sample: each weight at each position of the output, or an element each."""
    weights: int = sum(math.prod(variable.shape) for variable in getattr(operation, "trainable_weights", ()))
    positions = math.prod(own[:-1]) if len(own) > 1 else 1
    read = sum(math.prod(source.output_shape) for source in sources)
    return 2.0 * weights * positions + math.prod(own) + read
