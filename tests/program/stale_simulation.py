"""Schedules without a flush on a small dense network in NumPy, written from their definitions alone: what each stage does in each tick."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

WIDTH, LAYERS = 6, 5
Weights = list[list[np.ndarray]]


class Momentum:
    """v = m v - lr g; w += v."""

    def __init__(self, rate: float = 0.0625, momentum: float = 0.5) -> None:
        self.rate, self.momentum, self.slots = rate, momentum, dict[tuple[int, int], np.ndarray]()

    def __call__(self, key: tuple[int, int], weight: np.ndarray, gradient: np.ndarray, number: int) -> np.ndarray:
        self.slots[key] = self.momentum * self.slots.get(key, np.zeros_like(weight)) - self.rate * gradient
        return weight + self.slots[key]

    def direction(self, key: tuple[int, int], number: int) -> np.ndarray | float:
        return self.slots.get(key, 0.0)


class Adam:
    """Adam with bias correction, of update `number` from 0."""

    def __init__(self, rate: float = 0.0625, first: float = 0.5, second: float = 0.75, epsilon: float = 2.0**-20) -> None:
        self.rate, self.first, self.second, self.epsilon = rate, first, second, epsilon
        self.slots: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, key: tuple[int, int], weight: np.ndarray, gradient: np.ndarray, number: int) -> np.ndarray:
        mean, square = self.slots.get(key, (np.zeros_like(weight), np.zeros_like(weight)))
        mean = self.first * mean + (1 - self.first) * gradient
        square = self.second * square + (1 - self.second) * gradient**2
        self.slots[key] = mean, square
        rate = self.rate * np.sqrt(1 - self.second ** (number + 1)) / (1 - self.first ** (number + 1))
        return weight - rate * mean / (np.sqrt(square) + self.epsilon)

    def direction(self, key: tuple[int, int], number: int) -> np.ndarray | float:
        if key not in self.slots:
            return 0.0
        mean, square = self.slots[key]
        rate = self.rate * np.sqrt(1 - self.second ** (number + 1)) / (1 - self.first ** (number + 1))
        return -rate * mean / (np.sqrt(square) + self.epsilon)


Rule = Momentum | Adam


def inputs_of(layer: int) -> tuple[int, ...]:
    """Return the outputs that a layer adds up as its input; -1 is the batch. The last one has a shortcut from the first."""
    return (layer - 1,) if layer < LAYERS - 1 else (layer - 1, 0)


@dataclasses.dataclass(frozen=True)
class Way:
    """A schedule and its options; `parts` microbatches a batch."""

    versions: bool = False
    stored: bool = False
    accumulate: int = 1
    predict: bool = False
    parts: int = 1
    rates: tuple[float, ...] = ()


@dataclasses.dataclass
class Unit:
    """A batch or microbatch: its data, its update, whether it is the last one before it, and the units that the update sums."""

    x: np.ndarray
    y: np.ndarray
    update: int
    is_last: bool
    share: float
    number: int


class Simulation:
    """The network, in K stages.

    Parameters
    ----------
    weights : (layers,) kernel and bias, tanh after all layers but the last.
    starts : (stages,) first layer of each.
    rules : (stages,) optimizer of each.
    """

    def __init__(self, weights: Weights, starts: Sequence[int], rules: Sequence[Rule], way: Way = Way()) -> None:
        self.weights = [[part.copy() for part in layer] for layer in weights]
        self.starts, self.rules, self.way = list(starts), list(rules), way
        self.number = 0  # of the next batch
        self.losses: list[float] = []

    def stage_of(self, layer: int) -> int:
        return sum(start <= layer for start in self.starts) - 1

    def layers(self, stage: int) -> range:
        return range(self.starts[stage], [*self.starts[1:], LAYERS][stage])

    def units(self, batches: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Unit]:
        way, units = self.way, []
        for b, (x, y) in enumerate(batches):
            for m, (part, target) in enumerate(zip(np.split(x, way.parts), np.split(y, way.parts))):
                first = b - b % way.accumulate
                count = min(way.accumulate, len(batches) - first)
                is_last = m == way.parts - 1 and b == first + count - 1
                number = (self.number + first) // way.accumulate
                units.append(Unit(part, target, b // way.accumulate, is_last, 1 / count / way.parts, number))
        return units

    def run(self, batches: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Train on batches of one size, until none is in flight."""
        units, stages = self.units(batches), len(self.starts)
        sent: dict[tuple[int, int], np.ndarray] = {}  # (layer, unit) -> output as its stage computed it in its forward pass
        returned: dict[tuple[int, int, int], np.ndarray] = {}  # (layer, reading stage, unit) -> gradient of that output
        passes: dict[
            tuple[int, int], tuple[Weights, dict[int, np.ndarray]]
        ] = {}  # (stage, unit) -> weights and outputs of the forward pass
        self.versions: dict[tuple[int, int], Weights] = {}  # (stage, updates before) -> weights to read
        sums: list[dict[tuple[int, int], np.ndarray]] = [{} for _ in range(stages)]
        self.updated = [0] * stages
        self.start = [list(layer) for layer in self.weights]
        for stage in range(stages):
            self.versions[stage, 0] = self.predicted(stage, 1, units[0].number)
        for tick in range(len(units) + 2 * (stages - 1)):
            new_sent, new_returned, gradients_of = {}, {}, {}
            for stage in range(stages):
                n = tick - stage
                if 0 <= n < len(units):
                    weights = self.read(stage, n, units)
                    outputs = self.forward(weights, stage, n, units[n].x, sent)
                    passes[stage, n] = weights, outputs
                    new_sent.update({(layer, n): outputs[layer] for layer in self.layers(stage)})
            for stage in range(stages):
                n = tick - 2 * (stages - 1) + stage
                if 0 <= n < len(units):
                    weights, outputs = passes[stage, n]
                    if not (self.way.stored or self.way.versions or stage == stages - 1):
                        weights = self.weights
                        outputs = self.forward(weights, stage, n, units[n].x, sent)
                    gradients, back = self.backward(weights, outputs, stage, n, units[n], sent, returned)
                    gradients_of[stage] = units[n], gradients
                    new_returned.update(back)
            sent.update(new_sent)
            returned.update(new_returned)
            for stage, (unit, gradients) in gradients_of.items():
                for key, gradient in gradients.items():
                    sums[stage][key] = sums[stage].get(key, 0.0) + gradient
                if unit.is_last:
                    self.update(stage, unit, sums[stage], units)
                    sums[stage] = {}
        self.number += len(batches)

    def update(self, stage: int, unit: Unit, gradients: dict[tuple[int, int], np.ndarray], units: Sequence[Unit]) -> None:
        for (layer, part), gradient in gradients.items():
            self.weights[layer][part] = self.rules[stage]((layer, part), self.weights[layer][part], gradient * unit.share, unit.number)
        self.updated[stage] += 1
        following = next((other.number for other in units if other.update == self.updated[stage]), unit.number + 1)
        self.versions[stage, self.updated[stage]] = self.predicted(stage, 1, following)

    def read(self, stage: int, n: int, units: Sequence[Unit]) -> Weights:
        """Return the weights of the forward pass of unit n."""
        update = units[n].update
        if self.way.versions and len(self.starts) > 1:
            return self.versions[stage, update - 1] if update else self.start
        if self.way.versions:
            return self.weights
        between = 2 * (len(self.starts) - 1 - stage)
        distance = sum(unit.is_last for unit in units[max(n - between, 0) : n])
        following = next(unit.number for unit in units if unit.update == self.updated[stage])
        return self.predicted(stage, distance, following)

    def predicted(self, stage: int, distance: int, number: int) -> Weights:
        if not self.way.predict:
            distance = 0
        rule = self.rules[stage]
        return [
            [part + (distance * rule.direction((layer, p), number) if distance else 0.0) for p, part in enumerate(parts)]
            for layer, parts in enumerate(self.weights)
        ]

    def forward(
        self, weights: Weights, stage: int, n: int, x: np.ndarray, sent: dict[tuple[int, int], np.ndarray]
    ) -> dict[int, np.ndarray]:
        outputs: dict[int, np.ndarray] = {}
        for layer in self.layers(stage):
            kernel, bias = weights[layer]
            before = self.added(layer, n, x, sent, outputs) @ kernel + bias
            outputs[layer] = before if layer == LAYERS - 1 else np.tanh(before)
        return outputs

    def added(
        self, layer: int, n: int, x: np.ndarray, sent: dict[tuple[int, int], np.ndarray], outputs: dict[int, np.ndarray]
    ) -> np.ndarray:
        read = [x if source < 0 else outputs[source] if source in outputs else sent[source, n] for source in inputs_of(layer)]
        return np.sum(read, axis=0)

    def backward(
        self,
        weights: Weights,
        outputs: dict[int, np.ndarray],
        stage: int,
        n: int,
        unit: Unit,
        sent: dict[tuple[int, int], np.ndarray],
        returned: dict[tuple[int, int, int], np.ndarray],
    ) -> tuple[dict[tuple[int, int], np.ndarray], dict[tuple[int, int, int], np.ndarray]]:
        last = stage == len(self.starts) - 1
        of_output = {layer: np.zeros_like(outputs[layer]) for layer in outputs}
        if last:
            error = outputs[LAYERS - 1] - unit.y
            self.losses.append(float(np.mean(error**2)))
            of_output[LAYERS - 1] += 2 * error / error.size
        for layer, reader in itertools.product(outputs, range(stage + 1, len(self.starts))):
            if (layer, reader, n) in returned:
                of_output[layer] += returned[layer, reader, n]
        gradients, back = {}, {}
        for layer in reversed(self.layers(stage)):
            before = of_output[layer] if layer == LAYERS - 1 else of_output[layer] * (1 - outputs[layer] ** 2)
            gradients[layer, 0] = self.added(layer, n, unit.x, sent, outputs).T @ before
            gradients[layer, 1] = before.sum(0)
            of_input = before @ weights[layer][0].T
            for source in inputs_of(layer):
                if source in of_output:
                    of_output[source] += of_input
                elif source >= 0:
                    key = source, stage, n
                    back[key] = back[key] + of_input if key in back else of_input
        return gradients, back
