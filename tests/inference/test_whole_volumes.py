"""Sliding windows over several devices give what a network gives window by window, in order, whichever device was faster."""

import os
import signal

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import DataError, HeteroError, UnsupportedError
from hetero_mtf.inference.shared_work import SharedWork
from hetero_mtf.inference.windowing import Windowing
from models.unet3d import unet3d
from tests.inference.plain import put_together


@pytest.fixture(autouse=True)
def exact():
    keras.utils.set_random_seed(2)
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


@pytest.fixture(scope="module")
def cluster():
    with hm.Cluster.local(["cpu:0", "cpu:0"]) as live:
        yield live


def two_outputs(size):
    image = keras.Input((*size, 2), name="image")
    x = keras.layers.Conv2D(3, 3, padding="same", activation="tanh")(image)
    outputs = {"map": keras.layers.Conv2D(2, 1, name="map")(x), "edge": keras.layers.Conv2D(1, 3, padding="same", name="edge")(x)}
    return keras.Model(image, outputs)


@pytest.mark.parametrize(
    "shape, options",
    [
        pytest.param((1, 13, 9, 2), {"roi_size": (6, 5)}, id="means"),
        pytest.param((3, 13, 9, 2), {"roi_size": (6, 5), "sw_batch_size": 4, "overlap": 0.5, "mode": "gaussian"}, id="batches of two"),
        pytest.param((2, 4, 9, 2), {"roi_size": (6, 5), "padding_mode": "reflect", "overlap": (0.1, 0.6)}, id="padded"),
        pytest.param((2, 3, 2, 2), {"roi_size": 6, "cval": -1.0, "mode": "gaussian", "sigma_scale": (0.2, 0.5)}, id="small"),
        pytest.param((1, 7, 6, 2), {"roi_size": None}, id="whole"),
    ],
)
def test_volumes_are_what_windows_give_one_by_one(cluster, shape, options):
    model = two_outputs((None, None))
    x = np.random.default_rng(1).normal(size=shape)
    named = {"roi_size": None, "overlap": 0.25, "mode": "constant", "sigma_scale": 0.125, "padding_mode": "constant", "cval": 0.0}
    laid = Windowing.of(2, **{name: options.get(name, value) for name, value in named.items()})
    with hm.SlidingWindow(model, cluster=cluster, **options) as windows:
        got = windows.predict(x)
        count = len(x) * len(laid.places(shape[1:-1]))
        assert len(windows.taken) == 2 and sum(windows.taken) == -(-count // options.get("sw_batch_size", 1))
        again = windows.predict(x)
    wanted = put_together(model, x, laid)
    for name in ("map", "edge"):
        assert got[name].dtype == np.float64
        np.testing.assert_allclose(got[name], wanted[name], rtol=1e-10, atol=1e-12)
        assert (got[name] == again[name]).all()


def test_one_program_serves_volumes_of_all_extents_and_files_are_read_window_by_window(cluster, tmp_path):
    model = unet3d(4, 1, 2, (2, 3))
    laid = Windowing.of(3, 4, 0.5, "constant", 0.125, "constant", 0.0)
    with hm.SlidingWindow(model, 4, cluster, overlap=0.5) as windows:
        for extents in ((8, 5, 6), (4, 4, 4), (3, 7, 9)):
            np.save(tmp_path / "scan.npy", np.random.default_rng(3).normal(size=(1, *extents, 1)))
            scan = np.load(tmp_path / "scan.npy", mmap_mode="r")
            np.testing.assert_allclose(windows.predict(scan), put_together(model, scan, laid), rtol=1e-9, atol=1e-12)


def test_each_call_has_the_present_weights(cluster):
    model, x = two_outputs((4, 4)), np.random.default_rng(4).normal(size=(1, 9, 9, 2))
    laid = Windowing.of(2, 4, 0.25, "constant", 0.125, "constant", 0.0)
    with hm.SlidingWindow(model, 4, cluster) as windows:
        for scale in (1.0, 1.0, 3.0):
            model.get_layer("map").kernel.assign(model.get_layer("map").kernel * scale)
            np.testing.assert_allclose(windows.predict(x)["map"], put_together(model, x, laid)["map"], rtol=1e-10, atol=1e-12)


def test_a_fault_ends_the_work_of_all_devices(cluster, monkeypatch):
    with hm.SlidingWindow(two_outputs((4, 4)), 4, cluster) as windows:
        x = np.zeros((1, 60, 60, 2))
        windows.predict(x)
        monkeypatch.setattr(SharedWork, "wait", lambda work: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            windows.predict(x)
        monkeypatch.undo()
        for thread in windows._threads.values():
            thread.join(5)
            assert not thread.is_alive()
        windows.predict(x)


def test_some_devices_may_take_part(cluster):
    with hm.SlidingWindow(two_outputs((4, 4)), 4, cluster, devices=[1]) as windows:
        windows.predict(np.zeros((1, 9, 9, 2)))
        assert windows.taken == (9,)
    for devices in ([], [2], [0, 0], ["gpu:9"]):
        with pytest.raises(DataError, match="devices are"):
            hm.SlidingWindow(two_outputs((4, 4)), 4, cluster, devices=devices)


def test_what_does_not_fit_is_refused(cluster):
    image, mask = keras.Input((8, 8, 1)), keras.Input((8, 8, 1))
    both = keras.Model([image, mask], keras.layers.Add()([image, mask]))
    with pytest.raises(UnsupportedError, match="windows are cut from one"):
        hm.SlidingWindow(both, 4, cluster)
    with pytest.raises(DataError, match="sw_batch_size is 0"):
        hm.SlidingWindow(two_outputs((4, 4)), 4, cluster, sw_batch_size=0)
    smaller = keras.Model(image, keras.layers.MaxPooling2D()(image))
    with hm.SlidingWindow(smaller, 8, cluster) as windows, pytest.raises(UnsupportedError, match="has shape .4, 4, 1. of a window of"):
        windows.predict(np.zeros((1, 8, 8, 1)))
    with hm.SlidingWindow(two_outputs((4, 4)), 6, cluster) as windows:
        with pytest.raises(DataError, match="windows have shape .6, 6, 2., the network's input is .4, 4, 2."):
            windows.predict(np.zeros((1, 8, 8, 2)))
        with pytest.raises(DataError, match="x has shape .8, 8, 2., volumes of this network have .samples, 4, 4, 2."):
            windows.predict(np.zeros((8, 8, 2)))
        with pytest.raises(DataError, match="x has shape .0, 8, 8, 2."):
            windows.predict(np.zeros((0, 8, 8, 2)))
    with pytest.raises(HeteroError, match="the sliding window is closed"):
        windows.predict(np.zeros((1, 8, 8, 2)))


@pytest.mark.slow
def test_a_faster_device_takes_more_windows_and_one_that_dies_is_named():
    keras.config.set_floatx("float32")
    model = unet3d(None, 1, 2, (8, 16))
    x = np.random.default_rng(5).normal(size=(1, 40, 40, 40, 1)).astype("float32")
    with hm.Cluster.emulate([0.8, 0.2]) as live, hm.SlidingWindow(model, 16, live, overlap=0.5) as windows:
        windows.predict(x)
        windows.predict(x)
        taken = windows.taken
        assert sum(taken) == 64 and taken[0] > 2 * taken[1]
        os.kill(live.process_ids()[1], signal.SIGKILL)
        with pytest.raises(HeteroError, match="worker:1 was killed by SIGKILL"):
            windows.predict(x)
