"""Bytes and seconds for people."""

import pytest

from hetero_mtf.units import bandwidth_text, bytes_text, seconds_text


@pytest.mark.parametrize(
    ("memory_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (-2048, "-2.0 KiB"), (2**20, "1.0 MiB"), (5 * 2**40, "5.0 TiB")],
)
def test_bytes_are_written_with_a_binary_prefix(memory_bytes, text):
    assert bytes_text(memory_bytes) == text


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        (0, "0 s"),
        (1.5e-8, "15.0 ns"),
        (5e-15, "0 s"),
        (0.000002, "2.00 us"),
        (0.5, "500 ms"),
        (0.9999, "1.00 s"),
        (1, "1.00 s"),
        (119, "119 s"),
        (119.7, "2 min 00 s"),
        (150, "2 min 30 s"),
        (3599.8, "1 h 00 min"),
        (7260, "2 h 01 min"),
        (-0.25, "-250 ms"),
        (-150, "-2 min 30 s"),
    ],
)
def test_seconds_are_written_with_three_figures_or_as_minutes(time_s, text):
    assert seconds_text(time_s) == text


def test_a_bandwidth_is_bytes_per_second():
    assert bandwidth_text(3 * 2**30) == "3.0 GiB/s"
