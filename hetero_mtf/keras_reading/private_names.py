"""Every private name of Keras and TensorFlow that this project leans on, each with why, and since when it is as it is used here.

"all" stands for the supported versions: the names were read in Keras 3.8 and 3.15 and in TensorFlow 2.16 and 2.21, and the tests pass on
those between. Nothing else here uses names of theirs that begin with an underscore or lie below `keras.src` or `tensorflow.python`, but
for `mesh.compat` and `mesh.collectives.nccl`, as Mesh-TensorFlow is used without Keras, too, and `runtime.processes.server_tensorflow`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras.src.ops as keras_operations  # where Keras's own code looks its operations up, so that it gets a replacement (all)
import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer  # its methods assign TensorFlow's variables, past Keras's scopes (all)
from keras.src.losses.losses import LossFunctionWrapper  # Keras makes one of a function itself, but without giving it a name (all)
from keras.src.models.functional import Functional  # `keras.Model(inputs, outputs)` makes one; it has no public name (all)
from keras.src.optimizers.base_optimizer import (
    BaseOptimizer,  # its methods assign Keras variables; `keras.Optimizer` has TFOptimizer's (all)
)
from keras.src.random.seed_generator import global_seed_generator  # the seed that layers without one share (all)
from keras.src.trainers.data_adapters import get_data_adapter  # tells of any data how many batches they have (all)
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter  # makes a dataset of arrays (all)
from keras.src.trainers.data_adapters.data_adapter import DataAdapter  # what Keras's loops take as it is (all)
from keras.src.utils import tracking  # the lists and dicts that layers keep what they track in: a deep copy would track it twice (all)
from tensorflow.python.eager.context import eager_mode  # `tf.init_scope` leaves a graph, but does not compute at once within it (all)
from tensorflow.python.framework.ops import _EagerTensorBase  # `tf.Tensor` is its base, and that of symbolic ones too (all)
from tensorflow.python.ops import gen_stateless_random_ops_v2 as stateless_random  # makes what Keras draws by (all)
from tensorflow.python.util import dispatch  # takes any function of TensorFlow on symbolic tensors of Keras (all)

__all__ = ["DataAdapter", "Functional", "LossFunctionWrapper", "get_data_adapter", "keras_operations", "stateless_random"]
EagerTensor: Any = _EagerTensorBase
TRACKED: tuple[Any, ...] = (tracking.TrackedList, tracking.TrackedDict, tracking.TrackedSet)
Dispatcher: Any = dispatch.GlobalOpDispatcher
_OVERRIDDEN = (
    *("assign", "assign_add", "assign_sub", "add_variable_from_reference", "_var_key", "_apply_weight_decay"),
    *("_backend_update_step", "_overwrite_model_variables_with_average_value", "_clip_by_norm"),
)
WIRING = ("_inbound_nodes", "_outbound_nodes")
"""Attributes of an operation that hold the calls of which it is part; a copy without the others' layers leaves them out (all)."""


# Graphs of calls


def input_structure(function: Any) -> Any:
    """Return the symbolic inputs of a graph of calls as the user packed them: `inputs` is flat (all)."""
    return function._inputs_struct


def output_structure(function: Any) -> Any:
    """Return the symbolic outputs of a graph of calls as the user packed them: `outputs` is flat (all)."""
    return function._outputs_struct


def calls_in(function: Any) -> list[Any]:
    """Return the Keras nodes of a graph of calls, in the order in which they run: `operations` says not which calls are its (all)."""
    return [node for depth in sorted(function._nodes_by_depth, reverse=True) for node in function._nodes_by_depth[depth]]


def calls_of(operation: Any) -> list[Any]:
    """Return the Keras nodes of all calls of an operation, in every model: there is no other way to a call's arguments (all)."""
    return list(operation._inbound_nodes)


def source_of(symbol: Any) -> Any:
    """Return (operation, node_index, tensor_index) of what a symbolic tensor comes from: it is kept nowhere else (all)."""
    return symbol._keras_history


def run_through(function: Any, inputs: Sequence[Any], operation_fn: Callable[[Any], Any]) -> Any:
    """Return the outputs of a graph of calls with other inputs and functions in place of its operations, in Keras's own order (all)."""
    return function._run_through_graph(list(inputs), operation_fn=operation_fn)


def sequential_function(model: Any) -> Any | None:
    """Return the graph of calls of a sequential model, None for one that is not built: `layers` leaves its inputs out (all)."""
    return model._functional


def shapes_built_with(model: Any) -> dict[str, Any]:
    """Return the shapes by the names of arguments that a model was built with: `get_build_config` is there to be overridden (all)."""
    return getattr(model, "_build_shapes_dict", None) or {}


# Symbolic tensors


def mask_of(tensor: Any) -> Any | None:
    """Return the mask that a tensor carries, None for none: `keras.ops` has no function for it (all)."""
    return getattr(tensor, "_keras_mask", None)


def set_mask(tensor: Any, mask: Any) -> None:
    """Let a tensor carry a mask: losses and layers look for it there (all)."""
    tensor._keras_mask = mask


