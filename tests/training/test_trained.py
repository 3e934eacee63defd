"""Losses are shown as Keras shows them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import keras

from hetero_mtf.program.batch_arrays import Result
from hetero_mtf.program.objective import OutputLoss
from hetero_mtf.training.trained import shown_losses

GRAPH: Any = SimpleNamespace(outputs=(0,), layers=(SimpleNamespace(output_shape=(5, 3)),))


def test_an_infinite_loss_is_infinite_and_one_without_reduction_is_a_mean() -> None:
    def shown(reduction: Any, loss: float, part: float) -> Any:
        return shown_losses((OutputLoss(keras.losses.MeanSquaredError(reduction), 2.0, "loss"),), GRAPH, 4, Result(loss, (part,), None))

    assert shown("sum_over_batch_size", math.inf, math.inf) == (math.inf, (math.inf,))
    assert shown(None, 81.0, 40.0) == (5.0, (2.0,))  # 2 * 40 and a penalty of 1, over 4 samples of 5 values
