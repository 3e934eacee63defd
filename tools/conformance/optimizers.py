"""Every optimizer of Keras, with the options that change what it keeps or does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras

Make = Callable[[], Any]
O = keras.optimizers  # noqa: E741


class Signs(keras.optimizers.Optimizer):
    """An optimizer of one's own, which looks at the whole variable."""

    def __init__(self, learning_rate: float = 0.01, **options: Any) -> None:
        super().__init__(learning_rate=learning_rate, **options)

    def build(self, variables: Any) -> None:
        if not self.built:
            super().build(variables)
            self.means = self.add_optimizer_variables(variables, "mean")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        mean = self.means[self._get_variable_index(variable)]
        self.assign(mean, 0.5 * mean + gradient)
        self.assign_sub(
            variable, keras.ops.cast(learning_rate, variable.dtype) * mean / (1.0 + keras.ops.sqrt(keras.ops.sum(keras.ops.square(mean))))
        )


def _excluding() -> Any:
    optimizer = O.AdamW(0.01, weight_decay=0.1)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def _several(**options: Any) -> Any:
    decaying = O.SGD(O.schedules.ExponentialDecay(0.05, 2, 0.5), momentum=0.9)
    return O.MultiOptimizer(O.OptimizerMap(O.Lion(0.01), {".*kernel": O.Adam(0.01, global_clipnorm=0.1, **options), ".*bias": decaying}))


OPTIMIZERS: Mapping[str, Make] = {
    "adadelta": lambda: O.Adadelta(0.5),
    "adafactor": lambda: O.Adafactor(0.05),
    "adafactor, decay": lambda: O.Adafactor(0.05, weight_decay=0.01, relative_step=False),
    "adagrad": lambda: O.Adagrad(0.05),
    "adamax": lambda: O.Adamax(0.01),
    "ftrl": lambda: O.Ftrl(0.05, l1_regularization_strength=0.01),
    "lamb": lambda: O.Lamb(0.01),
    "lion": lambda: O.Lion(0.01),
    "muon": lambda: O.Muon(0.01),
    "nadam": lambda: O.Nadam(0.01),
    "rmsprop": lambda: O.RMSprop(0.01),
    "rmsprop, all": lambda: O.RMSprop(0.01, momentum=0.5, centered=True, weight_decay=0.01),
    "loss scale": lambda: O.LossScaleOptimizer(O.SGD(0.05)),
    "average": lambda: O.SGD(0.05, momentum=0.9, use_ema=True, ema_momentum=0.8),
    "average, written": lambda: O.Adam(0.01, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=2),
    "accumulation": lambda: O.Adam(0.01, gradient_accumulation_steps=2),
    "accumulation, clipped": lambda: O.SGD(0.05, momentum=0.5, gradient_accumulation_steps=3, global_clipnorm=0.05),
    "accumulation and average": lambda: O.RMSprop(0.01, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=2),
    "clipped by norms": lambda: O.Adagrad(0.05, clipnorm=0.05),
    "clipped by value": lambda: O.Nadam(0.01, clipvalue=0.01),
    "excluding": _excluding,
    "schedule": lambda: O.Adamax(O.schedules.ExponentialDecay(0.05, 2, 0.5)),
    "schedule free": lambda: O.ScheduleFreeAdamW(0.01, weight_decay=0.01, warmup_steps=2),
    "several": _several,
    "several, averaged": lambda: _several(use_ema=True, ema_momentum=0.8),
    "own": Signs,
}