def logits_of(tensor: Any) -> Any | None:
    """Return the logits that a softmax or sigmoid was computed from, None for none: Keras's losses use them where they are (all)."""
    return getattr(tensor, "_keras_logits", None)


def set_logits(tensor: Any, logits: Any) -> None:
    """Let a tensor carry the logits that it was computed from (all)."""
    tensor._keras_logits = logits


def set_shape(symbol: Any, shape: tuple[int | None, ...]) -> None:
    """Say a symbolic tensor's extents better than the call that gave it: its `shape` cannot be set (all)."""
    symbol._shape = shape


def set_dense(symbol: Any) -> None:
    """Say that a symbolic tensor is dense: Keras takes the product with a number for sparse, and `sparse` cannot be set (all)."""
    symbol._sparse = False


# Layers


def inner_layers(layer: Any) -> list[Any]:
    """Return a layer and all layers in it, at any depth: `layers` has those of a model, one deep (all)."""
    return list(layer._flatten_layers())


def may_train_otherwise(layer: Any) -> bool:
    """Return whether a layer's call takes `training`, True where that is not known: Keras looked at its signature (all)."""
    return bool(getattr(layer, "_call_has_training_arg", True))


def own_untrained_variables(layer: Any) -> list[Any]:
    """Return the variables that a layer made untrained: `non_trainable_weights` also has those that the user has frozen since (all)."""
    return list(layer._non_trainable_variables)


def projections(layer: Any) -> tuple[Any, Any, Any, Any]:
    """Return the layers inside of multi-head attention: of queries, keys, values, and of the output; it has no names for them (all)."""
    return layer._query_dense, layer._key_dense, layer._value_dense, layer._output_dense


def attention_scale(layer: Any) -> float:
    """Return what multi-head attention multiplies queries by; grouped-query attention has another name for it (all)."""
    return float(getattr(layer, "_inverse_sqrt_key_dim", None) or layer._inverse_sqrt_head_dim)


def attention_axes(layer: Any) -> tuple[int, ...]:
    """Return the axes that multi-head attention attends over; grouped-query attention has none but 1 (all)."""
    return tuple(getattr(layer, "_attention_axes", (1,)))


def attention_extras(layer: Any) -> list[Any]:
    """Return the options of attention beyond the plain one: dropout (all), a gate and a window (later than 3.8)."""
    names = ("dropout", "_dropout", "_use_gate", "use_gate", "_sliding_window", "sliding_window", "activity_regularizer")
    return [value for name in names if (value := getattr(layer, name, None))]


def table_of(embedding: Any) -> Any:
    """Return the variable of an Embedding: `embeddings` is a sum where it has low-rank weights, or is a tensor of whole numbers (all)."""
    return embedding._embeddings


def shared_seed_state() -> Any:
    """Return the state of the seed that all layers without one of their own share.

    Keras makes the seed when it is first used: here, in no graph of ours, and with Python's generator, from which the next model's initial
    weights are drawn, left as it was.
    """
    state_before = random.getstate()
    with eager_mode():
        state = global_seed_generator().state
    random.setstate(state_before)
    return state


# Compiled models


def compile_loss(model: Any) -> Any | None:
    """Return the loss that a model was compiled with, with the trackers of its outputs: `model.loss` is what the user gave (all)."""
    return model._compile_loss


def compile_metrics(model: Any) -> Any | None:
    """Return the metrics that a model was compiled with, None for none: `metrics` mixes them with those of layers (all)."""
    return getattr(model, "_compile_metrics", None)


def compiled_with(model: Any) -> tuple[Any, Any, Any]:
    """Return the loss weights, metrics and weighted metrics as the user gave them to `compile`: nothing public has them (all)."""
    metrics = compile_metrics(model)
    weights = getattr(model._compile_loss, "_user_loss_weights", None)
    return weights, getattr(metrics, "_user_metrics", None), getattr(metrics, "_user_weighted_metrics", None)


def loss_tracker(model: Any) -> Any:
    """Return the metric that is shown as `loss`: History takes it from there, not from what the train function returns (all)."""
    return model._loss_tracker


def own_metrics(layer: Any) -> list[Any]:
    """Return the metrics that a layer made itself: `metrics` of a model also has those of layers in it (all)."""
    return list(getattr(layer, "_metrics", None) or ())


def build_with(model: Any, data: Any) -> None:
    """Build a model, and the metrics that it was compiled with, by the symbolic tensors of a batch (x, y, sample_weight) (all)."""
    model._symbolic_build(data_batch=data)


def begin_at(model: Any, epoch: int | None) -> None:
    """Let Keras's loop begin at an epoch, None for its argument: it looks again after the callbacks' `on_train_begin` (all)."""
    model._initial_epoch = epoch


@contextlib.contextmanager
def untuned_datasets() -> Iterator[None]:
    """Let the datasets that Keras makes of arrays meanwhile be without tf.data's tuning of threads and buffers (all).

    A tuned iterator that ends waits for its tuning thread, which may miss the call and sleep for as long as the iterator has lived.
    Slicing arrays has nothing to tune.
    """
    tuned = ArrayDataAdapter.get_tf_dataset

    def untuned(adapter: Any) -> Any:
        options = tf.data.Options()
        options.autotune.enabled = False
        return tuned(adapter).with_options(options)

    ArrayDataAdapter.get_tf_dataset = untuned
    try:
        yield
    finally:
        ArrayDataAdapter.get_tf_dataset = tuned


