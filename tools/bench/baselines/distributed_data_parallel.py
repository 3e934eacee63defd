"""One process of PyTorch's DistributedDataParallel over gloo training a network of the benches; started by `limited.LimitedWorkers`.

The same networks as `models.residual.resnet18` and `models.vgg.vgg8`; weights and images are channels-last, which is faster here. Each
process normalises by its own half of the batch and sends no statistics.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch import nn
from turns import Prepared, attend

FILTERS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two 3x3 convolutions with batch norm and a shortcut around them, a 1x1 convolution where a stage begins."""

    def __init__(self, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(inputs, filters, 3, stride)
        self.second = convolution(filters, filters, 3, 1)
        self.shortcut = nn.Identity() if stride == 1 else convolution(inputs, filters, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        return torch.relu_(self.second(torch.relu_(self.first(x))).add_(self.shortcut(x)))


def convolution(inputs: int, filters: int, window: int, stride: int) -> nn.Module:
    """Return a convolution without bias and its batch norm, with Keras's constants."""
    norm = nn.BatchNorm2d(filters, eps=1e-3, momentum=0.01)
    return nn.Sequential(nn.Conv2d(inputs, filters, window, stride, window // 2, bias=False), norm)


def resnet18(classes: int = 10) -> nn.Module:
    """Return ResNet-18 for 32x32 images."""
    layers: list[nn.Module] = [convolution(3, FILTERS[0], 3, 1), nn.ReLU(inplace=True)]
    before = FILTERS[0]
    for filters in FILTERS:
        layers += [Block(before, filters, 1 if filters == before else 2), Block(filters, filters, 1)]
        before = filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def vgg8(classes: int = 10) -> nn.Module:
    """Return VGG-11 without its last stage, for 32x32 images."""
    layers: list[nn.Module] = []
    before = 3
    for stage in ((64,), (128,), (256, 256), (512, 512)):
        for filters in stage:
            layers += [nn.Conv2d(before, filters, 3, padding=1), nn.ReLU(inplace=True)]
            before = filters
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * before, 256), nn.ReLU(inplace=True), nn.Linear(256, classes))


NETWORKS = {"resnet18": resnet18, "vgg8": vgg8}


def prepare(order: dict[str, Any]) -> Prepared:
    """Return the training step and the number of trainable weights, as `turns.attend` wants them."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    task, addresses = order["task"], order["addresses"]
    torch.distributed.init_process_group("gloo", f"tcp://{addresses[0]}", rank=task, world_size=len(addresses))
    torch.manual_seed(task)
    plain = NETWORKS[sys.argv[2]]().to(memory_format=torch.channels_last)
    model = nn.parallel.DistributedDataParallel(plain, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(order["batch"], 3, 32, 32).to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (order["batch"],))

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return float(loss)

    return step, sum(parameter.numel() for parameter in model.parameters())


if __name__ == "__main__":
    attend(prepare)
