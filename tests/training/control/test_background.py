"""Work beside the training is done as in its own thread."""

import keras
import pytest

from hetero_mtf.training.control.background import Background
from hetero_mtf.training.control.calibration_between import CalibrationBetween


@pytest.fixture
def policy():
    """A default dtype policy other than that of `floatx`, as a mixed-precision script sets it."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield "mixed_bfloat16"
    keras.config.set_dtype_policy(before)


def test_layers_that_are_made_beside_the_training_have_the_default_policy_of_its_thread(policy):
    background = Background()
    background.begin(lambda: (keras.layers.Dense(1).dtype_policy.name, keras.losses.MeanSquaredError().dtype))
    finished = background.poll(wait=True)
    background.close()
    assert finished.fault is None and finished.result == (policy, keras.losses.MeanSquaredError().dtype)


def test_a_calibration_between_steps_has_it_too(policy):
    calibration = CalibrationBetween(lambda turns: keras.layers.Dense(1).dtype_policy.name)
    while not calibration.has_ended:
        calibration.measure(0.01)
    calibration.close()
    assert (calibration.profile, calibration.fault) == (policy, None)
