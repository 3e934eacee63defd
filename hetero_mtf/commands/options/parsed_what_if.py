"""The what-if that the options of `what_if` say; imported after the first line of a command, as it loads SciPy."""

from __future__ import annotations

import math
import re

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.profile.what_if import FACTOR_RANGE, LEAST_FACTOR, MOST_FACTOR, WhatIf

_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_what_if(
    scale: tuple[str, ...], add_like: tuple[str, ...], memory: tuple[str, ...], bandwidth: str | None, batch_size: int | None = None
) -> WhatIf:
    """Return the what-if of the options.

    Parameters
    ----------
    scale, add_like, memory, bandwidth : the options' values.
    batch_size : samples/step that may differ from the measured number; None for that of the profile.

    Raises
    ------
    PlanError
        If one of them is not of its form.
    """
    speeds = tuple(device_and_number(text) for text in scale)
    pools = tuple(device_and_bytes(text) for text in memory)
    return WhatIf(speeds, add_like, factor_of(bandwidth) if bandwidth is not None else 1.0, pools, batch_size)


def device_and_number(text: str) -> tuple[str, float]:
    """Return the device and the factor in a text such as "gpu:1=2".

    Parameters
    ----------
    text : the option's value.

    Raises
    ------
    PlanError
        If it has another form, or the factor is no number from a millionth to a million.

    Examples
    --------
    >>> device_and_number("gpu:1=2")
    ('gpu:1', 2.0)
    """
    name, equals, number = text.rpartition("=")
    if not equals or not name:
        raise PlanError(f"{text!r} names no device and factor", "write for instance gpu:1=2 for twice as fast")
    return name, factor_of(number)


def factor_of(text: str) -> float:
    """Return the factor in a text such as "x2" or "0.5".

    Parameters
    ----------
    text : the option's value.

    Raises
    ------
    PlanError
        If it is no number from a millionth to a million.

    Examples
    --------
    >>> factor_of("x2"), factor_of("0.5")
    (2.0, 0.5)
    """
    try:
        factor = float(text.strip().removeprefix("x"))
    except ValueError:
        factor = math.nan
    if not LEAST_FACTOR <= factor <= MOST_FACTOR:
        raise PlanError(f"{text!r} is no factor", f"write a number from {FACTOR_RANGE}, such as x2 or 0.5")
    return factor


def device_and_bytes(text: str) -> tuple[str, int]:
    """Return the device and the bytes in a text such as "gpu:0=8GB" or "gpu:0=7.5GiB".

    Parameters
    ----------
    text : the option's value.

    Raises
    ------
    PlanError
        If it has another form.

    Examples
    --------
    >>> device_and_bytes("gpu:0=8GB"), device_and_bytes("cpu:0=1.5KiB")
    (('gpu:0', 8000000000), ('cpu:0', 1536))
    """
    match = re.fullmatch(r"(.+)=(\d{1,20}(?:\.\d{1,20})?)\s*([KMGT]?i?)B?", text.strip(), re.IGNORECASE)
    if not match or match.group(3).upper() not in _BYTES:
        raise PlanError(f"{text!r} names no device and memory", "write for instance gpu:0=8GB or gpu:0=7.5GiB")
    return match.group(1), int(float(match.group(2)) * _BYTES[match.group(3).upper()])
