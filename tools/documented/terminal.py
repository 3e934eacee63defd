"""A picture of a terminal: commands and what they print, as it was recorded."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from xml.sax.saxutils import escape

COLUMNS, CHARACTER, LINE, MARGIN = 82, 7.25, 17, 14  # width and height of a character, and a margin, pixels
BACKGROUND, INK, TYPED = "#1b1f24", "#e6edf3", "#8ecbff"
GAP = "..."  # stands for lines that are left out


def shown_lines(text: str, wanted: Sequence[tuple[str, str]]) -> list[str]:
    """Return the command of a recording and some passages of what it printed.

    Parameters
    ----------
    text : the recording: a command that begins with "$ ", then its output.
    wanted : (first, last) beginning of a line at which a passage begins, and at which it ends.

    Raises
    ------
    ValueError
        If no line begins so.
    """
    lines = text.splitlines()
    end = next(at for at, line in enumerate(lines) if not line.endswith("\\"))
    shown = lines[: end + 1]
    for first, last in wanted:
        begin = next((at for at, line in enumerate(lines) if at > end and line.startswith(first)), None)
        if begin is None:
            raise ValueError(f"no line begins with {first!r}")
        end = next((at for at, line in enumerate(lines) if at >= begin and line.startswith(last)), begin)
        shown += [GAP, *lines[begin : end + 1]]
    return shown


def draw_terminal(path: pathlib.Path, recordings: Sequence[Sequence[str]]) -> None:
    """Write a picture of recordings, one below the other, as SVG.

    Parameters
    ----------
    path : file to write or replace.
    recordings : lines of each, as `shown_lines` returns them.
    """
    lines = [line for recording in recordings for line in (*recording, "")][:-1]
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, LINE * len(lines) + 2 * MARGIN
    drawn, typed = [], False
    for at, line in enumerate(lines):
        typed = line.startswith("$ ") or (typed and lines[at - 1].endswith("\\"))
        colour = TYPED if typed else INK
        drawn.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * at + 12}" fill="{colour}" xml:space="preserve">{escape(line)}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="monospace" font-size="12">'
    box = f'<rect width="{width}" height="{height}" rx="6" fill="{BACKGROUND}"/>'
    path.write_text("\n".join([head, box, *drawn, "</svg>"]) + "\n", encoding="utf-8")
