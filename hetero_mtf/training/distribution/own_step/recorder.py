"""Recorder: what a training step of the user's own does with symbolic tensors.

While it records, layers, losses, functions of Keras and of TensorFlow take Keras's symbolic tensors, and each call becomes a node of a
functional model. The gradient tape, the optimizer and the metrics note what they are asked for.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.graph_of_calls import functional_of
from hetero_mtf.keras_reading.operations import is_of_keras, is_symbol, layers_in
from hetero_mtf.keras_reading.private_names import (
    Dispatcher,
    compile_loss,
    compile_metrics,
    input_structure,
    loss_tracker,
    mask_of,
    may_train_otherwise,
    own_metrics,
    remove_dispatcher,
    set_dense,
)
from hetero_mtf.keras_reading.traced_calls.replacements import replaced
from hetero_mtf.training.distribution.own_step.wrappers import wrappers

_DRAWN = ("rate", "dropout", "_dropout", "recurrent_dropout")  # rates of what layers drop in training
_UNDISPATCHED = ("shape", "size", "rank")  # functions of TensorFlow that fail on symbolic tensors before they are dispatched
_SAME_IN_BOTH = frozenset(  # Keras's layers that take `training`, for what is in them or dropped only
    {
        *("Dense", "EinsumDense", "Embedding", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout"),
        *("RNN", "LSTM", "GRU", "SimpleRNN", "LSTMCell", "GRUCell", "SimpleRNNCell", "StackedRNNCells", "Bidirectional"),
        *("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "TimeDistributed"),
        *("Attention", "AdditiveAttention", "MultiHeadAttention", "GroupedQueryAttention"),
    }
)


class Update(NamedTuple):
    """An update of a metric.

    Parameters
    ----------
    metric : keras.metrics.Metric.
    arguments, options : what `update_state` was called with; symbolic tensors among it.
    """

    metric: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]


class MetricValue(NamedTuple):
    """Stands for the result of a metric after its updates."""

    metric: Any


class _Gradient(NamedTuple):
    variable: Any


class Recorder:
    """Records one training step.

    Parameters
    ----------
    model : compiled keras.Model with a step of its own.

    Attributes
    ----------
    losses : those whose gradients were taken.
    applied : variables whose gradients the optimizer was given.
    updates : of metrics, in order.
    default_losses : values that Keras's own `compute_loss` returns.
    asked_for_losses : whether something other than that looked at what layers add to the loss.
    layers_add : whether a layer added to the loss.
    added : what layers that are followed add to it.
    inference : by layer, what stands for those that are called outside of training.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.losses: list[Any] = []
        self.applied: list[Any] = []
        self.updates: list[Update] = []
        self.default_losses: list[Any] = []
        self.added: list[Any] = []
        self.asked_for_losses = self.layers_add = False
        self.inference: dict[int, Any] = {}
        self._inside = False
        self._training: bool | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Take symbolic tensors everywhere while the context is open."""
        recorder = self

        class Functions(Dispatcher):  # type: ignore[misc]
            def handle(self, op: Any, args: Any, kwargs: Any) -> Any:
                if not any(is_symbol(leaf) for leaf in keras.tree.flatten((args, kwargs))):
                    return self.NOT_SUPPORTED
                return recorder._computed(op, args, kwargs)

        functions = Functions()
        base = keras.Model.__mro__
        trainer = next(kind for kind in base if "compute_loss" in vars(kind))
        losses = next(kind for kind in base if "losses" in vars(kind))
        layer, loss = keras.layers.Layer, keras.losses.Loss
        with contextlib.ExitStack() as stack:
            patched = stack.enter_context
            patched(replaced(layer, "__call__", lambda own: lambda *args, **kwargs: self._layer_call(own, args, kwargs)))
            patched(replaced(loss, "__call__", lambda own: lambda *args, **kwargs: self._loss_call(own, args, kwargs)))
            patched(replaced(layer, "add_loss", lambda own: lambda *args, **kwargs: self._add_loss(own, args, kwargs)))
            patched(replaced(losses, "losses", lambda own: lambda each: self._losses()))
            patched(replaced(trainer, "compute_loss", lambda own: lambda *args, **kwargs: self._default_loss(own, args, kwargs)))
            patched(replaced(tf.GradientTape, "gradient", lambda own: lambda *args, **kwargs: self._gradient(*args, **kwargs)))
            for name in _UNDISPATCHED:
                patched(_set(tf, name, self._function(getattr(tf, name))))
            optimizer = self._model.optimizer
            for name in ("apply_gradients", "apply"):
                patched(_set(optimizer, name, getattr(self, f"_{name}")))

            def watch(metric: Any) -> None:
                patched(_set(metric, "update_state", self._update(metric)))
                patched(_set(metric, "result", lambda: MetricValue(metric)))

            for metric in self._metrics():
                watch(metric)
            patched(replaced(keras.metrics.Metric, "__init__", lambda own: _followed_by(own, watch)))  # of the losses of outputs, now
            functions.register()
            stack.callback(remove_dispatcher, functions)
            yield

    def _function(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is a call of Keras's where it is given symbolic tensors."""
        def function(*args: Any, **kwargs: Any) -> Any:
            symbolic = any(is_symbol(leaf) for leaf in keras.tree.flatten((args, kwargs)))
            return self._computed(own, args, kwargs) if symbolic else own(*args, **kwargs)

        return function

    def _metrics(self) -> list[Any]:
        model = self._model
        loss = compile_loss(model)
        held = [loss_tracker(model), compile_metrics(model), *(() if loss is None else loss.metrics)]
        held += [metric for layer in layers_in(model) for metric in own_metrics(layer)]
        return list({id(metric): metric for metric in held if metric is not None}.values())

    def _update(self, metric: Any) -> Callable[..., None]:
        def update_state(*arguments: Any, **options: Any) -> None:
            self.updates.append(Update(metric, arguments, options))

        return update_state

    def _gradient(self, tape: Any, target: Any, sources: Any, *rest: Any, **options: Any) -> list[Any]:
        if not is_symbol(target):
            raise UnsupportedError("it takes the gradient of what is no symbolic tensor")
        self.losses.append(target)
        return [_Gradient(variable) for variable in sources]

    def _apply_gradients(self, pairs: Any, *rest: Any, **options: Any) -> None:
        gradients, variables = zip(*pairs)
        self._apply(gradients, variables)

    def _apply(self, gradients: Sequence[Any], variables: Sequence[Any] | None = None) -> None:
        variables = [gradient.variable for gradient in gradients] if variables is None else list(variables)
        for gradient, variable in zip(gradients, variables, strict=True):
            if not isinstance(gradient, _Gradient) or gradient.variable is not variable:
                raise UnsupportedError("it changes gradients before they are applied")
        self.applied += variables

    def _losses(self) -> list[Any]:
        self.asked_for_losses = True
        return []

    def _add_loss(self, own: Any, args: Any, kwargs: Any) -> None:
        self.layers_add = True
        added = keras.tree.flatten((args[1:], kwargs))
        if any(is_symbol(loss) for loss in added):
            self.added += added
        else:
            own(*args, **kwargs)

    def _default_loss(self, own: Any, args: Any, kwargs: Any) -> Any:
        """Return Keras's own sum: the loss that the model was compiled with, and what layers add; regularizers add to it elsewhere."""
        given = inspect.signature(own).bind(*args, **kwargs).arguments
        model = given["self"]
        parts = [keras.ops.sum(each) for each in self.added]
        loss = compile_loss(model)
        if loss is not None:
            parts.insert(0, loss(given.get("y"), given["y_pred"], given.get("sample_weight")))
        if not parts:
            raise UnsupportedError("there is no loss")
        value = sum(parts[1:], parts[0])
        self.default_losses.append(value)
        return value

    def _computed(self, function: Any, args: Any, kwargs: Any) -> Any:
        layer = wrappers().computed(function, args, kwargs)
        tensors = [leaf for leaf in keras.tree.flatten((list(args), dict(kwargs))) if is_symbol(leaf)]
        for tensor in tensors:
            set_dense(tensor)  # as batches are here
        inside, self._inside = self._inside, True
        try:
            return layer(tensors)
        finally:
            self._inside = inside

    def _loss_call(self, own: Any, args: Any, kwargs: Any) -> Any:
        loss, *given = args
        leaves = keras.tree.flatten((given, kwargs))
        if self._inside or not any(is_symbol(leaf) for leaf in leaves):
            return own(*args, **kwargs)
        if any(mask_of(leaf) is not None for leaf in leaves):
            raise UnsupportedError("its loss is given predictions with a mask")
        return self._computed(loss, given, {key: value for key, value in kwargs.items() if value is not None})

    def _layer_call(self, own: Any, args: Any, kwargs: Any) -> Any:
        layer, *given = args
        if self._inside or not any(is_symbol(leaf) for leaf in keras.tree.flatten((given, kwargs))):
            return own(*args, **kwargs)
        training = kwargs.get("training", self._training)
        options = {key: value for key, value in kwargs.items() if key != "training"}
        if holds_metrics(layer) or (isinstance(layer, keras.Model) and functional_of_built(layer) is None):
            return self._opened(layer, given, options, training)
        given = _of_its_ranks(layer, given)
        if not training and depends_on_training(layer):
            layer = self.inference.setdefault(id(layer), wrappers().inference(layer))
        inside, self._inside = self._inside, True
        try:
            return own(layer, *given, **options)
        finally:
            self._inside = inside

    def _opened(self, model: Any, given: Sequence[Any], options: dict[str, Any], training: bool | None) -> Any:
        """Return what the call of a subclassed model, or of a layer that updates metrics, gives, its operations followed."""
        before, self._training = self._training, training
        try:
            if training is not None and may_train_otherwise(model):
                options = {**options, "training": training}
            return model.call(*given, **options)
        finally:
            self._training = before


