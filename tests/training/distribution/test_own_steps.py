"""A training step or loss of the user's own runs on the cluster as under Keras alone, or is refused by a sentence that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.training.distribution.own_step.recorder import depends_on_training
from hetero_mtf.training.distribution.own_step.step import followed_step
from tests.training.distribution.comparison import compare, made, state
from tests.training.setting import cluster

__all__ = ["cluster"]
L, ops = keras.layers, keras.ops
RNG = np.random.default_rng(0)
X, Y = RNG.random((14, 6, 6, 1)), RNG.integers(0, 3, 14)
QUIET: dict[str, Any] = {"verbose": 0, "shuffle": False, "batch_size": 5, "epochs": 2}


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


class Autoencoder(keras.Model):
    """An autoencoder with a term of its own, and a step that returns metrics of its own."""

    def __init__(self) -> None:
        super().__init__()
        i, j = keras.Input((6, 6, 1)), keras.Input((2,))
        x = L.Flatten()(L.Conv2D(4, 3, strides=2, padding="same", activation="relu")(i))
        self.encoder = keras.Model(i, [L.Dense(2)(x), L.Dense(2)(x)])
        self.decoder = keras.Model(j, L.Reshape((6, 6, 1))(L.Dense(36, activation="sigmoid")(j)))
        self.total, self.apart = keras.metrics.Mean(name="loss"), keras.metrics.Mean(name="apart")

    @property
    def metrics(self) -> list[Any]:
        return [self.total, self.apart]

    def train_step(self, data: Any) -> Any:
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            mean, spread = self.encoder(x)
            given = self.decoder(mean + 0.1 * ops.exp(0.5 * spread))
            near = ops.mean(ops.sum(keras.losses.binary_crossentropy(x, given), axis=(1, 2)))
            apart = tf.reduce_mean(tf.reduce_sum(-0.5 * (1 + spread - tf.square(mean) - tf.exp(spread)), axis=1))
            total = near + apart
        gradients = tape.gradient(total, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights))
        self.total.update_state(total)
        self.apart.update_state(apart)
        return {"loss": self.total.result(), "apart": self.apart.result()}


def autoencoder() -> keras.Model:
    """Return it compiled without a loss."""
    model = Autoencoder()
    model.compile("adam")
    return model


class Functions(keras.Model):
    """A functional model whose step is written with functions of TensorFlow, and metrics that it was compiled with."""

    def train_step(self, data: Any) -> Any:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            given = self(x, training=True)
            loss = tf.reduce_mean(tf.square(tf.cast(y, given.dtype)[:, tf.newaxis] - given))
        trained = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, given)
        return {metric.name: metric.result() for metric in self.metrics}


def functions() -> keras.Model:
    """Return it with batch norm and a metric."""
    i = keras.Input((6, 6, 1))
    x = L.BatchNormalization()(L.Conv2D(4, 3, use_bias=False, activation="relu")(i))
    model = Functions(i, L.Dense(1)(L.Flatten()(x)))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss="mse", metrics=["mae"])
    return model


class OwnLoss(keras.Model):
    """A subclassed model that is not built, with regularizers, whose loss is Keras's and more; the mean is weighted."""

    def __init__(self) -> None:
        super().__init__()
        self.flat, self.inner, self.last = L.Flatten(), L.Dense(8, activation="relu"), L.Dense(3)

    def call(self, x: Any) -> Any:
        return self.last(self.inner(self.flat(x)))

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True) -> Any:
        return super().compute_loss(x, y, y_pred, sample_weight) + 0.1 * ops.mean(ops.square(y_pred))


def own_loss() -> keras.Model:
    """Return it compiled with a loss and a metric."""
    model = OwnLoss()
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


class Distiller(keras.Model):
    """A student that learns from a teacher, which is called outside of training."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.student = keras.Sequential([keras.Input((6, 6, 1)), L.Conv2D(3, 3), L.LeakyReLU(), L.Flatten(), L.Dense(3)])
        self.teacher = keras.Sequential([keras.Input((6, 6, 1)), L.Flatten(), L.Dropout(rate), L.BatchNormalization(), L.Dense(3)])

    def call(self, x: Any) -> Any:
        return self.student(x)

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **options: Any) -> Any:
        taught = keras.losses.KLDivergence()(ops.softmax(self.teacher(x, training=False) / 2.0), ops.softmax(y_pred / 2.0))
        return 0.3 * keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, y_pred) + 0.7 * taught


def distiller() -> keras.Model:
    """Return it with dropout and batch norm in the teacher, and a teacher that is trained too, as nobody froze it."""
    model = Distiller(0.5)
    model.compile("adam", metrics=["accuracy"])
    return model


class Extended(keras.Model):
    """A step that does what Keras's does and returns one more number."""

    def train_step(self, data: Any) -> Any:
        return {**super().train_step(data), "one": 1.0}


