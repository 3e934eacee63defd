from __future__ import annotations

import pytest

from models.alexnet import alexnet

KERNELS = [25 * 3 * 64, 25 * 64 * 192, 9 * 192 * 384, 9 * 384 * 256, 9 * 256 * 256]


@pytest.mark.slow
def test_the_dense_layers_hold_the_weights_and_the_convolutions_the_work() -> None:
    model = alexnet()
    convolutions, hidden = [model.get_layer(f"conv{n}") for n in range(1, 6)], [model.get_layer(f"hidden{n}") for n in (1, 2)]
    assert [layer.count_params() for layer in convolutions] == [n + f for n, f in zip(KERNELS, (64, 192, 384, 256, 256))]
    assert [layer.count_params() for layer in hidden] == [4096 * 4096 + 4096] * 2
    assert sum(layer.count_params() for layer in hidden) > 10 * sum(KERNELS)
    places = [layer.output.shape[1] ** 2 for layer in convolutions]
    assert sum(kernel * n for kernel, n in zip(KERNELS, places)) > 5 * 2 * 4096 * 4096


@pytest.mark.slow
def test_three_pools_overlap_and_halve_the_image() -> None:
    model = alexnet(size=32)
    assert [model.get_layer(f"pool{n}").output.shape[1] for n in (1, 2, 3)] == [8, 4, 2]
    assert model.get_layer("hidden1").kernel.shape == (4 * 256, 4096)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_adds_a_layer_before_each_hidden_layer(dropout: float) -> None:
    model = alexnet(32, (2, 2, 2, 2, 2), 3, dropout=dropout)
    assert sum(type(layer).__name__ == "Dropout" for layer in model.layers) == (2 if dropout else 0)
    assert model.output.shape == (None, 100)