def _of_its_ranks(layer: Any, given: Sequence[Any]) -> list[Any]:
    """Return what a layer is called with; of a functional or sequential model with a last dimension of 1 added or dropped, as it does."""
    function = functional_of_built(layer) if isinstance(layer, keras.Model) and layer.built else None
    inputs = [] if function is None else keras.tree.flatten(input_structure(functional_of(function)))
    leaves = keras.tree.flatten(list(given))
    if len(inputs) != len(leaves) or not all(is_symbol(leaf) for leaf in leaves):
        return list(given)
    adapted = [_of_rank(leaf, own.shape) for leaf, own in zip(leaves, inputs)]
    return list(keras.tree.pack_sequence_as(list(given), adapted))


def _of_rank(symbol: Any, own: Sequence[int | None]) -> Any:
    if len(symbol.shape) == len(own) - 1 and own[-1] == 1:
        return keras.ops.expand_dims(symbol, -1)
    return keras.ops.squeeze(symbol, -1) if len(symbol.shape) == len(own) + 1 and symbol.shape[-1] == 1 else symbol


def holds_metrics(layer: Any) -> bool:
    """Return whether a layer, or one in it, has metrics, which its call updates.

    Parameters
    ----------
    layer : keras.layers.Layer, such as a model, or another operation.
    """
    inner = layers_in(layer)
    return any(not isinstance(each, keras.Model) and own_metrics(each) for each in inner)