def extended() -> keras.Model:
    """Return it with regularizers and dropout of nothing, compiled with weighted metrics and two outputs."""
    i = keras.Input((6, 6, 1))
    x = L.Dense(6, activation="relu", kernel_regularizer="l2")(L.Dropout(0.0)(L.Flatten()(i)))
    model = Extended(i, {"kind": L.Dense(3, activation="softmax", name="kind")(x), "size": L.Dense(1, name="size")(x)})
    loss = {"kind": "sparse_categorical_crossentropy", "size": "mse"}
    model.compile("rmsprop", loss, loss_weights={"kind": 1.0, "size": 0.3}, weighted_metrics={"kind": ["accuracy"]})
    return model


class Student(Distiller):
    """A student whose step trains its own weights alone, beside a teacher that nobody froze."""

    def train_step(self, data: Any) -> Any:
        x, y = data[:2]
        taught = self.teacher(x, training=False)
        with tf.GradientTape() as tape:
            given = self.student(x, training=True)
            own = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(y, given)
            loss = 0.3 * own + 0.7 * keras.losses.KLDivergence()(tf.nn.softmax(taught / 2.0), tf.nn.softmax(given / 2.0))
        trained = self.student.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained))
        self.compute_metrics(x, y, given, None)
        return {**{metric.name: metric.result() for metric in self.metrics}, "student": own}


def student() -> keras.Model:
    """Return it, with dropout in the teacher."""
    model = Student(0.5)
    model.compile("adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


class Deprecated(keras.Model):
    """A step around another model, in words of an older Keras; it reads `losses`, which are none."""

    def __init__(self) -> None:
        super().__init__()
        layers = [L.Flatten(), L.Dense(6, activation="relu"), L.Dense(3, activation="softmax")]
        self.model = keras.Sequential([keras.Input((6, 6, 1)), *layers])

    def train_step(self, data: Any) -> Any:
        x, y = data[:2]
        with tf.GradientTape() as tape:
            given = self.model(x, training=True)
            loss = self.compute_loss(y=y, y_pred=given) + sum(self.losses)
        trained = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained))
        self.compute_metrics(x, y, given)
        return {metric.name: metric.result() for metric in self.metrics}

    def call(self, x: Any) -> Any:
        return self.model(x)


