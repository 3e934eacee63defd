"""Networks drawn by seed: 2-D and 3-D convolutions in plain, residual and concatenating blocks, with a bound on the work of a step.

A seed gives the same network for ever, whatever else changes in this project or in NumPy: only doubles in [0, 1) of PCG64 are drawn, in an
order that is fixed. A network outside of the bounds is drawn again from where the generator stands. Devices play no part.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

DEPTH = 6, 30  # layers with a kernel, at least and at most
# Multiply-adds of a batch's forward pass. A step takes three times as many; one core of 2.5 GHz did 26 to 61 thousand million a second
# on 16 drawn networks, by processor time, so a step takes some 30 to 600 ms.
WORK = 4e8, 7e9
ELEMENT_WORK = 50  # multiply-adds that take as long as one element of a layer without a kernel, which waits for memory

EXTENTS = {2: (16, 20, 24, 28, 32, 40, 48), 3: (12, 14, 16, 20, 24)}
CHANNELS = {2: (1, 3), 3: (1, 2)}
BATCHES = (8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
CLASSES = (2, 4, 10, 20, 37, 100)
WIDTHS = (8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96)  # of the first stage
GROWTHS = (1.0, 1.5, 2.0)  # of the width from stage to stage
MOST_WIDTH = 384
WINDOWS = (1, 3, 3, 3, 5)
NORMS = ("", "", "batch_norm", "batch_norm", "layer_norm")
ACTIVATIONS = ("relu", "relu", "relu", "elu")
BLOCKS = (("plain",), ("plain",), ("residual",), ("concatenating",), ("plain", "residual"), ("plain", "concatenating"))
REDUCTIONS = ("max_pool", "average_pool", "strides", "")
HEADS = ("global_average", "global_max", "flatten")
HIDDEN = (64, 128, 256, 512, 1024)
FLATTENED = 8192  # elements at most; more are averaged

TEXTS = {"": "no norm", "batch_norm": "batch norm", "layer_norm": "layer norm"}


@dataclasses.dataclass(frozen=True)
class DrawnLayer:
    """A layer of a drawn network.

    Parameters
    ----------
    kind : a key of the functions in `_keras_layer`; "input" for the first.
    reads : indices of the layers that it reads.
    shape : shape of one sample of its output, channels last.
    window, strides : extent and strides of a convolution's or pool's window along each dimension, 0 without a window.
    activation : applied to its output, "" for none.
    bias : whether a convolution or dense layer has one.
    work : multiply-adds of a sample's forward pass, by `ELEMENT_WORK` without a kernel.
    weights : trainable weights.
    """

    kind: str
    reads: tuple[int, ...]
    shape: tuple[int, ...]
    window: int = 0
    strides: int = 0
    activation: str = ""
    bias: bool = False
    work: int = 0
    weights: int = 0

    def text(self) -> str:
        """Return the structure in a line, such as "conv(0) 3/1 relu bias -> 24x24x16"."""
        window = f" {self.window}/{self.strides}" if self.window else ""
        options = "".join(f" {option}" for option in (self.activation, "bias" if self.bias else "") if option)
        return f"{self.kind}({','.join(map(str, self.reads))}){window}{options} -> {_by(self.shape)}"


@dataclasses.dataclass(frozen=True)
class DrawnNetwork:
    """A drawn network.

    Parameters
    ----------
    seed : of the generator.
    batch : samples per step.
    layers : in topological order, the input first.
    """

    seed: int
    batch: int
    layers: tuple[DrawnLayer, ...]

    @property
    def depth(self) -> int:
        """Layers with a kernel."""
        return sum(layer.kind in ("conv", "dense") for layer in self.layers)

    @property
    def work(self) -> int:
        """Multiply-adds of a batch's forward pass."""
        return self.batch * sum(layer.work for layer in self.layers)

    @property
    def description(self) -> str:
        """One line, such as "2-D 24x24x3, 19 layers, residual, batch norm, 0.4 M weights"; layers are those with a kernel."""
        kinds = {layer.kind for layer in self.layers}
        norm = next((text for kind, text in TEXTS.items() if kind in kinds), TEXTS[""])
        blocks = [text for kind, text in (("add", "residual"), ("concatenate", "concatenating")) if kind in kinds]
        shape, weights = self.layers[0].shape, sum(layer.weights for layer in self.layers)
        amount = f"{weights / 1e6:.1f} M" if weights >= 1e5 else f"{weights / 1e3:.0f} k"
        return ", ".join([f"{len(shape) - 1}-D {_by(shape)}", f"{self.depth} layers", *blocks, norm, f"{amount} weights"])

    @property
    def text(self) -> str:
        """The structure, a line a layer; equal texts are equal networks."""
        return "\n".join([f"batch {self.batch}", *(layer.text() for layer in self.layers)])

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits of `text`."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    def build(self) -> Any:
        """Return the Keras model, with Keras's default initial weights and logits as output."""
        import keras

        tensors: list[Any] = []
        for index, layer in enumerate(self.layers):
            if layer.kind == "input":
                tensors.append(keras.Input(layer.shape, name="input"))
                continue
            read = [tensors[source] for source in layer.reads]
            tensors.append(_keras_layer(layer, f"{layer.kind}{index}", len(self.layers[0].shape) - 1)(read if len(read) > 1 else read[0]))
        return keras.Model(tensors[0], tensors[-1], name=f"drawn_{self.seed}")