def functional_of_built(model: Any) -> Any | None:
    """Return the graph of calls of a functional or sequential model, None for another one; a sequential one need not be built.

    Parameters
    ----------
    model : keras.Model.
    """
    if isinstance(model, keras.Sequential) and type(model).call is keras.Sequential.call:
        return model
    return functional_of(model)


def depends_on_training(layer: Any) -> bool:
    """Return whether a layer, or one in it, may compute something else in training than outside of it.

    Parameters
    ----------
    layer : keras.layers.Layer, or another operation.
    """
    for each in layers_in(layer):
        plain = isinstance(each, keras.Model) and functional_of_built(each) is not None
        known = is_of_keras(each) and type(each).__name__ in _SAME_IN_BOTH
        same = known and not any(getattr(each, name, 0.0) for name in _DRAWN)
        if not plain and not same and may_train_otherwise(each):
            return True
    return False


def _followed_by(own_init: Callable[..., None], watch: Callable[[Any], None]) -> Callable[..., None]:
    """Return an `__init__` after which something is done with the object."""

    @functools.wraps(own_init)
    def init(own: Any, *args: Any, **kwargs: Any) -> None:
        own_init(own, *args, **kwargs)
        watch(own)

    return init


@contextlib.contextmanager
def _set(value: Any, name: str, replacement: Any) -> Iterator[None]:
    """Let an object have an attribute of its own while the context is open."""
    had = name in vars(value)
    own = vars(value).get(name)
    object.__setattr__(value, name, replacement)
    try:
        yield
    finally:
        if had:
            object.__setattr__(value, name, own)
        else:
            vars(value).pop(name, None)
