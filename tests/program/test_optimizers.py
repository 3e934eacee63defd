"""Optimizers: what is not honoured is refused by name. (Their arithmetic is tested against Keras in test_transparency.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.program.optimizer_reading import read_optimizer

O = keras.optimizers  # noqa: E741


class _Halving(O.schedules.LearningRateSchedule):
    """A schedule of the user's own, which Keras can run and cannot copy."""

    def __call__(self, step: Any) -> Any:
        return 0.5**step


@keras.saving.register_keras_serializable("hetero_mtf tests")
class _Copied(_Halving):
    """The same, which it can."""

    def get_config(self) -> dict[str, Any]:
        return {}


class _Unsaid(O.SGD):
    """An optimizer that does not say its options."""

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("mine")


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "nonsense": (lambda: "nonsense", "the optimizer 'nonsense' is unknown to Keras; give a name or object of keras.optimizers"),
    "a number": (lambda: 3, "the optimizer 3 is unknown to Keras"),
    "several": (
        lambda: O.MultiOptimizer(lambda _: O.SGD()),
        "the optimizer MultiOptimizer maps variables by a function; give a keras.optimizers.OptimizerMap",
    ),
    "options that cannot be copied": (lambda: _Unsaid(), r"the optimizer _Unsaid has options that Keras cannot copy \(.*\); give"),
}


@pytest.mark.parametrize("make, words", REFUSED.values(), ids=REFUSED)
def test_an_optimizer_or_option_that_is_not_honoured_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        read_optimizer(make(), "float32")


@pytest.mark.parametrize("schedule", [_Copied, _Halving])
def test_a_schedule_of_the_users_own_is_followed_whether_or_not_keras_can_copy_it(schedule: Any) -> None:
    given = O.SGD(schedule(), momentum=0.9)
    rule, rates = read_optimizer(given, "float32")
    rates.build([])
    rates.iterations.assign(3)
    assert float(rates.learning_rate) == 0.125 and rule.slots and int(given.iterations) == 0
    assert isinstance(given._learning_rate, schedule)


def test_a_function_for_a_learning_rate_is_called() -> None:
    _, rates = read_optimizer(O.Adam(lambda: 0.1), "float32")
    assert float(rates.learning_rate) == pytest.approx(0.1)


@pytest.mark.parametrize("kind", [O.SGD, O.Adam, O.AdamW])
def test_every_option_of_a_supported_optimizer_is_either_honoured_or_refused(kind: Any) -> None:
    honoured = {
        "learning_rate",
        "momentum",
        "nesterov",
        "beta_1",
        "beta_2",
        "epsilon",
        "amsgrad",
        "weight_decay",
        "clipnorm",
        "global_clipnorm",
        "clipvalue",
    }
    refused = {"use_ema", "loss_scale_factor", "gradient_accumulation_steps"}
    without_effect = {"name", "ema_momentum", "ema_overwrite_frequency"}  # the last two matter with use_ema alone
    assert set(kind().get_config()) <= honoured | refused | without_effect


def test_the_copy_that_tells_rates_is_not_the_users_optimizer() -> None:
    optimizer = O.Adam(O.schedules.ExponentialDecay(0.1, 10, 0.5))
    rule, copy = read_optimizer(optimizer, "float64")
    assert copy is not optimizer and rule.slots == ("momentum", "velocity")
    assert copy.get_config() == optimizer.get_config()


@pytest.mark.parametrize(
    "optimizer, slots",
    [(O.SGD, ()), (lambda: O.SGD(momentum=0.5), ("momentum",)), (lambda: O.Adam(amsgrad=True), ("momentum", "velocity", "velocity_hat"))],
)
def test_only_the_slots_that_are_used_are_kept(optimizer: Callable[[], Any], slots: tuple[str, ...]) -> None:
    assert read_optimizer(optimizer(), "float32")[0].slots == slots
