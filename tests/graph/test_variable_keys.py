"""Keys of variables and slots do not depend on the user's layer names."""

from __future__ import annotations

from hetero_mtf.graph.variable_keys import slot_key, variable_key


def test_a_variable_is_keyed_by_layer_and_name() -> None:
    assert variable_key(12, "moving_mean") == "012/moving_mean"


def test_a_slot_is_keyed_by_its_variable() -> None:
    assert slot_key(variable_key(3, "kernel"), "momentum") == "003/kernel/momentum"
