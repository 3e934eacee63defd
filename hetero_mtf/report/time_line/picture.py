"""The picture of a time line: bars over seconds as SVG, for a page in light or dark."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator

from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD
from hetero_mtf.planning.schedule.simulator import UPDATE
from hetero_mtf.report.colours import TRANSFER
from hetero_mtf.report.time_line.line import KINDS, Span, TimeLine
from hetero_mtf.units import seconds_text

_WORDS = {FORWARD: "forward pass", BACKWARD: "backward pass", UPDATE: "update", TRANSFER: "communication"}
_WIDTH, _ROW, _BAR, _THIN, _TOP = 1000.0, 34.0, 22.0, 5.0, 22.0
_LETTER, _MARGIN = 6.6, 12.0  # width of a character, and what is left free beside bars
_TICKS = 6  # at most, but for one


def time_line_svg(line: TimeLine, title: str) -> str:
    """Return the picture: a row each, tasks as bars with the number of their microbatch, transfers as thin bars below their sender.

    Parameters
    ----------
    title : what a screen reader calls it.

    Notes
    -----
    Every bar says on hovering what it is. O(bars).
    """
    left = _MARGIN + _LETTER * max(map(len, line.rows), default=0)
    height = _TOP + _ROW * len(line.rows) + 4
    scale = (_WIDTH - left - 2 * _MARGIN) / line.total_s if line.total_s > 0 else 0.0
    drawn = [
        *_axis(line, left, scale, height),
        *(f'<text x="0" y="{_TOP + _ROW * at + 0.7 * _BAR:.1f}">{html.escape(name)}</text>' for at, name in enumerate(line.rows)),
        *(part for span in line.spans for part in _bar(span, left, scale)),
    ]
    told = html.escape(f"{title}: {len(line.rows)} rows over {seconds_text(line.total_s)}", quote=True)
    view = f'viewBox="0 0 {_WIDTH:g} {height:g}" role="img" aria-label="{told}"'
    body = "\n".join(drawn)
    return f'<figure>{_key(line)}\n<div class="wide"><svg class="line" {view}>\n{body}\n</svg></div></figure>'


def _key(line: TimeLine) -> str:
    there = {span.kind for span in line.spans}
    items = (f'<li><i class="fill-{kind}"></i>{_WORDS[kind]}</li>' for kind in KINDS if kind in there)
    return f'<ul class="key">{"".join(items)}</ul>'


def _axis(line: TimeLine, left: float, scale: float, height: float) -> Iterator[str]:
    """Yield thin lines at round seconds, with the seconds above them."""
    for at in ticks(line.total_s):
        x = left + scale * at
        yield f'<path class="tick" d="M{x:.1f} {_TOP - 6:g}V{height:g}"></path>'
        yield f'<text class="tick" x="{x:.1f}" y="{_TOP - 10:g}" text-anchor="middle">{html.escape(seconds_text(at))}</text>'


def ticks(total_s: float) -> list[float]:
    """Return round seconds from 0 up to the total: steps of 1, 2 or 5 times a power of ten, seven of them at most.

    Parameters
    ----------
    total_s : seconds, zero or more.

    Examples
    --------
    >>> ticks(1.1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if total_s <= 0:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(total_s / _TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * _TICKS >= total_s * (1 - 1e-9))
    return [round(at * step, 15) for at in range(math.floor(total_s / step * (1 + 1e-9)) + 1)]


def _bar(span: Span, left: float, scale: float) -> Iterator[str]:
    thin = span.kind == TRANSFER
    x, width = left + scale * span.start_s, scale * (span.end_s - span.start_s)
    width = max(1.0, width) if thin else width  # so that it is seen at all
    y, bar = _TOP + _ROW * span.row + (_BAR + 2 if thin else 0), _THIN if thin else _BAR
    place = f'x="{x:.2f}" y="{y:g}" width="{width:.2f}" height="{bar:g}"'
    what, colour = "sent" if thin else "task", f'style="fill:var(--{span.kind})"'
    yield f'<rect class="{what}" {place} {colour}><title>{html.escape(span.told)}</title></rect>'
    if not thin and span.label and width >= _LETTER * len(span.label) + 2:
        place = f'x="{x + width / 2:.2f}" y="{y + 0.7 * bar:.1f}"'
        yield f'<text class="in" style="fill:var(--on-{span.kind})" {place}>{html.escape(span.label)}</text>'
