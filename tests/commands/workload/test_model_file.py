"""Models by the name of their function."""

import sys

import keras
import pytest

from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.commands.workload.model_source import source_files
from hetero_mtf.errors import HeteroError


def _refused(text, message, **arguments):
    with pytest.raises(HeteroError) as caught:
        load_model(text, arguments, "float32")
    assert message in str(caught.value) and "; " in str(caught.value)


def test_a_model_comes_from_a_file_anywhere_with_arguments_in_the_float_type_asked_for(folder):
    model = load_model(f"{folder / 'net.py'}:net", {"classes": 3}, "float64")
    assert model.output_shape == (None, 3)
    assert {weight.dtype for weight in model.weights} == {"float64"}


def test_a_seed_gives_the_same_weights_again(folder):
    first, again, other = (load_model(f"{folder / 'net.py'}:net", {}, "float32", seed).get_weights()[0] for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()


def test_a_model_comes_from_a_package_in_the_working_directory(tmp_path, monkeypatch, folder):
    package = tmp_path / "networks_here"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "small.py").write_text((folder / "net.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert isinstance(load_model("networks_here.small:net", {}, "float32"), keras.Model)


def test_a_clone_s_models_load_by_path():
    assert load_model("models/digits.py:wide_digits", {"filters": [4, 4]}, "float32").count_params() > 0


def test_what_names_no_function_is_refused(folder):
    _refused("net.py", "'net.py' names no function of a file or module; write FILE.py:function, package.module:function or FILE.keras")
    _refused(str(folder / "net.py") + ":", "names no function")
    _refused("no/such.py:net", "there is no model file no/such.py")
    _refused("no_such_module:net", "module no_such_module cannot be imported with ModuleNotFoundError")
    _refused("a-b:net", "'a-b' is no name of a module")
    _refused(f"{folder / 'net.py'}:wide", "has no function wide, it has net, pair, broken, ended, number")


def test_a_function_that_fails_or_returns_something_else_is_refused(folder):
    place = folder / "net.py"
    _refused(f"{place}:broken", "net.py:broken failed with KeyError ('no such width')")
    _refused(f"{place}:ended", "net.py:ended failed with SystemExit (3)")
    _refused(f"{place}:number", "net.py:number returned a int and not a Keras model")
    said = "net.py:net cannot be called with depth=3 (got an unexpected keyword argument 'depth'); correct --model-arg"
    _refused(f"{place}:net", said, depth=3)


def test_a_file_that_fails_is_refused(tmp_path):
    (tmp_path / "wrong.py").write_text("import keras\nkeras.layers.Banana\n")
    (tmp_path / "text.txt").write_text("hello")
    _refused(f"{tmp_path / 'wrong.py'}:net", "wrong.py failed with AttributeError")
    _refused(f"{tmp_path / 'text.txt'}:net", "text.txt is no Python file")


def test_the_source_of_a_model_is_its_file_or_those_of_its_module_and_packages():
    assert [str(path) for path in source_files("run/net.py:net")] == ["run/net.py"]
    names = [path.name for path in source_files("hetero_mtf.commands.workload.model_file:load_model")]
    assert names == ["__init__.py", "__init__.py", "__init__.py", "model_file.py"]
    assert [source_files(text) for text in ("", ":net", "no_such_module.net:net", "not a name:net", "sys:exit")] == [()] * 5
