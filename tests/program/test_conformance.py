"""A seeded sample of `make conformance`: classes of Keras and constructors of its applications, compared with Keras."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tools.conformance import applications, layers, run

SEED = 2026
LAYERS = [name for name in layers.classes() if not layers.excluded(name)]
SMALL = (
    "DenseNet121",
    "EfficientNetB0",
    "EfficientNetV2B0",
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Small",
    "ResNet50",
    "ResNet50V2",
    "VGG16",
)
_RNG = np.random.default_rng(SEED)
CASES = [
    *(("layers", str(name)) for name in _RNG.choice(LAYERS, 12, replace=False)),
    *(("applications", str(name)) for name in _RNG.choice(SMALL, 3, replace=False)),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_a_drawn_class_is_as_in_keras(case: tuple[str, str]) -> None:
    row, _ = run.timed_row(case)
    assert row.texts["result"].startswith(("as Keras", "equal under plans", "left out")), row


@pytest.mark.slow
def test_applications_are_cut_in_depth_and_put_back() -> None:
    keras.config.set_floatx("float32")
    cut, _ = applications.case("ResNet101", np.random.default_rng(0))
    full = keras.applications.ResNet101(weights=None, classes=5, input_shape=(32, 32, 3))
    assert len(cut.layers) < 100 < 300 < len(full.layers)


def test_every_application_is_known_by_name() -> None:
    assert len(applications.names()) >= 40 and set(SMALL) <= set(applications.names())
