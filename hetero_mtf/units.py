"""Bytes and seconds written for people."""

from __future__ import annotations

_BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SECOND_STEPS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (1e-6, "us", 1e6))


def bytes_text(memory_bytes: float) -> str:
    """Return a number of bytes as text with a binary prefix.

    Parameters
    ----------
    memory_bytes : bytes, may be negative.

    Examples
    --------
    >>> bytes_text(512), bytes_text(1536), bytes_text(3 * 2**30)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    for step, unit in _BYTE_STEPS:
        if abs(memory_bytes) >= step:
            return f"{memory_bytes / step:.1f} {unit}"
    return f"{memory_bytes:.0f} B"


def seconds_text(time_s: float) -> str:
    """Return a length of time as text of three figures; from two minutes on as minutes and hours.

    Parameters
    ----------
    time_s : seconds.

    Examples
    --------
    >>> seconds_text(0.00123), seconds_text(12.3456), seconds_text(3725)
    ('1.23 ms', '12.3 s', '1 h 02 min')
    """
    if abs(time_s) >= 3600:
        hours, rest = divmod(round(abs(time_s) / 60), 60)
        return f"{'-' if time_s < 0 else ''}{hours} h {rest:02d} min"
    if abs(time_s) >= 120:
        minutes, rest = divmod(round(abs(time_s)), 60)
        return f"{'-' if time_s < 0 else ''}{minutes} min {rest:02d} s"
    for step, unit, factor in _SECOND_STEPS:
        if abs(time_s) >= step:
            return f"{time_s * factor:#.3g} {unit}".replace(". ", " ")
    return "0 s" if time_s == 0 else f"{time_s * 1e9:#.3g} ns".replace(". ", " ")


def bandwidth_text(bandwidth_bytes_per_s: float) -> str:
    """Return a bandwidth as text.

    Parameters
    ----------
    bandwidth_bytes_per_s : bytes per second.

    Examples
    --------
    >>> bandwidth_text(2**20)
    '1.0 MiB/s'
    """
    return f"{bytes_text(bandwidth_bytes_per_s)}/s"
