"""Networks over space and their slabs, drawn by seed: windows of all kinds, norms, skips, merges and heads."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import keras

import hetero_mtf as hm
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers.windowed.window import dilated
from hetero_mtf.planning.layout.arrangement import reach_of
from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.layout.stage_from_layouts import full_stage

LEAST = 2  # positions of a dimension


class Drawn:
    """A network over two or three spatial dimensions, and a plan that lays its layers out in slabs.

    Parameters
    ----------
    seed : of all that is drawn.

    Attributes
    ----------
    model : keras.Model, whose outputs are of three classes, of a sample or of each position.
    logits : whether they are logits, not probabilities.
    batch : samples a step.
    devices : number of devices.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rank = self.random.choice([2, 2, 3])
        self.batch = self.random.choice([1, 1, 2, 3])
        self.devices = self.random.randint(1, 5)
        most = 11 if self.rank == 2 else 7
        self.input = keras.Input((*(self.random.randint(4, most) for _ in range(self.rank)), self.random.randint(1, 3)))
        self.logits = True
        self.model = keras.Model(self.input, self._head(self._trunk()))

    def plan(self, cluster: Any) -> hm.Plan:
        """Return a plan: by shares, or with slabs of every layer drawn by themselves, and some layers whole or split otherwise."""
        shares = [self.random.choice([0, 1, 1, 2, 5]) for _ in range(self.devices)]
        shares[self.random.randrange(self.devices)] += 1
        along = self.random.choice([None, self.random.randrange(self.rank)])
        if self.random.random() < 0.4:
            return hm.Plan.space(self.model, shares, cluster, self.batch, along)
        single = hm.Plan.single(self.model, 0, cluster, self.batch)
        graph = hm.layer_graph(self.model)
        own = self.random.random() < 0.2
        fixed = self.random.randrange(self.rank)
        layouts = [self._layout(graph, index, self.random.randrange(self.rank) if own else fixed) for index in range(len(graph.layers))]
        return dataclasses.replace(single, strategy="drawn", stages=(full_stage(layouts, range(self.devices)),))

    def _layout(self, graph: LayerGraph, index: int, dimension: int) -> LayerLayout:
        layer, chance = graph.layers[index], self.random.random()
        plain = LayerLayout(index, layer.name, "replicated")
        if dimension >= len(reach_of(graph, index)) or chance < 0.1:
            return plain
        if chance < 0.2:
            return dataclasses.replace(plain, layout="batch", samples=self._cut(self.batch))
        return dataclasses.replace(plain, layout="space", slabs=self._cut(layer.output_shape[dimension]), dimension=dimension)

    def _cut(self, total: int) -> tuple[int, ...]:
        ends = sorted(self.random.choices(range(total + 1), k=self.devices - 1))
        return tuple(b - a for a, b in zip([0, *ends], [*ends, total]))

    def _trunk(self) -> Any:
        x, skips = self.input, []
        for _ in range(self.random.randint(3, 6)):
            skips.append(x)
            x = self._layer(x)
            alike = [other for other in skips if other.shape[1:-1] == x.shape[1:-1]]
            if alike and self.random.random() < 0.5:
                x = self._merge(x, self.random.choice(alike))
        return x

    def _merge(self, x: Any, other: Any) -> Any:
        if other.shape[-1] == x.shape[-1] and self.random.random() < 0.5:
            return self.random.choice([keras.layers.Add, keras.layers.Multiply, keras.layers.Subtract])()([x, other])
        return keras.layers.Concatenate()([other, x])

    def _layer(self, x: Any) -> Any:
        others = ["transposed", "elementwise", "padding", "cropping", "upsampling", "gate", "apart"]
        names = [*["convolution"] * 3, *["pool"] * 2, *["norm"] * 2, *others]
        return getattr(self, f"_{self.random.choice(names)}")(x)

    def _of(self, name: str) -> Any:
        return getattr(keras.layers, f"{name}{self.rank}D")

    def _windows(self, x: Any) -> tuple[list[int], list[int], str]:
        space = x.shape[1:-1]
        window = [self.random.randint(1, min(4, n)) for n in space]
        strides = [self.random.choice([1, 1, 2]) if n > LEAST else 1 for n in space]
        padding = self.random.choice(["same", "same", "valid"])
        if padding == "valid" and any((n - k) // s + 1 < LEAST for n, k, s in zip(space, window, strides)):
            padding = "same"
        return window, strides, padding

    def _convolution(self, x: Any) -> Any:
        window, strides, padding = self._windows(x)
        dilation = [1] * self.rank
        if self.random.random() < 0.3:
            dilation, strides = [self.random.randint(1, 2) for _ in window], [1] * self.rank
            if padding == "valid" and any(n - k + 1 < LEAST for n, k in zip(x.shape[1:-1], dilated(window, dilation))):
                padding = "same"
        filters = self.random.randint(1, 4)
        groups = filters if x.shape[-1] % filters == 0 and self.random.random() < 0.4 else 1
        bias = self.random.random() < 0.7
        activation = self.random.choice([None, "relu", "tanh"])
        return self._of("Conv")(filters, window, strides, padding, None, dilation, groups, activation, bias)(x)

    def _apart(self, x: Any) -> Any:
        window, strides, padding = self._windows(x)
        if self.rank == 3:
            return self._of("Conv")(x.shape[-1], window, strides, padding, groups=x.shape[-1])(x)
        strides = [strides[0]] * self.rank if all(n > LEAST for n in x.shape[1:-1]) else [1] * self.rank  # TensorFlow's are equal
        if padding == "valid" and any((n - k) // s + 1 < LEAST for n, k, s in zip(x.shape[1:-1], window, strides)):
            padding = "same"
        if self.random.random() < 0.5:
            return keras.layers.DepthwiseConv2D(window, strides, padding, depth_multiplier=self.random.randint(1, 2))(x)
        return keras.layers.SeparableConv2D(self.random.randint(1, 3), window, strides, padding)(x)

    def _transposed(self, x: Any) -> Any:
        window = [self.random.randint(1, 3) for _ in range(self.rank)]
        strides = [self.random.choice([1, 2]) if n < 9 else 1 for n in x.shape[1:-1]]
        padding = self.random.choice(["same", "valid"])
        return self._of_transposed()(self.random.randint(1, 3), window, strides, padding)(x)

    def _of_transposed(self) -> Any:
        return getattr(keras.layers, f"Conv{self.rank}DTranspose")

    def _pool(self, x: Any) -> Any:
        window, strides, padding = self._windows(x)
        return self._of(self.random.choice(["MaxPooling", "AveragePooling"]))(window, strides, padding)(x)

    def _norm(self, x: Any) -> Any:
        channels = x.shape[-1]
        groups = self.random.choice([n for n in range(1, channels + 1) if channels % n == 0])
        axes = list(range(-self.random.randint(1, self.rank + 1), 0))
        return self.random.choice(
            [
                keras.layers.BatchNormalization(momentum=0.8),
                keras.layers.GroupNormalization(groups),
                keras.layers.GroupNormalization(-1),
                keras.layers.LayerNormalization(axis=axes),
                keras.layers.RMSNormalization(axis=axes),
                keras.layers.UnitNormalization(),
            ]
        )(x)

    def _elementwise(self, x: Any) -> Any:
        shared = self.random.choice([None, list(range(1, self.rank + 1))])
        seed = self.random.randrange(1000)
        return self.random.choice(
            [
                keras.layers.ReLU(),
                keras.layers.LeakyReLU(),
                keras.layers.PReLU(shared_axes=shared, alpha_initializer="random_normal"),
                keras.layers.Activation("sigmoid"),
                keras.layers.Softmax(),
                keras.layers.Dropout(0.3, seed=seed),
                self._of("SpatialDropout")(0.3, seed=seed),
                keras.layers.GaussianNoise(0.1, seed=seed),
                keras.layers.Rescaling(0.5, 0.1),
                keras.layers.Dense(self.random.randint(1, 3)),
            ]
        )(x)

    def _padding(self, x: Any) -> Any:
        return self._of("ZeroPadding")([[self.random.randint(0, 2), self.random.randint(0, 2)] for _ in range(self.rank)])(x)

    def _cropping(self, x: Any) -> Any:
        sides = []
        for n in x.shape[1:-1]:
            before = self.random.randint(0, min(2, n - LEAST))
            sides.append([before, self.random.randint(0, min(2, n - LEAST - before))])
        return self._of("Cropping")(sides)(x)

    def _upsampling(self, x: Any) -> Any:
        return self._of("UpSampling")([self.random.choice([1, 2]) if n < 9 else 1 for n in x.shape[1:-1]])(x)

    def _gate(self, x: Any) -> Any:
        pooled = self._of(self.random.choice(["GlobalAveragePooling", "GlobalMaxPooling"]))(keepdims=True)(x)
        return keras.layers.Multiply()([x, keras.layers.Dense(x.shape[-1], activation="sigmoid")(pooled)])

    def _head(self, x: Any) -> Any:
        if self.random.random() < 0.5:
            activation = self.random.choice([None, "softmax"])
            self.logits = activation is None
            return self._of("Conv")(3, 1, activation=activation)(x)
        flat = keras.layers.Flatten()
        pooled = self._of(self.random.choice(["GlobalAveragePooling", "GlobalMaxPooling"]))() if self.random.random() < 0.6 else flat
        return keras.layers.Dense(3)(pooled(x))
