from __future__ import annotations

import pytest

from hetero_mtf.commands.options.parsed_what_if import device_and_bytes, device_and_number, factor_of, parse_what_if
from hetero_mtf.errors import PlanError
from hetero_mtf.planning.profile.what_if import WhatIf


def test_every_option_is_part_of_the_what_if() -> None:
    parsed = parse_what_if(("gpu:1=2",), ("cpu:0",), ("gpu:0=8GB", "cpu:0=1.5KiB"), "x0.5", 16)
    assert parsed == WhatIf((("gpu:1", 2.0),), ("cpu:0",), 0.5, (("gpu:0", 8 * 10**9), ("cpu:0", 1536)), 16)
    assert parse_what_if((), (), (), None) == WhatIf()


@pytest.mark.parametrize("text", ["", "2", "=2"])
def test_a_speed_without_a_device_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=f"{text!r} names no device and factor; write for instance gpu:1=2 for twice as fast"):
        device_and_number(text)


@pytest.mark.parametrize("text", ["", "fast", "-1", "0", "inf", "nan", "xx2", "1e-9", "1e300"])
def test_what_is_no_factor_is_refused(text: str) -> None:
    for read, typed in ((factor_of, text), (device_and_number, f"gpu:0={text}")):
        with pytest.raises(PlanError, match=f"{text!r} is no factor; write a number from 0.000001 to 1000000, such as x2 or 0.5"):
            read(typed)


@pytest.mark.parametrize("text", ["", "8GB", "gpu:0=", "gpu:0=8XB", "gpu:0=-1", "gpu:0=i"])
def test_what_is_no_memory_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=f"{text!r} names no device and memory; write for instance gpu:0=8GB or gpu:0=7.5GiB"):
        device_and_bytes(text)