# Callbacks


def train_writer(board: Any) -> Any:
    """Return the writer of a TensorBoard callback's events of training; others get it by batch, and not where it writes by epoch (all)."""
    return board._train_writer


# Optimizers


def rate_of(optimizer: Any) -> Any:
    """Return the learning rate as it was given, such as a schedule: `learning_rate` is its present number (all)."""
    return getattr(optimizer, "_learning_rate", None)


def set_rate(optimizer: Any, rate: Any) -> None:
    """Give an optimizer a rate or schedule as it is: `learning_rate` makes a variable of it, or assigns that (all)."""
    object.__setattr__(optimizer, "_learning_rate", rate)


def steps_of(optimizer: Any) -> Any:
    """Return the variable that counts an optimizer's steps: `iterations` is the number of updates where gradients are added up (all)."""
    return optimizer._iterations


def updated_variables(optimizer: Any) -> list[Any]:
    """Return the variables that a built optimizer updates, in the order of its slots: nothing public has them (all)."""
    return list(optimizer._trainable_variables)


def added_gradients(optimizer: Any) -> list[Any]:
    """Return the variables in which an optimizer adds gradients up over steps, in the order of its variables (all)."""
    return list(optimizer._accumulated_gradients)


def optimizer_map(optimizer: Any) -> Any:
    """Return what gives each variable its optimizer in a MultiOptimizer (3.15)."""
    return optimizer._optimizer_map


def excludes_from_decay(optimizer: Any) -> bool:
    """Return whether weight decay leaves variables out: `exclude_from_weight_decay` can only be told, not asked (all)."""
    return any(getattr(optimizer, name, None) for name in ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern"))


def decays(optimizer: Any, variable: Any) -> bool:
    """Return whether an optimizer's weight decay applies to a variable (all)."""
    return bool(optimizer._use_weight_decay(variable))


def set_decay(optimizer: Any, applies: bool) -> None:
    """Say whether an optimizer's weight decay applies to all variables: it would ask by the names of theirs (all)."""
    optimizer._use_weight_decay = lambda _: applies


def update_once(optimizer: Any, variable: Any, gradient: Any, rate: Any) -> None:
    """Let an optimizer update one variable, weight decay first: `apply` would clip, add up and average by its own state (all)."""
    optimizer._apply_weight_decay([variable])
    optimizer._backend_update_step([gradient], [variable], rate)


def update_average(optimizer: Any, variable: Any) -> None:
    """Let an optimizer update the moving average of a variable: `apply` does it together with the rest (all)."""
    optimizer._update_model_variables_moving_average([variable])


def name_as(variable: Any, named: Any) -> None:
    """Give a variable the names of another, by which optimizers tell variables apart: they cannot be set (all)."""
    variable._name, variable._path = named.name, named.path


def stateless_optimizer(kind: Any) -> Any:
    """Return a subclass of an optimizer's class that assigns Keras variables, not those of TensorFlow, at the rate in `fed_rate` if any.

    The backend's class updates TensorFlow's variables, in a merge call of `tf.distribute`, past Keras's stateless scope (all).

    Parameters
    ----------
    kind : subclass of keras.Optimizer.
    """
    members: dict[str, Any] = {
        name: getattr(BaseOptimizer, name) for name in _OVERRIDDEN if getattr(kind, name) is getattr(TFOptimizer, name, None)
    }

    def stepped(self: Any, _: Any, grads_and_vars: Any, learning_rate: Any) -> None:
        for (gradient, _), variable in zip(grads_and_vars, self._trainable_variables):
            self.update_step(gradient, variable, learning_rate)

    def rate(self: Any) -> Any:
        return kind._get_current_learning_rate(self) if self.fed_rate is None else self.fed_rate

    members["_distributed_tf_update_step"] = stepped
    members["_all_reduce_sum_gradients"] = lambda self, grads_and_vars: grads_and_vars
    members["_get_current_learning_rate"] = rate
    return type(kind.__name__, (kind,), members)


# TensorFlow


def builds_function(graph: Any) -> bool:
    """Return whether a TensorFlow graph is that of a `tf.function`: it takes eager tensors in, which a plain graph does not (all)."""
    return bool(graph.building_function)


def loop_body(operation: Any) -> Any | None:
    """Return the graph of a loop's body while a gradient is being built, None of another operation: the function is not yet made (all)."""
    return getattr(operation, "_body_graph", None)


def takes_eager_tensors() -> bool:
    """Return whether TensorFlow takes eager tensors as they are here: where it computes at once, or builds a `tf.function`."""
    return bool(tf.executing_eagerly() or builds_function(tf.compat.v1.get_default_graph()))


def remove_dispatcher(dispatcher: Any) -> None:
    """Undo the registration of a dispatcher of all functions: TensorFlow has `register` only (all)."""
    dispatch._GLOBAL_DISPATCHERS.remove(dispatcher)
