"""The Keras optimizer to train with, as it is chosen on the command line or by a model's file; imported after TensorFlow is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from hetero_mtf.commands.options.shared import OPTIMIZERS, OptimizerChoice


def optimizer_of(choice: OptimizerChoice, steps: int | None = None) -> Any:
    """Return the Keras optimizer of a choice.

    Parameters
    ----------
    choice : the optimizer and its options.
    steps : steps of the whole training, over which the learning rate falls; None leaves it as it is.
    """
    if choice.configuration is not None:
        return _configured(choice, choice.configuration, steps)
    rate: Any = OPTIMIZERS[choice.name] if choice.learning_rate is None else choice.learning_rate
    if choice.decay == "cosine" and steps is not None:
        rate = keras.optimizers.schedules.CosineDecay(rate, steps)
    if choice.name == "sgd":
        return keras.optimizers.SGD(rate, momentum=choice.momentum)
    return {"adam": keras.optimizers.Adam, "adamw": keras.optimizers.AdamW}[choice.name](rate)


def _configured(choice: OptimizerChoice, configuration: Mapping[str, Any], steps: int | None) -> Any:
    """Return the optimizer of a configuration."""
    options = dict(configuration["config"])
    rate: Any = options.get("learning_rate") if choice.learning_rate is None else choice.learning_rate
    if isinstance(rate, Mapping):
        rate = getattr(keras.optimizers.schedules, rate["class_name"]).from_config(dict(rate["config"]))
    if choice.decay == "cosine" and steps is not None:
        first = rate(0) if callable(rate) else rate
        rate = keras.optimizers.schedules.CosineDecay(float(first), steps)
    return getattr(keras.optimizers, configuration["class_name"])(**{**options, "learning_rate": rate})
