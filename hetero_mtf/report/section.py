"""Sections: the facts of a plan, made once for the terminal and for a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.report.table import Table, folded, terminal_columns
from hetero_mtf.report.time_line.line import COLUMNS, KEY, TimeLine, time_line_text


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar of a picture.

    Parameters
    ----------
    label : what it stands for, such as a layer or a device.
    parts : (series,) lengths, zero or more.
    texts : (series,) what each part is, for people.
    """

    label: str
    parts: tuple[float, ...]
    texts: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Bars:
    """Stacked bars, drawn one below the other.

    Parameters
    ----------
    series : names of the parts of a bar, in order.
    bars : the bars.
    full_length : length of a full bar; None where every bar is full.
    kind : what the colours stand for: "devices" or "times".
    """

    series: tuple[str, ...]
    bars: tuple[Bar, ...]
    full_length: float | None = None
    kind: str = "devices"


@dataclasses.dataclass(frozen=True)
class Image:
    """A picture that lies inside the page.

    Parameters
    ----------
    png : its file.
    text : what it shows, for those who do not see it.
    """

    png: bytes
    text: str


@dataclasses.dataclass(frozen=True)
class Section:
    """A title, figures, sentences, a table, and a picture of the numbers in the table.

    Parameters
    ----------
    title : a few words.
    sentences : each ends without a full stop.
    table : None for none.
    bars : None for none; a terminal does not draw them.
    figures : (name, value) of what matters most.
    line : a time line; None for none.
    leads : whether its sentences are what to read first.
    image : a picture; None for none. A terminal does not show it.
    """

    title: str
    sentences: tuple[str, ...] = ()
    table: Table | None = None
    bars: Bars | None = None
    figures: tuple[tuple[str, str], ...] = ()
    line: TimeLine | None = None
    leads: bool = False
    image: Image | None = None


def sections_text(sections: Sequence[Section], columns: int | None = None) -> str:
    """Return sections for a terminal: title, figures, sentences, table and time line of each.

    Parameters
    ----------
    columns : characters of a line at most; None for those of the terminal. Where there is none, no sentence is folded.
    """
    columns = columns or terminal_columns()
    blocks = []
    for section in sections:
        lines = folded(section.title, columns)
        lines.append("=" * max(map(len, lines)))
        lines += folded(", ".join(f"{name} {value}" for name, value in section.figures), columns) if section.figures else []
        lines += [line for sentence in section.sentences for line in folded(sentence, columns)]
        if section.table is not None and section.table.rows:
            lines += ["", dataclasses.replace(section.table, title="").text(columns)]
        if section.line is not None:
            lines += [*folded(KEY, columns), "", *time_line_text(section.line, min(columns, COLUMNS) if columns else COLUMNS)]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
