from __future__ import annotations

import pytest

from models.volume import resnet10_3d, resnet18_3d


def test_it_has_one_block_of_two_convolutions_in_each_of_four_stages() -> None:
    model = resnet10_3d()
    convolutions = [layer for layer in model.layers if type(layer).__name__ == "Conv3D"]
    assert sorted(layer.kernel.shape[0] for layer in convolutions) == [1] * 3 + [3] * 9
    assert [model.get_layer(f"block{n}_add").output.shape[1:] for n in (1, 2, 3, 4)] == [
        (16, 16, 16, 32),
        (8, 8, 8, 64),
        (4, 4, 4, 128),
        (2, 2, 2, 256),
    ]


def test_every_convolution_is_normalised_and_has_no_bias() -> None:
    model = resnet10_3d(8, (2, 3), channels=2, classes=4)
    kernels = 27 * 2 * 2 + 2 * 27 * 2 * 2 + 27 * 2 * 3 + 27 * 3 * 3 + 2 * 3
    normalised = 3 * 2 + 3 * 3
    assert model.count_params() == kernels + 4 * normalised + 3 * 4 + 4
    assert model.output.shape == (None, 4)


@pytest.mark.slow
def test_the_deeper_one_has_two_blocks_in_each_of_four_stages() -> None:
    model = resnet18_3d(16, (2, 3, 4, 5))
    convolutions = [layer for layer in model.layers if type(layer).__name__ == "Conv3D"]
    assert sorted(layer.kernel.shape[0] for layer in convolutions) == [1] * 3 + [3] * 17
    assert [model.get_layer(f"block{n}_2_add").output.shape[1:] for n in (1, 2, 3, 4)] == [
        (8, 8, 8, 2),
        (4, 4, 4, 3),
        (2, 2, 2, 4),
        (1, 1, 1, 5),
    ]
