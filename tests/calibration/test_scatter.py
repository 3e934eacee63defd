"""Devices whose measurements scatter: measured again while the others are idle, and refused where they still scatter."""

import types

import pytest

from hetero_mtf.calibration import calibrate
from hetero_mtf.calibration.calibration_budget import CalibrationWarning
from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.validity import scatter


def _curves(device, *spreads):
    return [Curve(layer, device, "output", "forward", 8, (4,), (0.1,), (spread,)) for layer, spread in enumerate(spreads)]


@pytest.fixture
def bench(monkeypatch):
    """Returns a calibration of two devices, of which those that are measured again have the curves given by their index."""

    def make(again):
        made = object.__new__(calibrate._LayerBench)
        devices = [types.SimpleNamespace(name=name) for name in ("worker:0", "worker:1")]
        for name, value in {"cluster": types.SimpleNamespace(devices=devices), "devices": [0, 1]}.items():
            object.__setattr__(made, name, value)
        monkeypatch.setattr(calibrate._LayerBench, "_device", lambda self, index, advance: (again[index], False))
        return made

    return make


def test_the_scatter_of_a_device_is_the_median_of_its_spreads():
    assert scatter([*_curves(0, 0.1, 0.3, 0.9), *_curves(1, 2.0)], 0) == 0.3 and scatter([], 0) == 0.0


def test_a_device_that_scatters_is_measured_again_and_the_others_are_not(bench):
    quiet, wild, again = _curves(0, 0.1, 0.4), _curves(1, 0.9, 2.0), _curves(1, 0.1, 0.2)
    with pytest.warns(CalibrationWarning, match="on worker:1 scattered by 145%; measured again alone they scatter by 15%"):
        assert bench({1: again}).quiet([*quiet, *wild]) == [*quiet, *again]
    assert bench({}).quiet(quiet) == quiet


def test_a_device_that_scatters_alone_too_is_refused(bench):
    with pytest.raises(ProfileError, match="scatter by 237%, so worker:0 is not quiet; end what else runs there"):
        bench({0: _curves(0, 2.37)}).quiet(_curves(0, 0.89))
