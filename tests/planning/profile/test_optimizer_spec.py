from __future__ import annotations

import keras
import pytest
from keras import optimizers

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec, optimizer_name
from hetero_mtf.program.optimizer_reading import optimizer_of_spec, optimizer_spec


class AdamW:
    pass


SCALED = optimizers.LossScaleOptimizer(optimizers.AdamW())
SEVERAL = [
    optimizers.SGD(momentum=0.5),
    optimizers.Adam(amsgrad=True),
    optimizers.AdamW(use_ema=True),
    optimizers.Ftrl(gradient_accumulation_steps=2),
    optimizers.Muon(),
]


@pytest.mark.parametrize("given", ["AdamW", AdamW(), OptimizerSpec("adamw", amsgrad=True), SCALED])
def test_an_optimizer_is_known_by_its_name(given: object) -> None:
    assert optimizer_name(given) == "adamw"


def test_a_record_holds_the_options_that_decide_what_is_kept_and_its_text_those_that_are_on() -> None:
    optimizer = optimizers.RMSprop(0.1, momentum=0.5, centered=True, use_ema=True, gradient_accumulation_steps=2)
    spec = optimizer_spec(optimizer)
    assert spec == OptimizerSpec("rmsprop", 0.5, centered=True, use_ema=True, gradient_accumulation_steps=2)
    assert str(spec) == "rmsprop(momentum=0.5, centered=True, use_ema=True, gradient_accumulation_steps=2)"
    assert OptimizerSpec.from_config("own", {"momentum": "much"}) == OptimizerSpec("own")


@pytest.mark.parametrize("optimizer", SEVERAL)
def test_an_optimizer_made_of_a_record_has_the_same_record_and_class(optimizer: keras.Optimizer) -> None:
    spec = optimizer_spec(optimizer)
    again = optimizer_of_spec(spec)
    assert type(again) is type(optimizer) and optimizer_spec(again) == spec


@pytest.mark.parametrize("name", ["own", "multioptimizer"])
def test_an_optimizer_that_keras_cannot_make_of_a_record_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"cannot make the optimizer {name} .*; give another"):
        optimizer_of_spec(OptimizerSpec(name))
