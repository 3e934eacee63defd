"""Data sets by name, as the option --data of the command line names them."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from hetero_mtf.data.cifar10 import cifar10_files, load_cifar10
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.data.digits import load_digits
from hetero_mtf.data.mnist import load_mnist, mnist_files
from hetero_mtf.data.npz import load_npz
from hetero_mtf.data.synthetic import load_synthetic
from hetero_mtf.errors import DataError

Loader = Callable[[str, str], Dataset]
FORMS: dict[str, tuple[str, Loader]] = {
    "digits": ("digits", lambda place, dtype: load_digits(dtype)),
    "mnist": ("mnist:DIR", load_mnist),
    "cifar10": ("cifar10:DIR", load_cifar10),
    "npz": ("npz:FILE", load_npz),
    "synthetic": ("synthetic or synthetic:HxWxC:CLASSES:COUNT", load_synthetic),
}
PLACED = ("mnist", "cifar10", "npz")
FILES: dict[str, Callable[[str], tuple[pathlib.Path, ...]]] = {
    "mnist": mnist_files,
    "cifar10": cifar10_files,
    "npz": lambda place: (pathlib.Path(place),),
}
VOLUMES = "nifti"


def load(name: str, *, dtype: str = "float32") -> Dataset:
    """Return the data set that `name` stands for.

    Parameters
    ----------
    name : "digits", "mnist:DIR", "cifar10:DIR", "npz:FILE", "synthetic" or "synthetic:HxWxC:CLASSES:COUNT".
    dtype : "float32" or "float64", of the samples.

    Raises
    ------
    DataError
        If the name or dtype is unknown, or its files are missing or damaged.

    Examples
    --------
    >>> data = load("synthetic:8x8x1:10:100")
    >>> data.x_train.shape, data.x_test.shape, data.classes
    ((100, 8, 8, 1), (25, 8, 8, 1), 10)
    """
    if dtype not in ("float32", "float64"):
        raise DataError(f"data of type {dtype!r} cannot be loaded", "use float32 or float64")
    kind, colon, place = name.partition(":")
    if kind == VOLUMES:
        raise DataError(f"{name!r} is a table of scans, which are not read at once", "open it with hetero_mtf.data.volumes.open_volumes")
    if kind not in FORMS:
        forms = ", ".join(form for form, _ in FORMS.values())
        raise DataError(f"there is no data set {name!r}", f"use one of {forms}, {VOLUMES}:TABLE")
    form, loader = FORMS[kind]
    if (kind in PLACED and not place) or (kind == "digits" and colon) or (colon and not place):
        raise DataError(f"data set {name!r} is incomplete or has a part too many", f"write {form}")
    return loader(place, dtype)


def data_set_files(name: str) -> tuple[pathlib.Path, ...]:
    """Return the files that a data set is read from; none where it is of no known form.

    Parameters
    ----------
    name : as for `load`.

    Examples
    --------
    >>> data_set_files("digits"), [str(path) for path in data_set_files("npz:run/data.npz")]
    ((), ['run/data.npz'])
    """
    kind, _, place = name.partition(":")
    return FILES[kind](place) if kind in FILES and place else ()
