from __future__ import annotations

import math

import pytest

from models.residual import RESNET18_FILTERS, residual, resnet18


def kinds(model, kind: str) -> int:
    return sum(type(layer).__name__ == kind for layer in model.layers)


@pytest.mark.fast("9")
@pytest.mark.parametrize("convolutions", [9, 10, 11, 12, 20, 50])
def test_it_has_as_many_convolutions_as_asked(convolutions: int) -> None:
    model = residual(convolutions, filters=(4, 6, 8), size=8)
    assert kinds(model, "Conv2D") == kinds(model, "BatchNormalization") == convolutions
    assert kinds(model, "Add") == (convolutions - 3) // 2


def test_the_smallest_has_a_block_a_stage() -> None:
    model = residual(9)
    start, first = 9 * 3 * 16, 2 * 9 * 16 * 16
    second = 9 * 16 * 32 + 9 * 32 * 32 + 16 * 32
    third = 9 * 32 * 64 + 9 * 64 * 64 + 32 * 64
    normalised = 16 + 2 * 16 + 3 * 32 + 3 * 64
    assert model.count_params() == start + first + second + third + 4 * normalised + 64 * 10 + 10
    assert [model.get_layer(f"block{n}_1_add").output.shape[1:] for n in (1, 2, 3)] == [(32, 32, 16), (16, 16, 32), (8, 8, 64)]


def test_without_batch_normalisation_the_convolutions_have_biases() -> None:
    model = residual(5, filters=(4,), size=8, batch_norm=False)
    assert kinds(model, "BatchNormalization") == 0
    assert model.count_params() == (9 * 3 * 4 + 4) + 4 * (9 * 4 * 4 + 4) + 4 * 10 + 10


@pytest.mark.parametrize(("convolutions", "filters"), [(8, (4, 4, 4)), (2, (4,)), (5, ())])
def test_too_few_convolutions_are_refused(convolutions: int, filters: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=f"{convolutions} convolutions are too few for {len(filters)} stages; use"):
        residual(convolutions, filters)


@pytest.mark.slow
def test_resnet18_has_two_blocks_in_each_of_four_stages() -> None:
    model = resnet18()
    convolutions = [layer for layer in model.layers if type(layer).__name__ == "Conv2D"]
    assert sorted(layer.kernel.shape[0] for layer in convolutions) == [1] * 3 + [3] * 17
    heights = [model.get_layer(f"block{stage}_2_add").output.shape[1:] for stage in (1, 2, 3, 4)]
    assert heights == [(size, size, width) for size, width in zip((32, 16, 8, 4), RESNET18_FILTERS)]
    assert sum(math.prod(variable.shape) for variable in model.trainable_variables) == 11_173_962
