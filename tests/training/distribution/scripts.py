"""What people write with a Keras model, as functions of the model: each returns what it saw."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.training.distribution.networks import (
    X,
    Y,
    by_key,
    endpoint,
    gray,
    masked,
    nested,
    network,
    of_pixels,
    of_words,
    one_of_many,
    regression,
    subclassed,
    two_heads,
    two_heads_out_of_order,
    unreduced,
    with_a_loss_of_its_own,
)

L = keras.layers
WEIGHTS = np.linspace(0.5, 2.0, 22)
QUIET: dict[str, Any] = {"verbose": 0, "shuffle": False}


def whole(model: keras.Model, folder: pathlib.Path) -> Any:
    """Fit with validation, evaluate, predict, take single batches, save and load."""
    history = model.fit(X, Y, batch_size=8, epochs=2, validation_split=0.2, **QUIET).history
    seen = [history, model.evaluate(X, Y, verbose=0), model.evaluate(X, Y, batch_size=5, return_dict=True, verbose=0)]
    seen += [
        model.predict(X, verbose=0),
        model.train_on_batch(X[:7], Y[:7]),
        model.test_on_batch(X[:9], Y[:9]),
        model.predict_on_batch(X[:3]),
    ]
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    assert type(loaded) is type(model) and "fit" not in vars(loaded)
    return seen, loaded.predict(X, verbose=0), loaded.evaluate(X, Y, verbose=0)


def heads(model: keras.Model, folder: pathlib.Path) -> Any:
    """Train two outputs, by dicts."""
    y = {"kind": Y, "size": X.mean((1, 2, 3))[:, None]}
    history = model.fit(X, y, batch_size=11, epochs=2, **QUIET).history
    return history, model.evaluate(X, y, verbose=0, batch_size=11), model.predict(X, verbose=0), model.metrics_names


def weighted(model: keras.Model, folder: pathlib.Path) -> Any:
    """Weigh samples and classes."""
    first = model.fit(X, Y, sample_weight=WEIGHTS, batch_size=8, **QUIET).history
    second = model.fit(X, Y, class_weight={0: 1.0, 1: 3.0, 2: 0.5}, batch_size=8, **QUIET).history
    return first, second, model.evaluate(X, Y, sample_weight=WEIGHTS, verbose=0), model.train_on_batch(X, Y, WEIGHTS, return_dict=True)


def shuffled(model: keras.Model, folder: pathlib.Path) -> Any:
    """Let Keras shuffle by its own seed."""
    keras.utils.set_random_seed(3)
    return model.fit(X, Y, batch_size=8, epochs=2, verbose=0).history


def dataset(model: keras.Model, folder: pathlib.Path) -> Any:
    """Train by tf.data: finite, and endless with steps, across epochs."""
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    first = model.fit(batches, epochs=2, validation_data=batches, **QUIET).history
    endless = batches.repeat()
    second = model.fit(endless, steps_per_epoch=4, epochs=3, validation_data=endless, validation_steps=2, **QUIET).history
    return first, second, model.evaluate(endless, steps=2, verbose=0), model.predict(endless, steps=2, verbose=0)


def several_steps(model: keras.Model, folder: pathlib.Path) -> Any:
    """Take several steps a call."""
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], steps_per_execution=2)
    history = model.fit(X, Y, batch_size=8, epochs=2, **QUIET).history
    return history, model.evaluate(X, Y, batch_size=8, verbose=0), model.predict(X, batch_size=8, verbose=0)


def generator(model: keras.Model, folder: pathlib.Path) -> Any:
    """Train by a generator, of which no batch is lost between epochs."""

    def batches() -> Iterator[Any]:
        for at in range(1000):
            yield X[:6] + at, Y[:6]

    return model.fit(batches(), steps_per_epoch=3, epochs=3, **QUIET).history


def unknown_length(model: keras.Model, folder: pathlib.Path) -> Any:
    """Train by data whose length Keras does not know: tf.data from a generator, a generator itself, and more steps than there are."""

    def three() -> Iterator[Any]:
        for at in range(0, 21, 7):
            yield X[at : at + 7], Y[at : at + 7]

    forms = tf.TensorSpec((None, 5, 5, 2), "float64"), tf.TensorSpec((None,), "int64")
    batches = tf.data.Dataset.from_generator(three, output_signature=forms)
    seen = [model.fit(batches, epochs=3, validation_data=batches, **QUIET).history, int(model.optimizer.iterations)]
    seen += [model.fit(three(), **QUIET).history, int(model.optimizer.iterations)]
    seen += [model.fit(batches.repeat(), epochs=2, steps_per_epoch=2, **QUIET).history, int(model.optimizer.iterations)]
    model.compile("adam", "sparse_categorical_crossentropy", run_eagerly=True)
    return seen, model.fit(batches, epochs=2, **QUIET).history, int(model.optimizer.iterations)


def sequence(model: keras.Model, folder: pathlib.Path) -> Any:
    """Train by a PyDataset."""

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, at: int) -> Any:
            return X[at * 8 : at * 8 + 8], Y[at * 8 : at * 8 + 8]

    return model.fit(Batches(), epochs=2, **QUIET).history, model.evaluate(Batches(), verbose=0), model.predict(Batches(), verbose=0)


def callbacks(model: keras.Model, folder: pathlib.Path) -> Any:
    """Use Keras's callbacks that read and change the model."""
    C = keras.callbacks
    used = [
        C.ModelCheckpoint(folder / "best.weights.h5", save_weights_only=True, save_best_only=True, monitor="val_loss"),
        C.EarlyStopping(monitor="val_accuracy", patience=1, restore_best_weights=True, mode="max"),
        C.LearningRateScheduler(lambda epoch, rate: rate * 0.5),
        C.ReduceLROnPlateau(monitor="loss", patience=0, min_delta=10.0),
        C.CSVLogger(folder / "log.csv"),
        C.TerminateOnNaN(),
    ]
    history = model.fit(X, Y, batch_size=8, epochs=4, validation_data=(X, Y), callbacks=used, **QUIET).history
    model.load_weights(folder / "best.weights.h5")
    return history, model.evaluate(X, Y, verbose=0), model.fit(X, Y, batch_size=8, **QUIET).history, model.stop_training


