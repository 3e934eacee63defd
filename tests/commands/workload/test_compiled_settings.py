"""What a model's file was compiled with, as the defaults of a training, with Keras as the oracle."""

import json
import sys
import zipfile

import keras
import numpy as np
import pytest

from hetero_mtf.commands.options.shared import OptimizerChoice
from hetero_mtf.commands.workload.chosen_optimizer import optimizer_of
from hetero_mtf.commands.workload.compiled_settings import compiled_settings
from hetero_mtf.errors import UnsupportedError

L = keras.layers
MODULE = "module_that_must_not_be_imported"


def _network(seed=1, activation=None):
    keras.utils.set_random_seed(seed)
    i = keras.Input((8, 8, 1))
    x = L.Conv2D(4, 3, activation="relu")(i)
    return keras.Model(i, L.Dense(10, activation=activation, name="head")(L.Flatten()(x)))


def _saved(path, optimizer="sgd", loss="sparse_categorical_crossentropy", **options):
    model = _network()
    model.compile(optimizer, loss, **options)
    model.save(path)
    return str(path)


def own_loss(y_true, y_pred):
    return keras.ops.mean(y_pred)


class OwnLoss(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return keras.ops.mean(y_pred)


@pytest.mark.fast("loss2", "loss3")
@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        keras.losses.sparse_categorical_crossentropy,
        keras.losses.SparseCategoricalCrossentropy(),
        {"head": "sparse_categorical_crossentropy"},
        [keras.losses.SparseCategoricalCrossentropy()],
    ],
)
def test_a_loss_is_taken_over_however_it_was_given(tmp_path, loss):
    compiled = compiled_settings(_saved(tmp_path / "m.keras", loss=loss))
    chosen = compiled.objective((10,)).loss
    config = keras.losses.SparseCategoricalCrossentropy.from_config(chosen["config"]).get_config()
    assert chosen["class_name"] == "SparseCategoricalCrossentropy" and not config["from_logits"] and not compiled.foreign


def test_optimizers_are_taken_over_with_schedules_and_other_rates_take_their_place(tmp_path):
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.9)
    compiled = compiled_settings(_saved(tmp_path / "m.keras", keras.optimizers.RMSprop(schedule, momentum=0.5, clipnorm=2.0)))
    made = optimizer_of(compiled.optimizer_choice(OptimizerChoice()), 10)
    assert type(made) is keras.optimizers.RMSprop and made.momentum == 0.5 and made.clipnorm == 2.0
    assert float(schedule(50)) == pytest.approx(float(made._learning_rate(50)))
    other = optimizer_of(compiled.optimizer_choice(OptimizerChoice(learning_rate=0.5)), 10)
    assert float(other.learning_rate) == pytest.approx(0.5) and other.momentum == 0.5
    falling = optimizer_of(compiled.optimizer_choice(OptimizerChoice(decay="cosine")), 10)
    assert float(falling._learning_rate(10)) == pytest.approx(0.0) and float(falling._learning_rate(0)) == pytest.approx(0.01)


@pytest.mark.fast(
    'options2-loss-loss weights, which no option gives; give --loss',
    'options4-metrics-weighted metrics, which cannot be trained with; give --metrics',
)
@pytest.mark.parametrize(
    "options, what, said",
    [
        ({"loss": own_loss}, "loss", "the loss 'own_loss', whose code no file may lead to; give --loss, or name the model's function"),
        ({"loss": OwnLoss()}, "loss", "the loss 'OwnLoss', whose code"),
        ({"loss_weights": [0.5]}, "loss", "loss weights, which no option gives; give --loss"),
        ({"metrics": [own_loss]}, "metrics", "the metrics 'own_loss', whose code no file may lead to; give --metrics"),
        ({"weighted_metrics": ["accuracy"]}, "metrics", "weighted metrics, which cannot be trained with; give --metrics"),
    ],
)
def test_what_is_not_keras_s_own_is_refused_unless_an_option_takes_its_place(tmp_path, options, what, said):
    compiled = compiled_settings(_saved(tmp_path / "m.keras", **options))
    with pytest.raises(UnsupportedError, match=said):
        compiled.check({"optimizer", "loss", "metrics"})
    compiled.check({"optimizer", "loss", "metrics"} - {what})


