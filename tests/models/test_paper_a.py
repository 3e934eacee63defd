from __future__ import annotations

from models.paper_a import cifar, mnist


def weights(model) -> dict[str, int]:
    return {layer.name: layer.count_params() for layer in model.layers if layer.count_params()}


def test_the_cifar_network_has_the_papers_layers() -> None:
    model = cifar()
    assert weights(model) == {
        "conv1": 9 * 3 * 60 + 60,
        "conv2": 9 * 60 * 60 + 60,
        "conv3": 9 * 60 * 120 + 120,
        "conv4": 9 * 120 * 120 + 120,
        "conv5": 9 * 120 * 240 + 240,
        "conv6": 9 * 240 * 240 + 240,
        "conv7": 9 * 240 * 480 + 480,
        "conv8": 9 * 480 * 480 + 480,
        "hidden": 2 * 2 * 480 * 256 + 256,
        "logits": 256 * 10 + 10,
    }
    assert model.count_params() == 4_612_566
    assert [model.get_layer(f"pool{n}").output.shape[1:] for n in (1, 2, 3, 4)] == [(16, 16, 60), (8, 8, 120), (4, 4, 240), (2, 2, 480)]


def test_the_mnist_network_has_the_papers_layers() -> None:
    model = mnist()
    assert weights(model) == {
        "conv1": 49 * 60 + 60,
        "conv2": 25 * 60 * 120 + 120,
        "conv3": 9 * 120 * 240 + 240,
        "hidden": 3 * 3 * 240 * 128 + 128,
        "logits": 128 * 10 + 10,
    }
    assert model.count_params() == 720_458
    assert [model.get_layer(f"pool{n}").output.shape[1:] for n in (1, 2, 3)] == [(14, 14, 60), (7, 7, 120), (3, 3, 240)]
