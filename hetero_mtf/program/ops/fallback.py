"""The operation of layers without a description: Keras's own call, on each processor's slices."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import random
import threading
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from hetero_mtf.errors import LayoutError, UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.keras_reading.live_call import MASK_OUTPUT, LiveCall
from hetero_mtf.keras_reading.operations import hidden_state, is_layer, is_seed, layers_in, named_weights, seed_states
from hetero_mtf.keras_reading.private_names import keras_operations, logits_of, mask_of, set_mask, table_of
from hetero_mtf.keras_reading.traced_calls.placeholder_call import call_on_placeholders
from hetero_mtf.keras_reading.traced_calls.present_tensors import compared_by_elements, present_tensors
from hetero_mtf.keras_reading.traced_calls.random_draws import draws_of_full_batch
from hetero_mtf.keras_reading.traced_calls.replacements import replaced
from hetero_mtf.layers.fallback.keras_call_kind import OPTION
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute_once import compute_once
from hetero_mtf.mesh.operations.local import Processor
from hetero_mtf.program.ops.general import GeneralOps
from hetero_mtf.program.ops.kernel import looked_up
from hetero_mtf.program.ops.value import Value

_SAMPLES = 7  # of a batch that is only looked at
_GENERATORS = threading.RLock()  # of Python and NumPy, which all threads share


class FallbackOps(GeneralOps):
    """Keras's own calls."""

    def call_keras(self, layer: Layer, inputs: Sequence[Value]) -> Value:
        """Return what Keras's own call gives on the slices that each processor has.

        Random draws depend on the seed, layer, step and microbatch alone; a call that has a part of the samples draws for all of them. A
        call that writes variables has the whole batch; they are written after the step, and later calls start from what it wrote. Of a
        trained variable that is written, the gradient is that of the written value, from which the update starts.

        Parameters
        ----------
        layer : a layer that is computed by Keras's own call, read from a model in memory.
        inputs : its inputs; one "split over elements" may have them split by channels.

        Raises
        ------
        UnsupportedError
            If the layer was read from a file, or does what its class does not allow.
        """
        option, call = layer.attributes[OPTION], layer.live
        if call is None:
            raise UnsupportedError(
                f"layer {layer.name} ({layer.kind}) is computed by Keras, and its model is not in memory", "give the model"
            )
        begun = self._first_of_call(layer)
        variables = {
            name: self._state(begun, name) if name in option["written"] else self._weight(name, inputs[0]) for name in _names(option)
        }
        shape = self._called_shape(inputs[0])
        logits = [(shape, tf.as_dtype(option["dtype"]))] if _last_activation(call) else []
        extra = begun == self.index
        rewritten = {name: self._state(begun, name) for name in option.get("rewritten", ()) if self.training}
        written = [*option["written"], *rewritten] if extra else []
        outputs = [
            (shape, tf.as_dtype(option["dtype"])),
            *logits,
            *((variables[name].shape, variables[name].dtype) for name in written),
            *([(mtf.Shape([]), self.dtype)] if option["losses"] and extra else []),
        ]
        function = _Call(call, option, list(variables), written, bool(logits), bool(option["losses"] and extra), self.training, layer.name)
        function.rewritten, function.loss_dtype = list(rewritten), self.dtype
        function.seed, function.key = self._seed_of(begun), zlib.crc32(repr((self.seed, begun)).encode())
        function.samples = inputs[0].batch.size
        first = inputs[0]
        read = [value.tensor if first.sizes is None else self._channels_as(value, first) for value in inputs]  # split alike
        tables = [name for name in (_tables(call) if self.squares_rows else ()) if name in variables]
        squared = {name: zeros for name in tables for zeros in self.row_squares_of(name, variables[name].shape)}
        function.squared = list(squared)
        tensors = [*read, *variables.values(), *rewritten.values(), *squared.values()]
        split = [] if first.sizes is None else [first.channels.name]
        unsplit = {d.name: d for t in tensors for d in t.shape.dims if d.name not in (*split, first.batch.name)}
        results = compute_once(self._operation_name, function, tensors, outputs, unsplit=unsplit.values())
        y, *rest = results
        own_logits = (rest.pop(0), _last_activation(call)) if logits else None
        for name in written:
            new = rest.pop(0)
            self.set_after_step(name, rewritten.get(name, variables[name]), functools.partial(_replaced, new))
        if rest:
            self.added_losses.append(rest.pop(0))
        return Value(y, first.sizes, logits=own_logits)

    def _first_of_call(self, layer: Layer) -> int:
        """Return the index of the first layer that stands for an output of the same call."""
        return next(i for i, other in enumerate(self.graph.layers) if other.live is not None and other.live.node is layer.live.node)

    def _weight(self, name: str, x: Value) -> Tensor:
        """Return a variable, its last dimension split as the channels of `x` where these are split."""
        if x.sizes is not None:
            return self._variable(name, x)
        return self.parameter(name, self._own_dimensions(name))

    def _own_dimensions(self, name: str) -> list[mtf.Dimension]:
        owner = self.graph.owner(self.index)
        return [mtf.Dimension(f"layer{owner}:{name}{i}", n) for i, n in enumerate(self.shape_of(name))]

    def _state(self, begun: int, name: str) -> Tensor:
        """Return the present value of a variable that the call writes; every output of a call, and its recomputation, reads the same."""
        key = begun, name, self.microbatch
        if key not in self.states_read:
            old = self.parameter(name, self._own_dimensions(name))
            before = self._new_values.get((self.graph.owner(self.index), name))
            self.states_read[key] = mtf.stop_gradient(old if before is None else before)
        return self.states_read[key]

    def _called_shape(self, first: Value) -> mtf.Shape:
        *outer, last = self.layer.output_shape  # a calibration has layers with a part of the channels
        space = [mtf.Dimension(f"space{i}", n) for i, n in enumerate(outer)]
        channels = mtf.Dimension(f"layer{self.index}", last) if first.sizes is None else first.channels
        return mtf.Shape([first.batch, *space, channels])

    def _seed_of(self, begun: int) -> Callable[[int], tf.Tensor]:
        """Return what gives the state of a layer's random seed by its number: new in each step and microbatch."""
        step, parts = self.step, (self.seed, begun, *([self.microbatch] if self.microbatch else []))

        def state(number: int) -> tf.Tensor:
            key = zlib.crc32(repr((*parts, "keras", number)).encode()) & 0x7FFFFFFF
            seed = tf.stack([tf.constant(key, tf.int32), step])
            drawn = tf.random.stateless_uniform([1], seed, 0, 2**31 - 1, tf.int64)
            return tf.concat([drawn, tf.zeros([1], tf.int64)], 0)

        return state