@pytest.mark.fast("schedule")
@pytest.mark.parametrize("what", ["optimizer", "loss", "metrics", "schedule", "option"])
def test_no_module_that_a_file_names_is_imported(tmp_path, monkeypatch, what):
    (tmp_path / f"{MODULE}.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.9)
    path = _saved(tmp_path / "m.keras", keras.optimizers.SGD(schedule), keras.losses.MeanSquaredError(), metrics=[keras.metrics.AUC()])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["config.json"])
    compiled = document["compile_config"]
    evil = {"module": MODULE, "class_name": "Evil", "config": {}, "registered_name": "Evil"}
    if what == "schedule":
        compiled["optimizer"]["config"]["learning_rate"] = evil
    elif what == "option":
        compiled["loss"]["config"]["name"] = evil
    else:
        compiled[what] = [evil] if what == "metrics" else evil
    members["config.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(UnsupportedError, match="whose code no file may lead to"):
        compiled_settings(path).check({"optimizer", "loss", "metrics"})
    assert MODULE not in sys.modules


def test_a_model_that_was_not_compiled_gives_nothing(tmp_path):
    _network().save(tmp_path / "m.keras")
    compiled = compiled_settings(str(tmp_path / "m.keras"))
    assert compiled.optimizer is compiled.loss is None and compiled.text({"optimizer", "loss", "metrics"}) == ""


@pytest.fixture
def digits(folder, tmp_path):
    """Data in an order that is kept, and a saved model that Keras has trained for an epoch on them."""
    with np.load(folder / "data.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def test_training_goes_on_from_a_file_as_keras_would(cli, folder, digits, tmp_path, monkeypatch):
    from hetero_mtf.data.array_source import ArraySource

    model = _network(activation="softmax")
    metrics = ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3, name="top")]
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=metrics)
    model.fit(digits["x_train"], digits["y_train"], batch_size=8, epochs=1, shuffle=False, verbose=0)
    model.save(tmp_path / "m.keras")
    monkeypatch.setattr(ArraySource, "order", lambda self, epoch: np.arange(self.samples))
    subject = ["--model", tmp_path / "m.keras", "--data", f"npz:{folder / 'data.npz'}", "--cluster", "local:cpu:0,cpu:0"]
    plan = ["--shares", "2,1", "--batch-size", "8", "-o", tmp_path / "plan.json"]
    assert cli("plan", *subject[:2], *subject[4:], *plan).code == 0
    said = cli(
        "train", *subject, "--plan", tmp_path / "plan.json", "--epochs", "2", "--output", tmp_path / "o.keras", "--save", tmp_path / "s.npz"
    )
    assert said.code == 0, said
    line = "as it was compiled: optimizer Adam; loss sparse_categorical_crossentropy; metrics accuracy, SparseTopKCategoricalAccuracy"
    assert f"taken over from {tmp_path / 'm.keras'}, {line}\n" in said.out and "1/2        6/6" in said.out and "test top 0." in said.out
    model.fit(digits["x_train"], digits["y_train"], batch_size=8, epochs=2, shuffle=False, verbose=0)
    for one, other in zip(keras.models.load_model(tmp_path / "o.keras").get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)
    scores = model.evaluate(digits["x_test"], digits["y_test"], verbose=0, return_dict=True)
    assert f"test accuracy {scores['accuracy']:.4f}" in said.out and f"test top {scores['top']:.4f}" in said.out
    evaluated = cli("evaluate", *subject, "--checkpoint", tmp_path / "s.npz")
    assert evaluated.code == 0 and f"test top {scores['top']:.4f}" in evaluated.out, evaluated
    given = ["--optimizer", "sgd", "--loss", "sparse_categorical_crossentropy", "--metrics", "accuracy", "--epochs", "1"]
    other = cli("train", *subject, "--plan", tmp_path / "plan.json", *given)
    assert other.code == 0 and "taken over" not in other.out and "cross-entropy, set by --loss" in other.out


def test_a_file_with_code_of_its_own_is_refused_with_what_to_do(cli, folder, plan, tmp_path):
    subject = ["--data", f"npz:{folder / 'data.npz'}", "--cluster", "local:cpu:0,cpu:0", "--plan", plan]
    path = _saved(tmp_path / "m.keras", loss=own_loss)
    sentence = cli("train", "--model", path, *subject).sentence
    assert "own_loss" in sentence and "give --loss, or name the model's function with --model FILE.py:function" in sentence