def own_callback(model: keras.Model, folder: pathlib.Path) -> Any:
    """Read the weights after batches, change them there and at an epoch's end, and stop."""
    seen = []

    class Own(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append((batch, float(logs["loss"]), np.array(self.model.get_weights()[0]).sum(), int(self.model.optimizer.iterations)))
            if batch == 1:
                self.model.layers[-1].bias.assign([0.5, 0.0, 0.1])

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append((epoch, sorted(logs), np.array(self.model.get_weights()[-1]).sum()))
            self.model.set_weights([weight * 0.9 for weight in self.model.get_weights()])
            self.model.stop_training = epoch == 1

    history = model.fit(X, Y, batch_size=8, epochs=5, callbacks=Own(), **QUIET).history
    return history, seen


def functions(model: keras.Model, folder: pathlib.Path) -> Any:
    """Give functions as callbacks, in a list that Keras has made before."""
    seen: list[Any] = []
    own = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(np.array(model.get_weights()[-1]).sum()))
    many = keras.callbacks.CallbackList([own], add_history=True, model=model, epochs=2, steps=3)
    return model.fit(X, Y, batch_size=8, epochs=2, callbacks=many, **QUIET).history, seen


def backup(model: keras.Model, folder: pathlib.Path) -> Any:
    """Be interrupted, and go on from a backup."""

    class Interrupt(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                raise RuntimeError("interrupted")

    back = keras.callbacks.BackupAndRestore(folder / "backup")
    try:
        model.fit(X, Y, batch_size=8, epochs=4, callbacks=[back, Interrupt()], **QUIET)
    except RuntimeError:
        pass
    between = [np.array(weight) for weight in model.get_weights()]
    model.set_weights([weight * 0.0 for weight in between])
    return between, model.fit(
        X, Y, batch_size=8, epochs=4, callbacks=[keras.callbacks.BackupAndRestore(folder / "backup")], **QUIET
    ).history


def recompiled(model: keras.Model, folder: pathlib.Path) -> Any:
    """Freeze a layer and compile again, with another optimizer and other metrics: transfer learning."""
    first = model.fit(X, Y, batch_size=8, **QUIET).history
    model.layers[0].trainable = False
    model.compile(keras.optimizers.RMSprop(0.01), "sparse_categorical_crossentropy", metrics=["sparse_categorical_crossentropy"])
    kept = np.array(model.layers[0].get_weights()[0])
    second = model.fit(X, Y, batch_size=5, epochs=2, **QUIET).history
    assert np.array_equal(kept, model.layers[0].get_weights()[0])
    return first, second, model.evaluate(X, Y, verbose=0)


def frozen_with_the_same_optimizer(model: keras.Model, folder: pathlib.Path) -> Any:
    """Freeze a layer and compile again with the optimizer that has trained it, whose slots and steps go on; then free it again."""
    first = model.fit(X, Y, batch_size=8, **QUIET).history
    model.layers[0].trainable = False
    model.compile(model.optimizer, "sparse_categorical_crossentropy")
    second = model.fit(X, Y, batch_size=8, epochs=2, **QUIET).history
    model.layers[0].trainable = True
    model.compile(model.optimizer, "sparse_categorical_crossentropy")
    return first, second, model.fit(X, Y, batch_size=8, **QUIET).history


class _Freeze(keras.callbacks.Callback):
    """Freezes the first layer as the second epoch begins."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.layers[0].trainable = epoch == 0


def frozen_meanwhile(model: keras.Model, folder: pathlib.Path) -> Any:
    """Freeze a layer in a callback, which Keras's compiled step does not take note of."""
    return model.fit(X, Y, batch_size=11, epochs=3, callbacks=[_Freeze()], **QUIET).history


def frozen_meanwhile_eagerly(model: keras.Model, folder: pathlib.Path) -> Any:
    """Freeze a layer in a callback of a model that runs eagerly, which Keras does take note of."""
    model.compile("adam", "sparse_categorical_crossentropy", run_eagerly=True)
    return model.fit(X, Y, batch_size=11, epochs=3, callbacks=[_Freeze()], **QUIET).history


def argument_trained(model: keras.Model, folder: pathlib.Path) -> Any:
    """Hand the model to a function that trains it and returns nothing."""

    def train(given: keras.Model) -> None:
        given.fit(X, Y, batch_size=8, **QUIET)

    train(model)
    return model.get_weights(), keras.Model(model.inputs, model.layers[-2].output)(X[:2])


def averaged(model: keras.Model, folder: pathlib.Path) -> Any:
    """Average the weights, which are the model's at the end of `fit`, and train on."""
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=None)
    model.compile(optimizer, "sparse_categorical_crossentropy")
    first = model.fit(X, Y, batch_size=8, epochs=2, **QUIET).history
    between = [np.array(weight) for weight in model.get_weights()]
    return first, between, model.fit(X, Y, batch_size=8, epochs=1, **QUIET).history


