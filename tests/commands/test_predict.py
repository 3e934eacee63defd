"""Predicting from the command line: arrays by the names of inputs and outputs."""

import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.commands.options.requests import check_source
from hetero_mtf.commands.runs.predict import read_samples
from hetero_mtf.commands.workload.model_file import load_model
from hetero_mtf.errors import DataError


@pytest.fixture
def pair(folder):
    """--model of a network with two inputs and two outputs, and its value."""
    return ["--model", f"{folder / 'net.py'}:pair"]


@pytest.mark.slow
def test_several_inputs_and_outputs_go_by_their_names(cli, pair, tmp_path):
    model = load_model(pair[1], {}, "float32")
    x = {"b": np.ones((5, 2)), "a": np.arange(15.0).reshape(5, 3)}
    with hm.Cluster.local(["cpu:0"]) as cluster:
        with hm.Trainer(model, hm.Plan.single(model, 0, cluster, 8), cluster, loss="mse") as trainer:
            trainer.save(tmp_path / "state")
            expected = trainer.predict(x)
    np.savez(tmp_path / "x.npz", **x)
    given = ["--input", f"npz:{tmp_path / 'x.npz'}", "--checkpoint", tmp_path / "state", "-o", tmp_path / "out.npz"]
    said = cli("predict", *pair, *given)
    assert said.code == 0 and "u of shape (5, 4), v of shape (5, 1)" in said.out, said
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["u"], expected[0], rtol=1e-6)
        np.testing.assert_allclose(found["v"], expected[1], rtol=1e-6)
    np.savez(tmp_path / "x.npz", a=x["a"])
    assert "has no b, which is an input of the model: found a; write it again" in cli("predict", *pair, *given).sentence


def test_a_data_set_of_one_input_is_refused_for_a_model_with_two(cli, pair, folder):
    said = cli("train", *pair, "--data", f"npz:{folder / 'data.npz'}", "--cluster", "local:cpu:0,cpu:0")
    assert "has 2 inputs and 2 outputs and the data set" in said.sentence and "train it in Python, with hm.Trainer" in said.sentence


def test_a_file_without_samples_is_refused(tmp_path):
    np.savez(tmp_path / "x.npz", z=np.zeros(3))
    with pytest.raises(DataError, match="has neither x nor x_test: found z; write it again"):
        read_samples(tmp_path / "x.npz")
    with pytest.raises(DataError, match="--input is 'x.npz'; write npz:FILE"):
        check_source("x.npz")
    with pytest.raises(DataError, match="none.npz does not exist; check the path behind npz:"):
        check_source(f"npz:{tmp_path / 'none.npz'}")
