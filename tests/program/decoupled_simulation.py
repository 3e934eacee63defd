"""Schedule "decoupled" on a small dense network in NumPy, written from its definition alone: what each stage does in each tick."""

from __future__ import annotations

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


Rule = Momentum | Adam


def inputs_of(layer: int) -> tuple[int, ...]:
    """Return the outputs that a layer adds up as its input; -1 is the batch. The last one has a shortcut from the first."""
    return (layer - 1,) if layer < LAYERS - 1 else (layer - 1, 0)


class Simulation:
    """The network, in K stages.

    Parameters
    ----------
    weights : (layers,) kernel and bias, tanh after all layers but the last.
    starts : (stages,) first layer of each.
    rule : optimizer.
    """

    def __init__(self, weights: Weights, starts: Sequence[int], rule: Rule) -> None:
        self.weights = [[part.copy() for part in layer] for layer in weights]
        self.starts, self.rule = list(starts), rule
        self.number = 0  # of the next batch
        self.losses: list[float] = []

    def stage_of(self, layer: int) -> int:
        return sum(start <= layer for start in self.starts) - 1

    def layers(self, stage: int) -> range:
        return range(self.starts[stage], [*self.starts[1:], LAYERS][stage])

    def run(self, batches: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Train on batches of one size, until none is in flight."""
        stages = len(self.starts)
        sent: dict[tuple[int, int], np.ndarray] = {}  # (layer, batch) -> output as its stage computed it in its forward pass
        returned: dict[tuple[int, int, int], np.ndarray] = {}  # (layer, reading stage, batch) -> gradient of that output
        for tick in range(len(batches) + 2 * (stages - 1)):
            new_sent, new_returned, updates = {}, {}, []
            for stage in range(stages):
                batch = tick - stage
                if 0 <= batch < len(batches):
                    outputs = self.forward(stage, batch, batches[batch][0], sent)
                    new_sent.update({(layer, batch): outputs[layer] for layer in self.layers(stage)})
            for stage in range(stages):
                batch = tick - 2 * (stages - 1) + stage
                if 0 <= batch < len(batches):
                    gradients, back = self.backward(stage, batch, batches[batch], sent, returned)
                    updates.append((batch, gradients))
                    new_returned.update(back)
            sent.update(new_sent)
            returned.update(new_returned)
            for batch, gradients in updates:
                for (layer, part), gradient in gradients.items():
                    self.weights[layer][part] = self.rule((layer, part), self.weights[layer][part], gradient, self.number + batch)
        self.number += len(batches)

    def forward(self, stage: int, batch: int, x: np.ndarray, sent: dict[tuple[int, int], np.ndarray]) -> dict[int, np.ndarray]:
        outputs: dict[int, np.ndarray] = {}
        for layer in self.layers(stage):
            kernel, bias = self.weights[layer]
            before = self.added(layer, batch, x, sent, outputs) @ kernel + bias
            outputs[layer] = before if layer == LAYERS - 1 else np.tanh(before)
        return outputs

    def added(
        self, layer: int, batch: int, x: np.ndarray, sent: dict[tuple[int, int], np.ndarray], outputs: dict[int, np.ndarray]
    ) -> np.ndarray:
        read = [x if source < 0 else outputs[source] if source in outputs else sent[source, batch] for source in inputs_of(layer)]
        return np.sum(read, axis=0)

    def backward(
        self,
        stage: int,
        batch: int,
        data: tuple[np.ndarray, np.ndarray],
        sent: dict[tuple[int, int], np.ndarray],
        returned: dict[tuple[int, int, int], np.ndarray],
    ) -> tuple[dict[tuple[int, int], np.ndarray], dict[tuple[int, int, int], np.ndarray]]:
        x, y = data
        outputs = self.forward(stage, batch, x, sent)
        last = stage == len(self.starts) - 1
        of_output = {layer: np.zeros_like(outputs[layer]) for layer in outputs}
        if last:
            error = outputs[LAYERS - 1] - y
            self.losses.append(float(np.mean(error**2)))
            of_output[LAYERS - 1] += 2 * error / error.size
        for layer, reader in itertools.product(outputs, range(stage + 1, len(self.starts))):
            if (layer, reader, batch) in returned:
                of_output[layer] += returned[layer, reader, batch]
        gradients, back = {}, {}
        for layer in reversed(self.layers(stage)):
            before = of_output[layer] if layer == LAYERS - 1 else of_output[layer] * (1 - outputs[layer] ** 2)
            gradients[layer, 0] = self.added(layer, batch, x, sent, outputs).T @ before
            gradients[layer, 1] = before.sum(0)
            of_input = before @ self.weights[layer][0].T
            for source in inputs_of(layer):
                if source in of_output:
                    of_output[source] += of_input
                elif source >= 0:
                    key = source, stage, batch
                    back[key] = back[key] + of_input if key in back else of_input
        return gradients, back