def drawn_network(seed: int) -> DrawnNetwork:
    """Return the network of a seed: of those drawn one after another the first whose depth and work are within `DEPTH` and `WORK`.

    Parameters
    ----------
    seed : not negative.

    Examples
    --------
    >>> drawn_network(101) == drawn_network(101)
    True
    """
    draws = _Draws(seed)
    rank = draws.one_of((2, 2, 3))  # once: else most volumes would be drawn again, as images
    while True:
        each = DrawnNetwork(seed, 1, _layers(draws, rank))
        batches = [batch for batch in BATCHES if WORK[0] <= batch * each.work <= WORK[1]]
        if batches and DEPTH[0] <= each.depth <= DEPTH[1]:
            return dataclasses.replace(each, batch=draws.one_of(batches))


class _Draws:
    """Draws from a generator, by its doubles alone."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def one_of(self, choices: Sequence[T]) -> T:
        """Return one of some values, all equally probable."""
        return choices[int(self._generator.random() * len(choices))]

    def between(self, least: int, most: int) -> int:
        """Return an integer, both limits included."""
        return self.one_of(range(least, most + 1))


class _Drawing:
    """The layers of a network that is being drawn; each method adds layers and returns the index of the last one.

    Parameters
    ----------
    draws : where everything is drawn from; the norm and the activation of the network at once.
    shape : of the input.
    """

    def __init__(self, draws: _Draws, shape: tuple[int, ...]) -> None:
        self.draws, self.rank = draws, len(shape) - 1
        self.norm, self.activation = draws.one_of(NORMS), draws.one_of(ACTIVATIONS)
        self.layers = [DrawnLayer("input", (), shape)]

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of a layer's output."""
        return self.layers[index].shape

    def add(self, kind: str, reads: tuple[int, ...], shape: tuple[int, ...], **options: Any) -> int:
        """Add a layer without a kernel."""
        self.layers.append(DrawnLayer(kind, reads, shape, **{"work": ELEMENT_WORK * math.prod(shape), **options}))
        return len(self.layers) - 1

    def convolution(self, source: int, width: int, window: int, strides: int = 1, active: bool = True) -> int:
        """Add a convolution with the network's norm and activation, the latter as an option of the convolution where there is no norm."""
        *space, channels = self.shape(source)
        shape = (*(-(-extent // strides) for extent in space), width)
        kernel = window**self.rank * channels * width
        bias, activation = not self.norm, self.activation if active and not self.norm else ""
        numbers = {"work": kernel * math.prod(shape[:-1]), "weights": kernel + bias * width}
        at = self.add("conv", (source,), shape, window=window, strides=strides, activation=activation, bias=bias, **numbers)
        if not self.norm:
            return at
        at = self.add(self.norm, (at,), shape, weights=2 * width)
        return self.add(self.activation, (at,), shape) if active else at

    def pool(self, kind: str, source: int) -> int:
        """Add a pool that halves the extents."""
        *space, channels = self.shape(source)
        return self.add(kind, (source,), (*(extent // 2 for extent in space), channels), window=2, strides=2)

    def dense(self, source: int, units: int, activation: str = "") -> int:
        """Add a dense layer."""
        kernel = self.shape(source)[0] * units
        return self.add("dense", (source,), (units,), activation=activation, bias=True, work=kernel, weights=kernel + units)

    def plain(self, source: int, width: int, strides: int) -> int:
        """Add one convolution."""
        return self.convolution(source, width, self.draws.one_of(WINDOWS), strides)

    def residual(self, source: int, width: int, strides: int) -> int:
        """Add two convolutions and what they read, by a convolution of its own where the shapes differ."""
        first = self.convolution(source, width, self.draws.one_of(WINDOWS), strides)
        second = self.convolution(first, width, 3, active=False)
        same = self.shape(source) == self.shape(second)
        shortcut = source if same else self.convolution(source, width, 1, strides, active=False)
        total = self.add("add", (shortcut, second), self.shape(second))
        return self.add(self.activation, (total,), self.shape(total))

    def concatenating(self, source: int, width: int, strides: int) -> int:
        """Add two branches and join their channels: a 1x1 convolution, or what both read, beside a larger one."""
        half = max(1, width // 2)
        kept = strides == 1 and self.shape(source)[-1] <= MOST_WIDTH and self.draws.one_of((True, False))
        first = source if kept else self.convolution(source, half, 1, strides)
        second = self.convolution(source, half, self.draws.one_of((3, 3, 5)), strides)
        channels = self.shape(first)[-1] + half
        return self.add("concatenate", (first, second), (*self.shape(second)[:-1], channels))


def _layers(draws: _Draws, rank: int) -> tuple[DrawnLayer, ...]:
    net = _Drawing(draws, ((draws.one_of(EXTENTS[rank]),) * rank) + (draws.one_of(CHANNELS[rank]),))
    width, growth, blocks = draws.one_of(WIDTHS), draws.one_of(GROWTHS), draws.one_of(BLOCKS)
    at = net.convolution(0, width, draws.one_of((3, 3, 5)))
    for stage in range(draws.between(1, 4)):
        reduction = draws.one_of(REDUCTIONS) if stage and net.shape(at)[0] >= 8 else ""
        if reduction.endswith("pool"):
            at = net.pool(reduction, at)
        for number in range(draws.between(1, 4)):
            strides = 2 if reduction == "strides" and number == 0 else 1
            at = getattr(net, draws.one_of(blocks))(at, width, strides)
        width = min(MOST_WIDTH, 2 * round(width * growth / 2))
    return _with_head(net, draws, at)


def _with_head(net: _Drawing, draws: _Draws, at: int) -> tuple[DrawnLayer, ...]:
    """Return the layers with a global pool or a flatten, hidden dense layers and the logits behind them."""
    head = draws.one_of(HEADS)
    elements = math.prod(net.shape(at))
    if head == "flatten" and elements <= FLATTENED:
        at = net.add("flatten", (at,), (elements,), work=0)
    else:
        at = net.add("global_max" if head == "global_max" else "global_average", (at,), net.shape(at)[-1:], work=ELEMENT_WORK * elements)
    for _ in range(draws.between(0, 2)):
        at = net.dense(at, draws.one_of(HIDDEN), net.activation)
    net.dense(at, draws.one_of(CLASSES))
    return tuple(net.layers)


def _keras_layer(layer: DrawnLayer, name: str, rank: int) -> Any:
    """Return the Keras layer of a drawn one."""
    import keras

    layers, dimensions = keras.layers, f"{rank}D"
    kernel = {"activation": layer.activation or None, "use_bias": layer.bias, "name": name}
    pool = {"pool_size": layer.window, "strides": layer.strides, "name": name}
    window = {"strides": layer.strides, "padding": "same"}
    makers = {
        "conv": lambda: getattr(layers, f"Conv{dimensions}")(layer.shape[-1], layer.window, **window, **kernel),
        "dense": lambda: layers.Dense(layer.shape[-1], **kernel),
        "batch_norm": lambda: layers.BatchNormalization(name=name),
        "layer_norm": lambda: layers.LayerNormalization(name=name),
        "relu": lambda: layers.ReLU(name=name),
        "elu": lambda: layers.ELU(name=name),
        "add": lambda: layers.Add(name=name),
        "concatenate": lambda: layers.Concatenate(name=name),
        "max_pool": lambda: getattr(layers, f"MaxPooling{dimensions}")(**pool),
        "average_pool": lambda: getattr(layers, f"AveragePooling{dimensions}")(**pool),
        "global_average": lambda: getattr(layers, f"GlobalAveragePooling{dimensions}")(name=name),
        "global_max": lambda: getattr(layers, f"GlobalMaxPooling{dimensions}")(name=name),
        "flatten": lambda: layers.Flatten(name=name),
    }
    return makers[layer.kind]()


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))
