"""The networks of the benches in PyTorch, with Keras's constants of batch norm; they run in an environment without TensorFlow.

The same as those of `comparison.networks` by the same name, and `unet3d` of `today.networks`. Where a stride is 2 Keras
pads one side only, and PyTorch both: sizes and work are the same.
"""

from __future__ import annotations

import torch
from torch import nn

CONVOLUTIONS = {2: nn.Conv2d, 3: nn.Conv3d}
NORMS = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
POOLS = {2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}


class Block(nn.Module):
    """Two convolutions of window 3 with batch norm and a shortcut around them, a convolution of window 1 where a stage begins."""

    def __init__(self, inputs: int, filters: int, stride: int, dimensions: int) -> None:
        super().__init__()
        self.first = convolution(inputs, filters, 3, stride, dimensions)
        self.second = convolution(filters, filters, 3, 1, dimensions)
        self.shortcut = nn.Identity() if stride == 1 else convolution(inputs, filters, 1, stride, dimensions)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        return torch.relu_(self.second(torch.relu_(self.first(x))).add_(self.shortcut(x)))


def convolution(inputs: int, filters: int, window: int, stride: int, dimensions: int) -> nn.Module:
    """Return a convolution without bias and its batch norm, with Keras's constants."""
    layer = CONVOLUTIONS[dimensions](inputs, filters, window, stride, window // 2, bias=False)
    return nn.Sequential(layer, NORMS[dimensions](filters, eps=1e-3, momentum=0.01))


def residual(channels: int, widths: tuple[int, ...], blocks: int, start: int, dimensions: int, classes: int) -> nn.Module:
    """Return a residual network: a convolution of stride `start`, and `blocks` blocks in each stage."""
    layers: list[nn.Module] = [convolution(channels, widths[0], 3, start, dimensions), nn.ReLU(inplace=True)]
    before = widths[0]
    for filters in widths:
        for number in range(blocks):
            layers.append(Block(before, filters, 2 if filters != widths[0] and number == 0 else 1, dimensions))
            before = filters
    return nn.Sequential(*layers, POOLS[dimensions](1), nn.Flatten(), nn.Linear(before, classes))


def resnet18(classes: int) -> nn.Module:
    """Return ResNet-18 for 32x32 images."""
    return residual(3, (64, 128, 256, 512), 2, 1, 2, classes)


def resnet10_3d(classes: int) -> nn.Module:
    """Return a residual network of ten layers for volumes of one channel."""
    return residual(1, (32, 64, 128, 256), 1, 2, 3, classes)


def vgg8(classes: int) -> nn.Module:
    """Return VGG-11 without its last stage, for 32x32 images."""
    layers: list[nn.Module] = []
    before = 3
    for stage in ((64,), (128,), (256, 256), (512, 512)):
        for filters in stage:
            layers += [nn.Conv2d(before, filters, 3, padding=1), nn.ReLU(inplace=True)]
            before = filters
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), *dense(4 * before, (256,), classes))


def alexnet(classes: int) -> nn.Module:
    """Return an AlexNet for 64x64 images with two hidden dense layers of 2048."""
    layers: list[nn.Module] = []
    before = 3
    for number, filters in enumerate((64, 192, 384, 256, 256), 1):
        window, stride = ((5, 2), (5, 1))[number - 1] if number <= 2 else (3, 1)
        layers += [nn.Conv2d(before, filters, window, stride, window // 2), nn.ReLU(inplace=True)]
        if number in (1, 2, 5):
            layers.append(nn.MaxPool2d(3, 2, padding=1))
        before = filters
    return nn.Sequential(*layers, nn.Flatten(), *dense(16 * before, (2048, 2048), classes))


def dense(inputs: int, hidden: tuple[int, ...], classes: int) -> list[nn.Module]:
    """Return dense layers with relu and the one of the logits."""
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(inputs, units), nn.ReLU(inplace=True)]
        inputs = units
    return [*layers, nn.Linear(inputs, classes)]


class UNet(nn.Module):
    """A U-Net of volumes: two convolutions with batch norm at each level, a transposed convolution up, a map of probabilities."""

    def __init__(self, filters: int, levels: int, classes: int) -> None:
        super().__init__()
        widths = [filters << level for level in range(levels + 1)]
        self.down = nn.ModuleList(pair(before, width) for before, width in zip((1, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose3d(2 * width, width, 2, 2) for width in widths[:-1])
        self.after = nn.ModuleList(pair(2 * width, width) for width in widths[:-1])
        self.pool, self.last = nn.MaxPool3d(2), nn.Conv3d(filters, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the map."""
        skipped = []
        for level, block in enumerate(self.down):
            x = block(self.pool(x) if level else x)
            skipped.append(x)
        for level in reversed(range(len(self.up))):
            x = self.after[level](torch.cat([self.up[level](x), skipped[level]], 1))
        return torch.sigmoid(self.last(x))


def pair(inputs: int, filters: int) -> nn.Module:
    """Return two convolutions with batch norm and relu."""
    layers: list[nn.Module] = []
    for before in (inputs, filters):
        layers += [convolution(before, filters, 3, 1, 3), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def unet3d(classes: int) -> nn.Module:
    """Return a U-Net of two levels of 16 and 32 filters and one of 64 below."""
    return UNet(16, 2, classes)


class Attended(nn.Module):
    """Its input plus the weighted attention of all positions to all positions, as in `models.resattnet3d`."""

    def __init__(self, filters: int) -> None:
        super().__init__()
        self.query, self.value, self.key = (nn.Conv3d(filters, filters, 1) for _ in range(3))
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum."""
        query, value, key = (layer(x).flatten(2) for layer in (self.query, self.value, self.key))
        scores = torch.softmax(query.transpose(1, 2) @ key, dim=-1)
        return x + self.weight * (value @ scores.transpose(1, 2)).reshape(x.shape)


def resattnet(width: int, blocks: tuple[int, ...], attention: tuple[int, ...], classes: int) -> nn.Module:
    """Return a 3-D residual network with attention behind the first block of some stages, numbered from 1."""
    layers: list[nn.Module] = [convolution(1, width, 3, 2, 3), nn.ReLU(inplace=True)]
    before = width
    for stage, count in enumerate(blocks, 1):
        for number in range(count):
            layers.append(Block(before, width << stage - 1, 2 if stage > 1 and number == 0 else 1, 3))
            before = width << stage - 1
            layers += [Attended(before)] if stage in attention and number == 0 else []
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(before, classes))


def resattnet18(classes: int) -> nn.Module:
    """Return 3D-ResAttNet-18."""
    return resattnet(32, (2, 2, 2, 2), (3, 4), classes)


def resattnet_small(classes: int) -> nn.Module:
    """Return the network of the same kind with two blocks."""
    return resattnet(8, (1, 1), (2,), classes)


NETWORKS = {
    "resnet18": resnet18,
    "vgg8": vgg8,
    "alexnet": alexnet,
    "volume": resnet10_3d,
    "unet3d": unet3d,
    "resattnet18": resattnet18,
    "resattnet-small": resattnet_small,
}
