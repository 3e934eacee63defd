"""What a call of the user's own does, read off the TensorFlow operations that it makes: whether it acts on each sample by itself.

The call runs on placeholders, with two batch sizes, in training and in inference. A tensor either has the samples along its first
dimension, each as one row or as several in a run, or does not depend on the samples. A random draw has either too, element by element.
An operation that is not known to keep it so, writes a variable or adds to the loss ends the reading.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from hetero_mtf.keras_reading.live_call import LiveCall
from hetero_mtf.keras_reading.operations import is_layer, layers_in
from hetero_mtf.keras_reading.private_names import may_train_otherwise
from hetero_mtf.keras_reading.traced_calls.operation_rules import BROADCAST, CHECKS, FREE, KEYS, REPEATING, UNARY
from hetero_mtf.keras_reading.traced_calls.placeholder_call import PlaceholderCall, call_on_placeholders
from hetero_mtf.keras_reading.traced_calls.present_tensors import present_tensors
from hetero_mtf.keras_reading.traced_calls.random_draws import DRAWS, rows_of

Result = TypeVar("Result")
ELEMENTS, SAMPLES, NEITHER = "elements", "samples", ""
_BATCHES = (7, 11)  # no extents of layers, mostly
_MANY = 500  # operations


class Traced(NamedTuple):
    """What a call acts on each by itself.

    Parameters
    ----------
    over : `ELEMENTS`, `SAMPLES`, or `NEITHER` where that is not certain.
    draws : rows a sample of each random draw in training, and of each in inference; 0 of one that all samples share.
    """

    over: str
    draws: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


def traced_split(call: LiveCall) -> Traced:
    """Return what a call acts on each by itself, read off its operations.

    Parameters
    ----------
    call : of a Keras operation, with tensors that have a batch.
    """
    return _read(call, _traced, Traced(NEITHER))


def drawn_rows(call: LiveCall) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return rows a sample of each random draw of a call, as in `Traced`; None where that is not certain.

    Parameters
    ----------
    call : of a Keras layer that computes each sample by itself, with tensors that have a batch.
    """
    modes = [(batch, training) for training in (True, False) for batch in _BATCHES]
    return _read(call, lambda own: _alike([_Trace(own, *mode) for mode in modes]), None)


def written_weights(call: LiveCall) -> list[str]:
    """Return the names of the weights that a call writes in training; none where it cannot be called on placeholders.

    Parameters
    ----------
    call : of a Keras layer, with tensors that have a batch.
    """
    return _read(call, _written, [])


def _written(call: LiveCall) -> list[str]:
    with tf.Graph().as_default(), present_tensors():
        return call_on_placeholders(call, _BATCHES[0], training=True).written


def _read(call: LiveCall, reading: Callable[[LiveCall], Result], otherwise: Result) -> Result:
    """Return what is read off a call, or something else where it cannot be called on placeholders."""
    if not _is_traceable(call):
        return otherwise
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of code that has run before
            return reading(call)
    except Exception:  # the user's own code may raise anything on placeholders
        return otherwise


def _is_traceable(call: LiveCall) -> bool:
    symbols = call.node.arguments.keras_tensors
    return is_layer(call.operation) and all(call.has_batch(symbol) and None not in symbol.shape[1:] for symbol in symbols)


def _traced(call: LiveCall) -> Traced:
    """Return what the call acts on with both batch sizes, in training and in inference; of a call of very many operations, once each.

    A call that draws at random is followed with both sizes: a draw has the samples where its extent grows with their number.
    """
    first, second = _BATCHES
    traces = [_Trace(call, first, True)]
    if traces[0].verdict == NEITHER:
        return Traced(NEITHER)
    once = traces[0].operations > _MANY or not _knows_training(call.operation)
    once = once and not traces[0].rows
    others = [(second, False)] if once else [(second, True), (first, False), (second, False)]
    traces += [_Trace(call, batch, training) for batch, training in others]
    draws, verdicts = _alike(traces), {trace.verdict for trace in traces}
    if NEITHER in verdicts or draws is None:
        return Traced(NEITHER)
    return Traced(ELEMENTS if verdicts == {ELEMENTS} and draws == ((), ()) else SAMPLES, draws)


