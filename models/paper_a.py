"""The two networks that heterogeneous filter splitting was published with.

Moreno-Alvarez, Haut, Paoletti, Rico-Gallego, "Heterogeneous model parallelism for deep neural networks", Neurocomputing 441 (2021) 1-12,
doi 10.1016/j.neucom.2021.01.125. The layers are those of the code released with the paper: "same" padding, ReLU after every hidden layer,
biases in dense layers and none in convolutions. The outputs are logits without a softmax.
"""

from __future__ import annotations

from collections.abc import Sequence

import keras

CIFAR_FILTERS = (60, 60, 120, 120, 240, 240, 480, 480)
MNIST_FILTERS, MNIST_WINDOWS = (60, 120, 240), (7, 5, 3)


def cifar(classes: int = 10, filters: Sequence[int] = CIFAR_FILTERS) -> keras.Model:
    """Return the CIFAR-10 network: eight 3x3 convolutions, a 2x2 max pool after each pair, and two dense layers; 4.61 million weights.

    4,116,420 of the weights are the convolutions'.

    Parameters
    ----------
    classes : number of logits.
    filters : of each convolution.

    Returns
    -------
    keras.Model from (samples, 32, 32, 3) images to (samples, classes) logits; trained with batches of 200 in the paper.
    """
    layers = keras.layers
    inputs = x = keras.Input((32, 32, 3), name="image")
    for number, count in enumerate(filters, 1):
        x = layers.Conv2D(count, 3, padding="same", activation="relu", use_bias=False, name=f"conv{number}")(x)
        if number % 2 == 0:
            x = layers.MaxPooling2D(2, name=f"pool{number // 2}")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(256, activation="relu", name="hidden")(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name="paper_a_cifar")


def mnist(classes: int = 10, filters: Sequence[int] = MNIST_FILTERS) -> keras.Model:
    """Return the MNIST network: convolutions of 7x7, 5x5 and 3x3, one 2x2 average pool, and two dense layers; 6.46 million weights.

    Parameters
    ----------
    classes : number of logits.
    filters : of each convolution.

    Returns
    -------
    keras.Model from (samples, 28, 28, 1) images to (samples, classes) logits; trained with batches of 1000 in the paper.
    """
    layers = keras.layers
    inputs = x = keras.Input((28, 28, 1), name="image")
    for number, (count, window) in enumerate(zip(filters, MNIST_WINDOWS), 1):
        x = layers.Conv2D(count, window, padding="same", activation="relu", use_bias=False, name=f"conv{number}")(x)
    x = layers.AveragePooling2D(2, name="pool")(x)
    x = layers.Flatten(name="flatten")(x)
    x = layers.Dense(128, activation="relu", name="hidden")(x)
    return keras.Model(inputs, layers.Dense(classes, name="logits")(x), name="paper_a_mnist")
