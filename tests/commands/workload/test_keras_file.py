"""A model in a file of Keras: taken with its weights, and never a reason to run code that the file names."""

import json
import sys
import zipfile

import keras
import numpy as np
import pytest

from hetero_mtf.commands.workload import keras_file
from hetero_mtf.commands.workload.data_record import origin_of
from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.commands.workload.model_source import source_files
from hetero_mtf.errors import HeteroError

L = keras.layers
MODULE = "module_that_must_not_be_imported"


def _network():
    keras.config.set_floatx("float32")
    keras.utils.set_random_seed(1)
    i = keras.Input((8, 8, 1), dtype="float32")
    x = L.Conv2D(4, 3, activation="relu", dtype="float32")(i)
    return keras.Model(i, L.Dense(3, name="head", dtype="float32")(L.Flatten(dtype="float32")(x)))


@pytest.fixture
def saved(tmp_path):
    model = _network()
    model.compile("adam", "mse")
    model.save(tmp_path / "o.keras")
    return model, tmp_path / "o.keras"


def _changed(path, change):
    """Write the file again with another configuration."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = change(members["config.json"].decode()).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _refusal(path, **options):
    with pytest.raises(HeteroError) as caught:
        load_model(str(path), **{"arguments": {}, "precision": "float32", **options})
    return str(caught.value)


def test_a_saved_model_is_taken_with_its_weights(saved):
    model, path = saved
    loaded = load_model(str(path), {}, "float32", seed=7)
    for wanted, given in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(given, wanted)
    assert source_files(str(path)) == (path,) and origin_of(str(path)) == "o.keras"


def test_layers_that_are_not_supported_are_refused_at_once_with_what_to_use(tmp_path):
    i = keras.Input((8,))
    keras.Model(i, L.Lambda(lambda x: x)(L.AlphaDropout(0.5, name="alpha")(i))).save(tmp_path / "o.keras")
    text = _refusal(tmp_path / "o.keras")
    assert "2 things" in text and "alpha is a AlphaDropout" in text and "is a Lambda" in text and "--model FILE.py:function" in text


@pytest.mark.fast("layer")
@pytest.mark.parametrize("place", ["layer", "initializer", "model"])
def test_a_class_of_the_users_own_is_refused_and_its_module_not_imported(saved, place, tmp_path, monkeypatch):
    (tmp_path / f"{MODULE}.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)

    def change(text):
        document = json.loads(text)
        layer = document["config"]["layers"][1]
        entry = {"layer": layer, "initializer": layer["config"]["kernel_initializer"], "model": document}[place]
        entry.update(module=MODULE, class_name="Evil", registered_name="mine>Evil")
        return json.dumps(document)

    _changed(saved[1], change)
    text = _refusal(saved[1])
    assert ("Evil" in text or f"'module': '{MODULE[:20]}" in text) and "; " in text and MODULE not in sys.modules


def test_a_loss_in_the_file_is_not_looked_at(saved, tmp_path, monkeypatch):
    (tmp_path / f"{MODULE}.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    compiled = {"loss": {"module": MODULE, "class_name": "Evil", "config": {}, "registered_name": "Evil"}}
    _changed(saved[1], lambda text: json.dumps({**json.loads(text), "compile_config": compiled}))
    assert load_model(str(saved[1]), {}, "float32").count_params() > 0 and MODULE not in sys.modules


@pytest.mark.fast("0.95")
@pytest.mark.parametrize("part", [0.0, 0.2, 0.6, 0.95])
def test_a_file_that_is_cut_off_is_refused(saved, part):
    content = saved[1].read_bytes()
    saved[1].write_bytes(content[: int(part * len(content))])
    text = _refusal(saved[1])
    assert "not a complete Keras model" in text and "save the model again" in text


@pytest.mark.fast('{"module": "keras", "class_name": "Sequential", "config": 3}')
@pytest.mark.parametrize("document", ["{}", "[]", "3", "nonsense", '{"module": "keras", "class_name": "Sequential", "config": 3}'])
def test_a_configuration_that_is_none_is_refused(saved, document):
    _changed(saved[1], lambda text: document)
    assert "; " in _refusal(saved[1])


def test_weights_of_another_network_are_refused(saved, tmp_path):
    i = keras.Input((8, 8, 1), dtype="float32")
    keras.Model(i, L.Dense(3, dtype="float32")(L.Flatten(dtype="float32")(i))).save(tmp_path / "other.keras")
    with zipfile.ZipFile(tmp_path / "other.keras") as archive:
        other = archive.read("config.json").decode()
    _changed(saved[1], lambda text: other)
    assert "weights that cannot be read" in _refusal(saved[1])


def test_options_that_do_not_go_with_a_file_are_refused(saved):
    assert "leave --model-arg out" in _refusal(saved[1], arguments={"classes": 3})
    assert "holds a model in float32 and --precision is float64; give --precision float32" in _refusal(saved[1], precision="float64")
    keras.config.set_floatx("float32")


def test_another_file_is_named_for_what_it_is(tmp_path):
    assert "there is no model file" in _refusal(tmp_path / "gone.keras")
    (tmp_path / "plan.keras").write_text('{"kind": "plan"}')
    assert "is a plan of hetero-mtf plan and not a Keras model" in _refusal(tmp_path / "plan.keras")
    (tmp_path / "plan.json").write_text('{"kind": "plan"}')
    assert "and not a Keras model; write FILE.py:function" in _refusal(tmp_path / "plan.json")


def test_no_file_and_a_large_configuration_are_refused(saved, tmp_path, monkeypatch):
    assert "there is no model file" in _refusal(tmp_path / "none.keras")
    monkeypatch.setattr(keras_file, "_LARGEST_BYTES", 10)
    assert "has a configuration of more than 10 bytes" in _refusal(saved[1])
