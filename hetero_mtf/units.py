"""Bytes, seconds, values and long lists written for people."""

from __future__ import annotations

from collections.abc import Sequence

_BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_SHOWN = 40  # characters of a value
_LEAST_S = 1e-12  # less is what rounding leaves of nothing
_SECOND_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


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


def value_text(value: object) -> str:
    """Return a value as a message shows it: of a long one the beginning.

    Parameters
    ----------
    value : whatever a file held.

    Examples
    --------
    >>> value_text("x"), value_text([1] * 100)
    ("'x'", '[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ...')
    """
    try:
        if isinstance(value, (str, list, tuple)):
            value = value[:_SHOWN]
        text = f"an object of {len(value)} entries" if isinstance(value, dict) and len(value) > _SHOWN else repr(value)
    except (RecursionError, ValueError):  # nested deeper, or of more digits, than Python writes
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def seconds_text(time_s: float) -> str:
    """Return a length of time as text of three figures; from two minutes on as minutes and hours, below a picosecond as nothing.

    Parameters
    ----------
    time_s : seconds.

    Examples
    --------
    >>> seconds_text(0.00123), seconds_text(12.3456), seconds_text(3725)
    ('1.23 ms', '12.3 s', '1 h 02 min')
    """
    sign, size_s = ("-" if time_s < 0 else ""), abs(time_s)
    if round(size_s) >= 3600:
        hours, minutes = divmod(round(size_s / 60), 60)
        return f"{sign}{hours} h {minutes:02d} min"
    if round(size_s) >= 120:
        minutes, seconds = divmod(round(size_s), 60)
        return f"{sign}{minutes} min {seconds:02d} s"
    if size_s < _LEAST_S:
        return "0 s"
    step, unit = next((pair for pair in _SECOND_STEPS if size_s >= 0.9995 * pair[0]), _SECOND_STEPS[-1])
    return f"{sign}{size_s / step:.{max(0, 2 - _exponent(size_s / step))}f} {unit}"


def _exponent(value: float) -> int:
    return int(f"{value:.2e}".partition("e")[2]) if value else 0


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


def list_text(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return names as one clause; of a longer list the first ones and how many there are besides.

    Parameters
    ----------
    names : any number of names or clauses.
    most : how many are shown, at least 1.
    separator : what stands between two of them.

    Examples
    --------
    >>> list_text(["a", "b"], 2), list_text(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more
