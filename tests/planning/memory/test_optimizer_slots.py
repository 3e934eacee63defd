from __future__ import annotations

import pytest

from hetero_mtf.planning.memory.optimizer_slots import optimizer_name


class AdamW:
    pass


@pytest.mark.parametrize(("given", "name"), [("SGD", "sgd"), ("adam(0.001)", "adam"), (AdamW(), "adamw"), ("", "")])
def test_an_optimizer_is_known_by_its_name(given: object, name: str) -> None:
    assert optimizer_name(given) == name
