from __future__ import annotations

import pytest

from hetero_mtf.data import load
from hetero_mtf.errors import DataError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("imagenet", r"there is no data set 'imagenet'; use one of digits, mnist:DIR, cifar10:DIR, npz:FILE, synthetic or synthetic:HxWxC"),
        ("", r"there is no data set ''; use one of"),
        ("imagenet", r"CLASSES:COUNT, nifti:TABLE"),
        ("nifti:people.tsv", r"'nifti:people.tsv' is a table of scans, which are not read at once; open it with .*open_volumes"),
        ("mnist", r"data set 'mnist' is incomplete or has a part too many; write mnist:DIR"),
        ("cifar10:", r"data set 'cifar10:' is incomplete or has a part too many; write cifar10:DIR"),
        ("npz", r"write npz:FILE"),
        ("digits:8", r"data set 'digits:8' is incomplete or has a part too many; write digits"),
        ("synthetic:", r"write synthetic or synthetic:HxWxC:CLASSES:COUNT"),
    ],
)
def test_a_name_that_is_unknown_or_incomplete_is_answered_with_what_to_write(name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(name)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(DataError, match="data of type 'float16' cannot be loaded; use float32 or float64"):
        load("digits", dtype="float16")
