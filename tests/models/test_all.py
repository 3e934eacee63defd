from __future__ import annotations

import pytest

from hetero_mtf.keras_reading.layer_graph import layer_graph
from models.alexnet import alexnet
from models.digits import wide_digits
from models.paper_a import cifar, mnist
from models.resattnet3d import resattnet18, resattnet34, resattnet_small
from models.residual import residual
from models.vgg import vgg8, vgg11
from models.volume import resnet10_3d, resnet18_3d

BUILDERS = {
    "cifar": cifar,
    "mnist": mnist,
    "wide_digits": wide_digits,
    "vgg11": lambda: vgg11(batch_norm=True, dropout=0.5),
    "vgg8": vgg8,
    "resnet10_3d": lambda: resnet10_3d(16, (4, 6, 8, 8), classes=10),
    "resnet18_3d": lambda: resnet18_3d(16, (4, 6, 8, 8), classes=10),
    "resattnet18": lambda: resattnet18(32, 4, classes=10, attention=(2, 3, 4)),
    "resattnet34": lambda: resattnet34(16, 4, classes=10, reduction=4),
    "resattnet_small": lambda: resattnet_small(classes=10),
    "residual": lambda: residual(12),
    "alexnet": lambda: alexnet(32, (4, 6, 8, 8, 6), 12, classes=10, dropout=0.5),
}


@pytest.mark.fast("alexnet")
@pytest.mark.parametrize("name", BUILDERS)
def test_every_network_is_read_and_ends_in_logits(name: str) -> None:
    model = BUILDERS[name]()
    graph = layer_graph(model)
    assert sum(variable.size for layer in graph.layers for variable in layer.variables) == model.count_params()
    assert graph.layers[-1].output_shape == (10,)
    assert graph.layers[-1].attributes.get("activation", "linear") == "linear"
