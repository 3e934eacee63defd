from __future__ import annotations

import keras
import pytest

from hetero_mtf.planning.memory.optimizer_slots import needs_full_variable, optimizer_name
from hetero_mtf.program.keras_rule import KerasSteps

NAMES = "Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion Muon Nadam RMSprop ScheduleFreeAdamW SGD".split()


class AdamW:
    pass


@pytest.mark.parametrize(("given", "name"), [("SGD", "sgd"), ("adam(0.001)", "adam"), (AdamW(), "adamw"), ("", "")])
def test_an_optimizer_is_known_by_its_name(given: object, name: str) -> None:
    assert optimizer_name(given) == name


def test_the_optimizers_that_update_whole_variables_are_those_whose_rule_gathers_them() -> None:
    kinds = [getattr(keras.optimizers, name) for name in NAMES]
    gathered = [kind.__name__ for kind in kinds if KerasSteps(kind()).needs_full_variable]
    assert [kind.__name__ for kind in kinds if needs_full_variable(kind())] == gathered == ["Adafactor", "Lamb", "Muon"]
    assert needs_full_variable("myown") and not needs_full_variable("multioptimizer")
