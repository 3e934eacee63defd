"""What is kept of each kind of layer for its backward pass: memory is reckoned by it."""

from __future__ import annotations

from typing import Any

import pytest

from hetero_mtf.layers import KINDS, kind_of, make_layer
from tests.planning.networks import Net

SHAPE = (8, 8, 6)


def needs(kind: str, **attributes: Any) -> frozenset[str]:
    layer = make_layer("layer", kind, attributes, (0,), [SHAPE])
    return kind_of(layer).needs(layer)


def conv(activation: str) -> frozenset[str]:
    net = Net(SHAPE)
    net.conv("conv", 4, activation=activation)
    return kind_of(net.layers[1]).needs(net.layers[1])


@pytest.mark.parametrize(
    ("activation", "kept"),
    [
        ("linear", {"input"}),
        ("relu", {"input", "output"}),
        ("sigmoid", {"input", "output"}),
        ("softmax", {"input", "output"}),
        ("gelu", {"input", "inner"}),
    ],
)
def test_a_convolution_keeps_its_input_and_what_its_activation_needs(activation: str, kept: set[str]) -> None:
    assert conv(activation) == kept


def test_grouped_convolutions_keep_what_others_do() -> None:
    net = Net(SHAPE)
    net.conv("conv", 4, groups=2)
    assert kind_of(net.layers[1]).needs(net.layers[1]) == {"input", "output"}


@pytest.mark.parametrize(
    ("kind", "attributes", "kept"),
    [
        ("MaxPooling2D", {"pool_size": [2, 2], "strides": [2, 2], "padding": "same"}, {"input", "output"}),
        ("AveragePooling2D", {"pool_size": [2, 2], "strides": [2, 2], "padding": "same"}, set()),
        ("ReLU", {"max_value": None, "negative_slope": 0.0, "threshold": 0.0}, {"output"}),
        ("ReLU", {"max_value": 6.0, "negative_slope": 0.0, "threshold": 0.0}, {"output"}),
        ("ReLU", {"max_value": None, "negative_slope": 0.1, "threshold": 0.0}, {"output"}),
        ("ReLU", {"max_value": 5.0, "negative_slope": 0.0, "threshold": 0.0}, {"input"}),
        ("ReLU", {"max_value": 6.0, "negative_slope": 0.1, "threshold": 0.0}, {"input"}),
        ("ReLU", {"max_value": None, "negative_slope": 0.0, "threshold": 0.5}, {"input"}),
        ("Activation", {"activation": "tanh"}, {"output"}),
        ("Activation", {"activation": "elu"}, {"output"}),
        ("Activation", {"activation": "silu"}, {"input"}),
        ("Activation", {"activation": "linear"}, {"view"}),
        ("Flatten", {}, {"view"}),
        ("Dropout", {"rate": 0.5, "seed": None, "noise_shape": None}, set()),
        ("LeakyReLU", {"negative_slope": 0.1}, {"output"}),
        ("ELU", {"alpha": 1.0}, {"output"}),
        ("ELU", {"alpha": 0.5}, {"input"}),
    ],
)
def test_a_layer_keeps_what_its_gradient_is_reckoned_from(kind: str, attributes: dict[str, Any], kept: set[str]) -> None:
    assert needs(kind, **attributes) == kept


def test_every_kind_says_what_it_keeps_in_known_words() -> None:
    assert all(kind.backward <= {"input", "output", "inner", "view"} for kind in KINDS.values())


def test_a_layer_of_which_nothing_is_known_keeps_its_input() -> None:
    assert KINDS["LayerNormalization"].backward == {"input"}