def scheduled(model: keras.Model, folder: pathlib.Path) -> Any:
    """Decay the rate by steps, clip gradients, and sum them over two batches."""
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    model.compile(keras.optimizers.SGD(rate, clipnorm=0.5), "sparse_categorical_crossentropy")
    first = model.fit(X, Y, batch_size=8, epochs=2, **QUIET).history
    model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "sparse_categorical_crossentropy")
    return first, model.fit(X, Y, batch_size=8, epochs=3, **QUIET).history, int(model.optimizer.iterations)


def metrics(model: keras.Model, folder: pathlib.Path) -> Any:
    """Compile metrics whose result is an array, and one by a function."""

    def largest(y_true: Any, y_pred: Any) -> Any:
        return keras.ops.max(y_pred, -1)

    hot = keras.utils.to_categorical(Y, 3)
    many = [keras.metrics.F1Score(), keras.metrics.Recall(thresholds=[0.2, 0.5]), keras.metrics.AUC(), largest]
    model.compile("sgd", "categorical_crossentropy", metrics=many)
    history = model.fit(X, hot, batch_size=8, epochs=2, validation_data=(X, hot), **QUIET).history
    return {name: np.array(values) for name, values in history.items()}, model.evaluate(X, hot, verbose=0)


def one_number(model: keras.Model, folder: pathlib.Path) -> Any:
    """Give targets of shape (n,) for an output of (n, 1), and metrics that compare them."""
    first = model.fit(X, X.mean((1, 2, 3)), batch_size=8, epochs=2, **QUIET).history
    return first, model.evaluate(X, X.mean((1, 2, 3)), verbose=0)