def _alike(traces: Sequence[_Trace]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the draws in training and in inference, where they are the same with every number of samples."""
    both = []
    for training in (True, False):
        drawn = {trace.rows for trace in traces if trace.training == training}
        rows = drawn.pop() if drawn else ()
        if drawn or None in rows:
            return None
        both.append(tuple(int(count or 0) for count in rows))
    return both[0], both[1]


def _knows_training(layer: Any) -> bool:
    """Return whether a layer may compute something else in training: unless it and what it holds take no such argument."""
    return any(map(may_train_otherwise, layers_in(layer)))


class _Trace:
    """The operations of a call with a number of samples.

    Parameters
    ----------
    call, batch, training : the call, its number of samples, and whether it trains.
    """

    def __init__(self, call: LiveCall, batch: int, training: bool) -> None:
        self.batch, self.training = batch, training
        self.elementwise = True
        graph = tf.Graph()
        with graph.as_default(), tf.name_scope("traced"), present_tensors():
            run = call_on_placeholders(call, batch, training)
        self.operations = len(graph.get_operations())
        self.rows: tuple[int | None, ...] = tuple(rows_of(run.draws, batch))
        self.channels = run.inputs[0].shape[-1]
        self._weights = {value.name for value in run.values.values()}
        self._drawn = list(self.rows)
        self.verdict = self._verdict(graph, run, run.outputs[max(call.output, 0)])

    def _verdict(self, graph: Any, run: PlaceholderCall, result: Any) -> str:
        """Return what the call acts on."""
        if run.losses or run.written:
            return NEITHER
        state = {tensor.name: 1 for tensor in run.inputs}
        for operation in graph.get_operations():
            if operation.type != "Placeholder" and not self._follow(operation, state):
                return NEITHER
        if state.get(result.name) != 1 or result.shape[0] != self.batch or self._drawn:
            return NEITHER
        same = all(tensor.shape == result.shape for tensor in run.inputs)
        return ELEMENTS if self.elementwise and same else SAMPLES

    def _follow(self, operation: tf.Operation, state: dict[str, int]) -> bool:
        """Add the outputs of an operation to `state`, tensor -> rows of a sample; return whether it is known to keep samples apart."""
        kind, rows = operation.type, [state.get(tensor.name, 0) for tensor in operation.inputs]
        read = [count > 0 for count in rows]
        if not any(read):
            return self._follow_constant(operation, state)
        if kind in FREE:
            return True  # extents do not depend on the samples
        if kind == "IdentityN":
            state.update({tensor.name: count for tensor, count in zip(operation.outputs, rows) if count})
            return True
        if len({count for count in rows if count}) > 1:
            return False
        after = max(rows)
        if kind == "Reshape":
            first = operation.outputs[0].shape[0] if operation.outputs[0].shape.rank else 0
            if not first or first % self.batch:
                return False
            after = first // self.batch
        state.update({tensor.name: after for tensor in operation.outputs})
        return self._keeps(operation, kind, read)

    def _follow_constant(self, operation: tf.Operation, state: dict[str, int]) -> bool:
        """Follow an operation that does not depend on samples; what it repeats for each sample has a row for each."""
        kind = operation.type
        if kind in DRAWS and self._drawn:
            rows = self._drawn.pop(0)
            if rows:
                state[operation.outputs[0].name] = rows
            return rows is not None
        if kind.startswith(("Stateless", "Random")) or kind in ("PyFunc", "EagerPyFunc"):
            return kind in KEYS
        shape = operation.outputs[0].shape if operation.outputs else None
        if kind == "Range" and (shape is None or shape.rank is None or shape[0] in (None, self.batch)):
            return False  # may number the samples
        if shape is not None and shape.rank and shape[0] == self.batch and self._repeats_rows(operation, shape.rank):
            state[operation.outputs[0].name] = 1
        return not operation.op_def.is_stateful or kind == "Assert"

    def _repeats_rows(self, operation: tf.Operation, rank: int) -> bool:
        """Return whether an operation gives the same row for each sample."""
        if operation.type == "Const":
            value = tf.get_static_value(operation.outputs[0])
            return value is not None and bool((value == value[:1]).all())
        if operation.type not in REPEATING:
            return bool(operation.type == "Fill")
        shape = operation.inputs[0].shape
        return shape.rank is not None and (shape.rank != rank or shape[0] == 1)

    def _keeps(self, operation: tf.Operation, kind: str, read: list[bool]) -> bool:
        if kind in UNARY:
            return True
        if kind in BROADCAST:
            return self._broadcasts(operation, read)
        self.elementwise = False
        check = CHECKS.get(kind)
        return check is not None and check(self, operation, read)

    def _broadcasts(self, operation: tf.Operation, read: list[bool]) -> bool:
        """Return whether samples meet samples, or what is the same for all of them."""
        tensors = list(operation.inputs)
        rank = max(len(tensor.shape) for tensor, of_samples in zip(tensors, read) if of_samples)
        for tensor, of_samples in zip(tensors, read):
            own = len(tensor.shape)
            if of_samples:
                if own != rank:
                    return False
                self.elementwise &= tensor.shape[-1] == self.channels
                continue
            if own > rank or (own == rank and tensor.shape[0] != 1):
                return False
            of_channels = own > 0 and tensor.shape[-1] == self.channels
            self.elementwise &= own == 0 or tensor.shape[-1] == 1 or (of_channels and tensor.name in self._weights)
        return True

    def numbers(self, tensor: Any) -> Any:
        """Return a tensor's value where it is known while the graph is built, None elsewhere."""
        value = tf.get_static_value(tensor)
        return None if value is None else value.tolist()
