"""A call of a Keras operation on placeholders, in a TensorFlow graph that is only looked at."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from hetero_mtf.keras_reading.live_call import LiveCall
from hetero_mtf.keras_reading.operations import named_weights, seed_states
from hetero_mtf.keras_reading.traced_calls.present_tensors import compared_by_elements
from hetero_mtf.keras_reading.traced_calls.random_draws import recorded_draws


class PlaceholderCall(NamedTuple):
    """What a call reads and gives.

    Parameters
    ----------
    inputs : (inputs,) placeholders of the tensors that it reads.
    values : name of each weight -> its placeholder.
    outputs : (outputs,) tensors that it gives, in the flat order.
    losses : whether it adds to the loss.
    written : names of the weights that it writes.
    draws : (draws,) static shapes of the random tensors that it draws, in order.
    """

    inputs: list[Any]
    values: dict[str, Any]
    outputs: list[Any]
    losses: bool
    written: list[str]
    draws: list[Any]


def call_on_placeholders(call: LiveCall, batch: int, training: bool) -> PlaceholderCall:
    """Return a call of a layer with a number of samples, added to the current TensorFlow graph.

    Parameters
    ----------
    call : of a layer, with tensors that have a batch and whose other extents are known.
    batch : number of samples.
    training : whether it trains.
    """

    def placeholder(shape: Any, dtype: Any) -> Any:
        return tf.compat.v1.placeholder(str(dtype), tuple(shape))

    symbols = call.node.arguments.keras_tensors
    inputs = [placeholder((batch, *symbol.shape[1:]), symbol.dtype) for symbol in symbols]
    weights = named_weights(call.operation)
    values = {name: placeholder(variable.shape, variable.dtype) for name, variable in weights.items()}
    seeds = {id(state): placeholder((2,), "int64") for state in seed_states(call.operation)}
    scope = keras.StatelessScope(collect_losses=True, initialize_variables=False)
    scope.state_mapping.update({**seeds, **{id(weights[name]): value for name, value in values.items()}})
    tensor_of = {id(symbol): tensor for symbol, tensor in zip(symbols, inputs)}
    args, kwargs = call.node.arguments.convert(lambda leaf: tensor_of.get(id(leaf), leaf))
    draws: list[Any] = []
    with scope, recorded_draws(draws), compared_by_elements():
        outputs = keras.tree.flatten(call.operation(*args, **{**kwargs, "training": training}))
    written = [name for name, value in values.items() if scope.get_current_value(weights[name]) is not value]
    return PlaceholderCall(inputs, values, outputs, bool(scope.losses), written, draws)