def added(model: keras.Model, folder: pathlib.Path) -> Any:
    """Fit and evaluate without targets."""
    return model.fit(X, batch_size=8, epochs=2, **QUIET).history, model.evaluate(X, verbose=0), model.predict(X, verbose=0)


def sparse(model: keras.Model, folder: pathlib.Path) -> Any:
    """Give sparse samples by tf.data."""
    batches = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(X.reshape(22, 50) * (X.reshape(22, 50) > 0.5)), Y)).batch(8)
    return model.fit(batches, epochs=2, **QUIET).history, model.evaluate(batches, verbose=0), model.predict(batches, verbose=0)


def words(model: keras.Model, folder: pathlib.Path) -> Any:
    """Give texts and numbers, by arrays and by tf.data."""
    x = {"kind": tf.constant([["a"], ["z"]] * 11), "text": tf.constant([["b a"], ["d c a"]] * 11), "numbers": X[:, 0, 0]}
    batches = tf.data.Dataset.from_tensor_slices((x, Y)).batch(8)
    seen = model.fit(x, Y, batch_size=8, **QUIET).history, model.fit(batches, epochs=2, validation_data=batches, **QUIET).history
    model.save(folder / "model.keras")
    loaded = keras.models.load_model(folder / "model.keras")
    return seen, model.evaluate(batches, verbose=0), model.predict(x, verbose=0), loaded.predict(x, verbose=0)


def simple(model: keras.Model, folder: pathlib.Path) -> Any:
    """Fit, evaluate and predict."""
    history = model.fit(X, Y, batch_size=8, epochs=2, **QUIET).history
    return history, model.evaluate(X, Y, verbose=0), model.predict(X, verbose=0)


def and_on(model: keras.Model, folder: pathlib.Path) -> Any:
    """Train on after a test and a prediction."""
    return simple(model, folder), model.fit(X, Y, batch_size=8, **QUIET).history


def without_channel(model: keras.Model, folder: pathlib.Path) -> Any:
    """Give images without the dimension of their one channel."""
    history = model.fit(X[..., 0], Y, batch_size=8, epochs=2, **QUIET).history
    return history, model.evaluate(X[..., 0], Y, verbose=0), model.predict(X[..., :1], verbose=0)


def of_another_rank(model: keras.Model, folder: pathlib.Path) -> Any:
    """Give targets without the dimension of their one channel."""
    y = X[..., 0] * 0.5
    return model.fit(X, y, batch_size=8, epochs=2, **QUIET).history, model.evaluate(X, y, verbose=0), model.predict(X[:2], verbose=0)


def key_too_many(model: keras.Model, folder: pathlib.Path) -> Any:
    """Give a dict with an array that no input takes."""
    x = {"left": X, "right": X * 0.5, "some": np.ones(22)}
    return model.fit(x, Y, batch_size=8, epochs=2, **QUIET).history, model.evaluate(x, Y, verbose=0)


SCRIPTS: dict[str, tuple[Callable[[keras.Model, pathlib.Path], Any], Callable[[], keras.Model]]] = {
    **{
        script.__name__: (script, network)
        for script in (
            *(whole, weighted, shuffled, dataset, several_steps, generator, sequence, callbacks, own_callback, functions, backup),
            *(recompiled, averaged, scheduled, metrics, frozen_with_the_same_optimizer, frozen_meanwhile, frozen_meanwhile_eagerly),
            *(argument_trained, unknown_length),
        )
    },
    "heads": (heads, two_heads),
    "heads_out_of_order": (heads, two_heads_out_of_order),
    "one_number": (one_number, regression),
    **{make.__name__: (simple, make) for make in (subclassed, nested, unreduced)},
    "masked": (and_on, masked),
    "added": (added, endpoint),
    "sparse": (sparse, one_of_many),
    "words": (words, of_words),
    "own_loss": (simple, with_a_loss_of_its_own),
    "without_channel": (without_channel, gray),
    "key_too_many": (key_too_many, by_key),
    "of_another_rank": (of_another_rank, of_pixels),
}
