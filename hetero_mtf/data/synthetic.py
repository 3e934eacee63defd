"""Synthetic images: a pattern for each class, and noise."""

from __future__ import annotations

import re

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.errors import DataError

DEFAULT = "32x32x3:10:512"
SEED = 0
NOISE = 1.0
FORM = re.compile(r"(\d+)x(\d+)x(\d+):(\d+):(\d+)")


def load_synthetic(form: str, dtype: str) -> Dataset:
    """Return seeded images that a network can learn to classify.

    An image of class c is m_c + n: m_c the class's own pattern and n noise, both of independent standard normal values, so any
    two classes lie sqrt(2 * height * width * channels) apart on average.

    Parameters
    ----------
    form : "HxWxC:CLASSES:COUNT", COUNT images to train on and a quarter as many, rounded up, to test on; "" is 32x32x3:10:512.
    dtype : "float32" or "float64", of the images.

    Raises
    ------
    DataError
        If `form` has another form, a zero, or fewer images than classes.
    """
    match = FORM.fullmatch(form or DEFAULT)
    height, width, channels, classes, count = (int(n) for n in match.groups()) if match else (0,) * 5
    if not match or min(height, width, channels, classes) < 1 or count < classes:
        expected = "synthetic:HxWxC:CLASSES:COUNT with COUNT at least CLASSES"
        raise DataError(f"synthetic:{form} cannot be made: expected {expected}", f"write for instance synthetic:{DEFAULT}")
    rng = np.random.default_rng(SEED)
    patterns = rng.standard_normal((classes, height, width, channels)).astype(dtype)
    x_train, y_train = _draw(rng, patterns, count)
    x_test, y_test = _draw(rng, patterns, -(-count // 4))
    return Dataset(f"synthetic:{form or DEFAULT}", x_train, y_train, x_test, y_test, classes)


def _draw(rng: np.random.Generator, patterns: Array, count: int) -> tuple[Array, Array]:
    y = rng.permutation(np.arange(count, dtype="int64") % len(patterns))
    x = rng.standard_normal((count, *patterns.shape[1:]), dtype=np.float32).astype(patterns.dtype, copy=False)
    x *= NOISE
    x += patterns[y]
    return x, y
