"""Train a Keras model over unequal devices, numerically equivalent to one device.

Importing this package loads neither TensorFlow nor Keras: each name below is looked up when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

_MODULE_OF_NAME = {
    "Cluster": "hetero_mtf.runtime.cluster",
    "PipelineOptions": "hetero_mtf.planning.pipeline.search",
    "Plan": "hetero_mtf.keras_reading.plan_of_model",
    "SlidingWindow": "hetero_mtf.inference.whole_volumes",
    "StaleOptions": "hetero_mtf.planning.schedule.stale",
    "Profile": "hetero_mtf.planning.profile.profile",
    "Trainer": "hetero_mtf.training.trainer",
    "WhatIf": "hetero_mtf.planning.profile.what_if",
    "distribution": "hetero_mtf.training.distribution.distribute",
    "distribute": "hetero_mtf.training.distribution.distribute",
    "scope": "hetero_mtf.training.distribution.scope",
    "undistribute": "hetero_mtf.training.distribution.distribute",
    "calibrate": "hetero_mtf.calibration.calibrate",
    "layer_graph": "hetero_mtf.keras_reading.layer_graph",
    "plan": "hetero_mtf.planning.choose",
    "plan_if": "hetero_mtf.planning.choose",
    "refine": "hetero_mtf.training.refine",
}
_LAZY_SUBPACKAGES = ("errors", "layers", "mesh")

__all__ = [
    "Cluster",
    "PipelineOptions",
    "Plan",
    "SlidingWindow",
    "StaleOptions",
    "Profile",
    "Trainer",
    "WhatIf",
    "__version__",
    "calibrate",
    "distribute",
    "distribution",
    "errors",
    "layer_graph",
    "layers",
    "mesh",
    "plan",
    "plan_if",
    "refine",
    "scope",
    "undistribute",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY_SUBPACKAGES:
        return importlib.import_module(f"hetero_mtf.{name}")
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'hetero_mtf' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
