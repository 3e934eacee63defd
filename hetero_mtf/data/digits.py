"""Digits: scikit-learn's 1,797 hand-written digits of 8x8 pixels, which need no download."""

from __future__ import annotations

from hetero_mtf.data.dataset import Dataset, hold_out

LARGEST_GREY = 16.0


def load_digits(dtype: str) -> Dataset:
    """Return the digits as images in [0, 1], a fifth of each class held out for testing.

    Parameters
    ----------
    dtype : "float32" or "float64", of the images.

    Returns
    -------
    Dataset with images of shape (8, 8, 1): 1,437 to train on and 360 to test on, 10 classes.
    """
    import sklearn.datasets  # takes seconds to import, which other data do without

    digits = sklearn.datasets.load_digits()
    x = (digits.images[..., None] / LARGEST_GREY).astype(dtype)
    y = digits.target.astype("int64")
    train, test = hold_out(y)
    return Dataset("digits", x[train], y[train], x[test], y[test], classes=10)
