"""The dtype policy under which a model is made."""

import keras
import pytest

from hetero_mtf.commands.workload.model_file import dtype_policy, load_model

NET = """
import keras

def net():
    inputs = keras.Input((4,))
    return keras.Model(inputs, keras.layers.Dense(3)(inputs))

def failing():
    raise ValueError("no")
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "precise.py").write_text(NET)
    return tmp_path / "precise.py"


@pytest.mark.parametrize(
    "precision, variables, computed, floatx",
    [
        ("float32", "float32", "float32", "float32"),
        ("float64", "float64", "float64", "float64"),
        ("mixed_bfloat16", "float32", "bfloat16", "float32"),
        ("mixed_float16", "float32", "float16", "float32"),
        ("bfloat16", "bfloat16", "bfloat16", "float32"),
        (None, "float32", "float32", "float32"),
    ],
)
def test_a_model_is_made_under_the_policy_and_nothing_after_it(place, precision, variables, computed, floatx):
    dense = load_model(f"{place}:net", {}, precision).layers[-1]
    assert dense.dtype_policy.name == (precision or "float32")
    assert (dense.kernel.dtype, dense.compute_dtype) == (variables, computed)
    assert keras.config.floatx() == keras.config.dtype_policy().name == floatx
    assert keras.layers.Dense(1).dtype_policy.name == floatx


def test_the_policy_is_put_back_where_the_function_fails(place):
    with pytest.raises(ValueError, match="failed with ValueError"):
        load_model(f"{place}:failing", {}, "mixed_bfloat16")
    assert keras.config.dtype_policy().name == "float32"
    with pytest.raises(KeyError), dtype_policy("bfloat16"):
        raise KeyError
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.fast("float32")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_saved_model_has_its_own_policy(tmp_path, precision):
    with dtype_policy(precision):
        inputs = keras.Input((4,))
        keras.Model(inputs, keras.layers.Dense(3)(inputs)).save(tmp_path / "m.keras")
    keras.config.set_floatx("float32")
    for given in (None, precision):
        assert load_model(str(tmp_path / "m.keras"), {}, given).layers[-1].dtype_policy.name == precision
    assert keras.config.floatx() == precision