def deprecated() -> keras.Model:
    """Return it compiled with a metric; it is given images without their one channel."""
    model = Deprecated()
    model.compile("sgd", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


class Endpoint(L.Layer):
    """A layer that takes the targets, adds the loss, and updates a metric of its own."""

    def __init__(self) -> None:
        super().__init__(name="endpoint")
        self.loss, self.accuracy = keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.metrics.SparseCategoricalAccuracy()

    def call(self, scores: Any, targets: Any) -> Any:
        self.add_loss(self.loss(targets, scores))
        self.accuracy.update_state(targets, scores)
        return ops.softmax(scores)


def endpoint() -> keras.Model:
    """Return a model with it, and a regularizer, compiled without a loss."""
    i, targets = keras.Input((6, 6, 1), name="x"), keras.Input((), dtype="int32", name="y")
    scores = L.Dense(3, kernel_regularizer="l2")(L.Flatten()(i))
    model = keras.Model([i, targets], Endpoint()(scores, targets))
    model.compile("adam")
    return model


TWO = {"kind": Y, "size": X.mean((1, 2, 3))[:, None]}
MODELS: dict[str, tuple[Callable[[], keras.Model], Any]] = {
    "autoencoder": (autoencoder, None),
    "functions": (functions, Y),
    "own_loss": (own_loss, Y),
    "distiller": (distiller, Y),
    "student": (student, Y),
    "extended": (extended, TWO),
    "endpoint": (endpoint, None),
    "deprecated": (deprecated, Y),
}


def _data(make: Callable[[], keras.Model], y: Any) -> Any:
    if make is endpoint:
        return ({"x": X, "y": Y},)
    if make is deprecated:
        return X[..., 0], y
    return (X,) if y is None else (X, y)


def _distributed(make: Callable[[], keras.Model], y: Any, cluster: Any) -> keras.Model:
    first = keras.tree.map_structure(lambda array: array[:5], _data(make, y))
    step = followed_step(made(make), first)
    with step.alone():
        plan = hm.Plan.batch(step.function, [3, 1, 2], cluster, 5)
    return hm.distribute(made(make), cluster, plan=plan)


@pytest.mark.fast("functions")
@pytest.mark.parametrize("name", MODELS)
def test_a_step_gives_what_it_gives_under_keras_alone(name: str, cluster: Any) -> None:
    make, y = MODELS[name]

    def seen(model: keras.Model) -> Any:
        x = _data(make, y)[0]
        histories = [model.fit(x, y, **QUIET).history for _ in range(2)]
        tested = [] if name == "autoencoder" else [model.evaluate(x, y, verbose=0), model.predict(x, verbose=0)]
        single = keras.tree.map_structure(lambda array: array[:4], _data(make, y))
        return histories, tested, model.train_on_batch(*single, return_dict=True), state(model)

    distributed = _distributed(make, y, cluster)
    found = seen(distributed)
    assert hm.distribution(distributed) is not None and len(hm.distribution(distributed).plan.stages[0].devices) == 3  # type: ignore[union-attr]
    expected = seen(made(make))
    if "compile_metrics" in expected[2]:
        pytest.skip("this Keras leaves the metrics of a step of one's own in a dict; here they have their names")
    compare(found, expected)


def test_the_class_works_as_before(cluster: Any) -> None:
    before = vars(keras.layers.Layer)["__call__"], vars(keras.losses.Loss)["__call__"], vars(tf.GradientTape)["gradient"]
    model = made(functions)
    followed_step(model, (X[:5], Y[:5]))
    assert before == (vars(keras.layers.Layer)["__call__"], vars(keras.losses.Loss)["__call__"], vars(tf.GradientTape)["gradient"])
    assert not {"apply_gradients", "apply"} & set(vars(model.optimizer))
    assert all(not {"update_state", "result"} & set(vars(metric)) for metric in model.metrics)


class Adversary(Functions):
    """Takes gradients twice."""

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            loss = ops.mean(self(data[0], training=True))
        tape.gradient(loss, self.trainable_variables)
        trained = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained))
        return {"loss": loss}


class Clipped(Functions):
    """Changes its gradients."""

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = ops.mean(self(data[0], training=True))
        gradients = [tf.clip_by_norm(gradient, 1.0) for gradient in tape.gradient(loss, self.trainable_variables)]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


class Double(Functions):
    """Trains a weight twice."""

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = ops.mean(self(data[0], training=True))
        trained = self.trainable_variables[:1] * 2
        self.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained))
        return {"loss": loss}


class Looking(Functions):
    """Looks at values."""

    def train_step(self, data: Any) -> Any:
        return {"loss": float(np.asarray(data[0]).sum())}


class Penalised(Functions):
    """Adds up by itself what regularizers add."""

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = ops.mean(self(data[0], training=True)) + 2.0 * sum(self.losses)
        trained = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained))
        return {"loss": loss}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Adversary, "it takes gradients 2 times"),
        (Clipped, "Error"),
        (Double, "the model's optimizer updates 2 weights, 1 of them trainable"),
        (Looking, "Error"),
        (Penalised, "it reads `losses`, which layers and regularizers add"),
    ],
)
def test_other_steps_are_refused_with_the_reason(kind: type, reason: str, cluster: Any) -> None:
    def make() -> keras.Model:
        i = keras.Input((6, 6, 1))
        x = L.BatchNormalization()(L.Conv2D(4, 3, kernel_regularizer="l2")(i))
        model = kind(i, L.Dense(1, use_bias=False)(L.Flatten()(x)))
        model.compile("sgd", loss="mse")
        return model

    with pytest.raises(UnsupportedError, match=f"{kind.__name__} has train_step of its own, which cannot be followed.*{reason}"):
        hm.distribute(made(make), cluster).fit(X, Y, **QUIET)


def test_what_depends_on_training() -> None:
    i = keras.Input((4,))
    plain = keras.Model(i, L.Dense(2)(keras.Sequential([L.Dense(3), L.Dropout(0.0)])(i)))
    assert not depends_on_training(plain) and not depends_on_training(L.LSTM(3))
    assert depends_on_training(L.LSTM(3, dropout=0.1)) and depends_on_training(L.Bidirectional(L.LSTM(3, recurrent_dropout=0.1)))
    assert depends_on_training(keras.Model(i, L.BatchNormalization()(i))) and depends_on_training(L.GaussianNoise(0.1))
    assert not depends_on_training(L.MultiHeadAttention(2, 2)) and depends_on_training(L.MultiHeadAttention(2, 2, dropout=0.1))