@dataclasses.dataclass
class _Call:
    """Keras's call as a function of slices: (processor, *inputs, *variables, *rewritten, *squared) -> output, logits, written, loss.

    `rewritten` are the present values of trained variables that the call writes; the variables themselves have their gradients. `squared`
    are zeros whose gradients are the sums of squares of the rows of some variables.
    """

    call: LiveCall
    option: Any
    names: list[str]
    written: list[str]
    logits: bool
    losses: bool
    training: bool
    layer: str
    seed: Callable[[int], tf.Tensor] = lambda _: tf.zeros([2], tf.int64)
    key: int = 0
    samples: int = 0  # of the whole batch
    loss_dtype: tf.DType = tf.float32
    rewritten: list[str] = dataclasses.field(default_factory=list)
    squared: list[str] = dataclasses.field(default_factory=list)

    def __call__(self, p: Processor, *pieces: tf.Tensor) -> list[tf.Tensor]:
        slices, zeros = pieces[: len(pieces) - len(self.squared)], pieces[len(pieces) - len(self.squared) :]
        count = len(slices) - len(self.names) - len(self.rewritten)
        tensors, values = slices[:count], dict(zip(self.names, slices[count:]))
        leaves = {name: values[name] for name in self.rewritten}
        values |= {name: _with_gradient_of(start, leaves[name]) for name, start in zip(self.rewritten, slices[len(slices) - len(leaves) :])}
        weights = named_weights(self.call.operation)
        scope = _writing_scope()(self._hidden(), collect_losses=True, initialize_variables=False)
        scope.leaves = {id(weights[name]): tf.cast(leaf, weights[name].dtype) for name, leaf in leaves.items()}
        scope.state_mapping.update({id(weights[name]): tf.cast(value, weights[name].dtype) for name, value in values.items()})
        scope_values = dict(scope.state_mapping)
        tables = {id(weights[name]): each for name, each in zip(self.squared, zeros, strict=True)}

        def look_up(_: Any, table: Any, places: tf.Tensor, axis: int) -> tf.Tensor:
            return looked_up(tf.convert_to_tensor(table), places, tables[id(table)])

        with scope, _python_draws(self.key), self._full_draws(p), compared_by_elements(), _looking_up(tables, look_up):
            results = [self._mask(tensors)] if self.call.output == MASK_OUTPUT else keras.tree.flatten(self._run(tensors))
        y = results[max(self.call.output, 0)]
        self._check(p, y, scope.losses)
        for name, weight in weights.items():
            if (
                name in values
                and name not in (*self.written, *self.option.get("rewritten", ()))
                and weight.trainable
                and scope.get_current_value(weight) is not scope_values[id(weight)]
            ):
                raise UnsupportedError(
                    f"layer {self.layer} writes its trained {weight.name} here, which it did not when it was read", "build the model again"
                )
        outputs = [self._batched(p, y)]
        if self.logits:
            outputs.append(self._batched(p, y if logits_of(y) is None else logits_of(y)))
        outputs += [tf.stop_gradient(tf.cast(scope.get_current_value(weights[name]), values[name].dtype)) for name in self.written]
        if self.losses:
            added = [tf.cast(tf.reduce_sum(loss), self.loss_dtype) for loss in scope.losses]
            outputs.append(tf.add_n(added) if added else tf.zeros([], self.loss_dtype))
        return outputs

    def _full_draws(self, p: Processor) -> contextlib.AbstractContextManager[None]:
        """Return a context in which what a part of the samples draws is theirs of what the whole batch draws."""
        begin, own = p.begins[0][0], p.shapes[0][0]
        if "draws" not in self.option or own == self.samples:
            return contextlib.nullcontext()
        rows = self.option["draws"][0 if self.training else 1]
        return draws_of_full_batch(rows, begin, own, self.samples, self.layer)

    def _hidden(self) -> list[tuple[Any, Any]]:
        seeds = seed_states(self.call.operation)
        others = [variable for variable in hidden_state(self.call.operation) if not is_seed(variable)]
        with tf.init_scope():
            constants = [np.array(variable) for variable in others]
        return [*((v, self.seed(number)) for number, v in enumerate(seeds)), *zip(others, constants)]

    def _run(self, tensors: Sequence[tf.Tensor]) -> Any:
        args, kwargs = self._arguments(tensors)
        if not is_layer(self.call.operation):
            return self.call.operation(*args, **kwargs)
        return self.call.operation(*args, **{**kwargs, "training": self.training})

    def _mask(self, tensors: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the mask of the call's first output, as Keras has it of its first argument and the mask of that."""
        args, kwargs = self._arguments(tensors)
        first = args[0] if args else next(iter(kwargs.values()))
        before = keras.tree.map_structure(mask_of, first)
        mask = keras.tree.flatten(self.call.operation.compute_mask(first, before))[0]
        if mask is None:
            raise UnsupportedError(f"layer {self.layer} gives no mask here, and did when the model was made", "build the model again")
        return mask

    def _arguments(self, tensors: Sequence[tf.Tensor]) -> tuple[Any, Any]:
        node = self.call.node
        symbols = node.arguments.keras_tensors
        shaped = [self._as_read(tensor, symbol) for tensor, symbol in zip(tensors, symbols)]
        for tensor, mask in zip(shaped, self.call.masked):
            if mask is not None:
                set_mask(tensor, tensors[len(symbols) + mask])
        tensor_of = {id(symbol): tensor for symbol, tensor in zip(symbols, shaped)}
        args, kwargs = node.arguments.convert(lambda leaf: tensor_of[id(leaf)] if id(leaf) in tensor_of else _constant(leaf))
        return args, kwargs

    def _as_read(self, tensor: tf.Tensor, symbol: Any) -> tf.Tensor:
        """Return a slice in the form in which Keras reads it: a scalar a sample has no last dimension, and what has no batch none."""
        shape = tuple(symbol.shape)
        if not self.call.has_batch(symbol):
            return tf.reshape(tensor[0], shape)
        if tensor.dtype.is_floating and tensor.dtype != tf.as_dtype(symbol.dtype):
            tensor = tf.cast(tensor, symbol.dtype)  # as at the input of a nested model
        return tensor if len(shape) == tensor.shape.rank else tf.reshape(tensor, [-1, *shape[1:]])

    def _batched(self, p: Processor, y: tf.Tensor) -> tf.Tensor:
        batch, shape = p.shapes[0][0], [1] if not self.option["shape"] else p.shapes[0][1:]
        if not self.option["batch"]:
            y = tf.broadcast_to(tf.reshape(y, [1, *shape]), [batch, *shape])
        declared = tf.as_dtype(self.option["dtype"])  # a layer that does not cast its inputs may give theirs
        return tf.reshape(tf.cast(y, declared) if y.dtype.is_floating and declared.is_floating else y, p.shapes[0])

    def _check(self, p: Processor, y: tf.Tensor, losses: Sequence[tf.Tensor]) -> None:
        if losses and not self.option["losses"]:
            raise UnsupportedError(f"layer {self.layer} adds to the loss, which depends on the whole batch", "do not declare it samplewise")
        size = y.shape.num_elements()
        expected = math.prod(p.shapes[0]) if self.option["batch"] else math.prod(p.shapes[0][1:])
        if size is not None and size != expected:
            raise LayoutError(f"Keras gives {tuple(y.shape)} for the slice {p.shapes[0]}", "keep the batch the first dimension")


def _tables(call: LiveCall) -> list[str]:
    """Return the names of the weights whose rows the samples of a batch look up by an Embedding in a call, without a penalty.

    Rows that all samples share, as those of places, are looked up once, whatever part of the batch there is.
    """
    inner = [layer for layer in layers_in(call.operation) if isinstance(layer, keras.layers.Embedding) and layer.built]
    tables = {id(table_of(layer)) for layer in inner if layer.embeddings_regularizer is None and not layer.lora_enabled}
    of_samples: dict[int, bool] = {}

    def note(own: Callable[..., Any], x: Any, indices: Any, axis: Any) -> Any:
        of_samples[id(x)] = of_samples.get(id(x), True) and bool(indices.shape.rank) and indices.shape[0] == _SAMPLES
        return own(x, indices, axis)

    if tables:
        with tf.Graph().as_default(), present_tensors(), _looking_up(tables, note):
            call_on_placeholders(call, _SAMPLES, training=True)
    return [name for name, variable in named_weights(call.operation).items() if of_samples.get(id(variable))]


@contextlib.contextmanager
def _looking_up(tables: Collection[int], instead: Callable[..., Any]) -> Iterator[None]:
    """Let look-ups of rows in some Keras variables, by their id, be made by a function: (Keras's own, variable, indices, axis) -> rows."""
    if not tables:
        yield
        return
    def taking(own: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, indices, axis=None: instead(own, x, indices, axis) if axis == 0 and id(x) in tables else own(x, indices, axis)

    with replaced(keras_operations, "take", taking):
        yield


def _with_gradient_of(value: tf.Tensor, leaf: tf.Tensor) -> tf.Tensor:
    """Return a value whose gradient is that of another tensor of its shape."""
    return tf.stop_gradient(value) + (leaf - tf.stop_gradient(leaf))


@functools.cache
def _writing_scope() -> Any:
    """Return a stateless scope of Keras in which the gradient of a variable that is written is that of what was written.

    So it is under a gradient tape, which counts every read of a variable, and no assignment to it.
    """
    class WritingScope(keras.StatelessScope):
        leaves: Mapping[int, tf.Tensor] = {}

        def add_update(self, update: Any) -> None:
            variable, value = update
            leaf = self.leaves.get(id(variable))
            super().add_update((variable, value if leaf is None else _with_gradient_of(tf.cast(value, leaf.dtype), leaf)))

    return WritingScope


def _replaced(new: Any, _: Any) -> Any:
    return new


@contextlib.contextmanager
def _python_draws(key: int) -> Iterator[None]:
    """Let what draws by Python's and NumPy's generators while the graph is built draw the same on every processor.

    One thread does so at a time: two that leave in turns would leave the generators where one of them set them.
    """
    with _GENERATORS:
        before = random.getstate(), np.random.get_state()
        random.seed(key)
        np.random.seed(key)
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])


def _constant(leaf: Any) -> Any:
    """Return an argument as the program's graph can hold it: tensors of the present as arrays."""
    return leaf.numpy() if isinstance(leaf, tf.Tensor) and hasattr(leaf, "numpy") else leaf


def _names(option: Any) -> list[str]:
    return [name for name, _, _ in option["variables"]]


def _last_activation(call: LiveCall) -> str:
    """Return "softmax" or "sigmoid" where a call ends in that function, whose input Keras takes for the loss; "" otherwise."""
    operation = call.operation
    name = getattr(getattr(operation, "activation", None), "__name__", "") if is_layer(operation) else type(operation).__name__.lower()
    names = ("Activation", "Dense", "EinsumDense", "Softmax", "Sigmoid")
    last = type(operation).__name__ in names or "Conv" in type(operation).__name__
    return name if last and name in ("softmax", "sigmoid") and call.output == 0 and not getattr(operation, "return_sequences", None) else ""
