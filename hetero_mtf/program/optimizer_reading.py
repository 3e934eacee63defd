"""Reads a Keras optimizer as an update rule, and as a record."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.private_names import excludes_from_decay, optimizer_map, rate_of, set_rate
from hetero_mtf.mesh.framework_versions import check_frameworks
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec, optimizer_name
from hetero_mtf.program.keras_rule import KerasSteps, optimizer_config
from hetero_mtf.program.loss_scale import LossScaling
from hetero_mtf.program.optimizers import SGD, Adam, KerasRule, SeveralRules, UpdateRule

FUSED = ("SGD", "Adam", "AdamW")  # optimizers that TensorFlow has kernels of
_CAST_OPTIONS = ("momentum", "beta_1", "beta_2", "weight_decay")
_NOT_FUSED = ("use_ema", "gradient_accumulation_steps")  # options that the kernels do not have


def keras_optimizer(optimizer: Any) -> Any:
    """Return the Keras optimizer of a name, or the object itself.

    Raises
    ------
    UnsupportedError
        If it is none.
    """
    try:
        return keras.optimizers.get(optimizer)
    except (ValueError, TypeError) as fault:
        raise UnsupportedError(f"the optimizer {optimizer!r} is unknown to Keras", "give a name or object of keras.optimizers") from fault


def optimizer_spec(optimizer: Any) -> OptimizerSpec:
    """Return the record of a Keras optimizer; of one that scales the loss, of the inner one.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer.
    """
    return OptimizerSpec.from_config(optimizer_name(optimizer), optimizer_config(getattr(optimizer, "inner_optimizer", optimizer)))


def optimizer_of_spec(spec: OptimizerSpec) -> Any:
    """Return a Keras optimizer of a record, whose other options, such as the learning rate, are Keras's defaults.

    Raises
    ------
    UnsupportedError
        If its class is none of Keras's own that can be made from these options.
    """
    try:
        return keras.optimizers.get({"class_name": spec.name, "config": spec.options})
    except (ValueError, TypeError, KeyError) as fault:
        raise UnsupportedError(f"Keras cannot make the optimizer {spec} by its name and options", "give another optimizer") from fault


def read_optimizer(optimizer: Any, dtype: str, fused: bool = True) -> tuple[UpdateRule, Any]:
    """Return the update rule of a Keras optimizer, and a copy of the optimizer for its learning rates.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer, or a name such as "adam".
    dtype : dtype of the variables.
    fused : whether TensorFlow's kernels may be used, which round otherwise than Keras where a variable has half precision.

    Raises
    ------
    UnsupportedError
        If it is none, or one of several optimizers, or the installed TensorFlow or Keras is too old.
    """
    check_frameworks()
    instance = keras_optimizer(optimizer)
    if isinstance(instance, keras.optimizers.LossScaleOptimizer):
        rule, copied = read_optimizer(instance.inner_optimizer, dtype, fused)
        rule.loss_scaling = LossScaling(float(instance.initial_scale), int(instance.dynamic_growth_steps))
        return rule, keras.optimizers.LossScaleOptimizer(copied, rule.loss_scaling.initial, rule.loss_scaling.growth_steps)
    if isinstance(instance, getattr(keras.optimizers, "MultiOptimizer", ())):  # since Keras 3.15
        return _several(instance, dtype, fused)
    name = type(instance).__name__
    config, copied = _copied(instance)
    own = getattr(keras.optimizers, name, None) is type(instance) and name in FUSED
    if not own or excludes_from_decay(instance) or not fused or any(config.get(option) for option in _NOT_FUSED):
        return KerasRule(config, {}, KerasSteps(instance)), copied
    numbers = {key: value for key, value in config.items() if key in _CAST_OPTIONS and value is not None}
    cast = {key: float(np.asarray(keras.ops.cast(value, dtype))) for key, value in numbers.items()}
    rule = SGD(config, cast) if name == "SGD" else Adam(config, cast)
    return rule, copied


def _several(optimizer: keras.optimizers.Optimizer, dtype: str, fused: bool) -> tuple[UpdateRule, Any]:
    """Return the rule of a MultiOptimizer, and a copy of it."""
    if not isinstance(optimizer_map(optimizer), keras.optimizers.OptimizerMap):
        raise UnsupportedError("the optimizer MultiOptimizer maps variables by a function", "give a keras.optimizers.OptimizerMap")
    _, copied = _copied(optimizer)
    rules = [read_optimizer(each, dtype, fused)[0] for each in copied.optimizers]
    return SeveralRules(rules, lambda live: copied.optimizers.index(optimizer_map(copied)(live))), copied


def _copied(optimizer: keras.optimizers.Optimizer) -> tuple[dict[str, Any], Any]:
    """Return a Keras optimizer's configuration and an independent copy made from it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about lambdas
        try:
            config = optimizer.get_config()
            return config, type(optimizer).from_config(config)
        except (NotImplementedError, TypeError, ValueError):
            return _with_its_rate(optimizer)


def _with_its_rate(optimizer: keras.optimizers.Optimizer) -> tuple[dict[str, Any], Any]:
    """Return the configuration, and a copy that shares the learning rate, such as a schedule that cannot be written down.

    It gives a rate for a step, whichever optimizer asks.
    """
    try:
        config = optimizer_config(optimizer)
        copied = type(optimizer).from_config(dict(config))
    except (NotImplementedError, TypeError, ValueError) as fault:
        said = " ".join(str(fault).split())[:120]
        wrong = f"the optimizer {type(optimizer).__name__} has options that Keras cannot copy ({said})"
        raise UnsupportedError(wrong, "give its class a get_config that returns them") from fault
    set_rate(copied, rate_of(optimizer))
    return config, copied
