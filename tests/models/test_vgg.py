from __future__ import annotations

import pytest

from models.vgg import vgg8, vgg11

KERNELS = [9 * 3 * 64, 9 * 64 * 128, 9 * 128 * 256, 9 * 256 * 256, 9 * 256 * 512, *[9 * 512 * 512] * 3]
FILTERS = 64 + 128 + 2 * 256 + 4 * 512
DENSE = 512 * 512 + 512 + 512 * 10 + 10


@pytest.mark.slow
@pytest.mark.parametrize(("batch_norm", "per_filter"), [(False, 1), (True, 4)])
def test_it_has_eight_convolutions_with_a_bias_or_a_normalisation_each(batch_norm: bool, per_filter: int) -> None:
    model = vgg11(batch_norm)
    assert model.count_params() == sum(KERNELS) + per_filter * FILTERS + DENSE
    assert [model.get_layer(f"pool{n}").output.shape[1:] for n in range(1, 6)] == [
        (16, 16, 64),
        (8, 8, 128),
        (4, 4, 256),
        (2, 2, 512),
        (1, 1, 512),
    ]
    assert model.output.shape == (None, 10)


@pytest.mark.slow
def test_dropout_adds_two_layers_and_no_weights() -> None:
    plain, dropped = vgg11(), vgg11(dropout=0.5)
    assert len(dropped.layers) == len(plain.layers) + 2
    assert dropped.count_params() == plain.count_params()


@pytest.mark.slow
def test_a_larger_image_leaves_more_pixels_for_the_dense_layer() -> None:
    assert vgg11(size=64, channels=1, classes=3).get_layer("hidden").kernel.shape == (4 * 512, 512)


def test_vgg8_has_six_convolutions_in_four_stages_and_two_dense_layers() -> None:
    model = vgg8()
    assert model.count_params() == sum(KERNELS[:6]) + 64 + 128 + 2 * 256 + 2 * 512 + 2048 * 256 + 256 + 256 * 10 + 10
    assert [model.get_layer(f"pool{n}").output.shape[1:] for n in range(1, 5)] == [(16, 16, 64), (8, 8, 128), (4, 4, 256), (2, 2, 512)]
    assert len(model.layers) == 1 + 2 * 6 + 4 + 3
