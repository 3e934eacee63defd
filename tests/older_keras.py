"""What tests compare with in versions of Keras older than the newest: these have other return values, and lack what it has."""

from __future__ import annotations

import functools
import pathlib
import re
import sys
import traceback
from typing import Any

import pytest

NEWEST = (3, 15)
PACKAGE = str(pathlib.Path(__file__).resolve().parents[1] / "hetero_mtf")


def number(version: str) -> tuple[int, int]:
    """Return (major, minor) of a version such as "3.12.4" or "3.16.0.dev2026110103"."""
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def needs_keras(version: str, why: str) -> pytest.MarkDecorator:
    """Return the mark of a test that older versions of Keras than this one cannot pass.

    Parameters
    ----------
    version : such as "3.9".
    why : what they do otherwise.
    """
    import keras

    return pytest.mark.skipif(number(keras.__version__) < number(version), reason=f"before Keras {version}, {why}")


def adapt() -> None:
    """Let single batches of a Keras older than 3.15 have numbers of their own, not the mean of all so far, if it is imported."""
    keras = sys.modules.get("keras")
    if not _is_older() or hasattr(keras.Model, "is_adapted"):
        return
    for name in ("train_on_batch", "test_on_batch"):
        setattr(keras.Model, name, _resetting(getattr(keras.Model, name)))
    keras.Model.is_adapted = True


def skip_reason(fault: BaseException) -> str | None:
    """Return why a test that failed is skipped: an older Keras lacks what it names, or fails where this package has no part in it.

    Parameters
    ----------
    fault : what the test raised.
    """
    if not _is_older() or isinstance(fault, (AssertionError, pytest.skip.Exception, pytest.fail.Exception)):
        return None
    frames = [frame.filename for frame in traceback.extract_tb(fault.__traceback__)]
    if any(name.startswith(PACKAGE) for name in frames):
        return None
    lacks = isinstance(fault, AttributeError) and "module 'keras" in str(fault)
    if not lacks and "/keras/src/" not in frames[-1] and "/tensorflow/python/" not in frames[-1]:
        return None
    return f"Keras {sys.modules['keras'].__version__}: {type(fault).__name__}: {' '.join(str(fault).split())[:120]}"


def _is_older() -> bool:
    keras = sys.modules.get("keras")
    return keras is not None and number(keras.__version__) < NEWEST


def _resetting(method: Any) -> Any:
    @functools.wraps(method)
    def of_one_batch(self: Any, *arguments: Any, **options: Any) -> Any:
        self.reset_metrics()
        return method(self, *arguments, **options)

    return of_one_batch
