from __future__ import annotations

import math

import keras
import pytest

from hetero_mtf.planning.memory.optimizer_slots import needs_full_variable, slot_sizes
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.program.keras_rule import KerasSteps
from hetero_mtf.program.optimizer_reading import optimizer_spec

NAMES = "Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion Muon Nadam RMSprop ScheduleFreeAdamW SGD".split()


def test_the_optimizers_that_update_whole_variables_are_those_whose_rule_gathers_them() -> None:
    kinds = [getattr(keras.optimizers, name) for name in NAMES]
    gathered = [kind.__name__ for kind in kinds if KerasSteps(kind()).needs_full_variable]
    assert [kind.__name__ for kind in kinds if needs_full_variable(optimizer_spec(kind()))] == gathered == ["Adafactor", "Lamb", "Muon"]
    assert needs_full_variable(OptimizerSpec("myown")) and not needs_full_variable(OptimizerSpec("multioptimizer"))


@pytest.mark.fast(
    'shape0-Adadelta',
    'shape0-Adagrad',
    'shape0-Lion',
    'shape0-Muon',
    'shape0-RMSprop',
    'shape0-SGD',
    'shape1-Adagrad',
    'shape1-Lion',
    'shape1-RMSprop',
    'shape1-SGD',
    'shape2-Lion',
    'shape2-Nadam',
    'shape2-RMSprop',
    'shape2-SGD',
)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(7,), (3, 8), (3, 3, 4, 8)])
def test_slots_have_the_sizes_that_keras_makes_them_in(name: str, shape: tuple[int, ...]) -> None:
    optimizer = getattr(keras.optimizers, name)()
    steps, size, spec = KerasSteps(optimizer), math.prod(shape), optimizer_spec(optimizer)
    elements = [math.prod(steps.slot_shape(slot, shape)) for slot in steps.slots]
    split, full = slot_sizes(spec, shape)
    assert split + full == sum(elements)
    assert full == (sum(elements) if needs_full_variable(spec) else sum(n for n in elements if n != size))
