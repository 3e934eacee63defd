"""A self-contained HTML page of sections: the facts that a terminal shows, with pictures, in light or dark."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Iterator, Sequence

from hetero_mtf.json_file import replace_file
from hetero_mtf.report.colours import REPLICATED, STATES, declarations, device_colour, rules
from hetero_mtf.report.section import Bar, Bars, Image, Section
from hetero_mtf.report.table import Table
from hetero_mtf.report.time_line.picture import time_line_svg

ABOUT_PLAN = "How a network is split over unequal devices, and what a step is predicted to take."
ABOUT_PROFILE = "How fast devices and links were measured to be, and what that suggests."
_FOLDED_FROM = 16  # rows, of a table that says what a picture shows
_TEXT_FROM = 0.07  # of a full bar; narrower parts have their text in the title and the table only

_STYLE = (
    f"""
:root {{ {declarations()} }}
@media (prefers-color-scheme: dark) {{ :root {{ {declarations(dark=True)} }} }}
{chr(10).join(rules())}
"""
    + """
:root { color-scheme: light dark; --page: #f5f6f8; --card: #ffffff; --text: #1b1f24; --soft: #57606a; --line: #d8dee4; --bar: #e6e9ed;
  --accent: #1f6fb2; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0f1318; --card: #171c23; --text: #e6eaef; --soft: #9aa5b1; --line: #2c343d; --bar: #252c35; --accent: #6db3f2; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header, main, footer { max-width: 72rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.25rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
.verdict { border-left: 6px solid var(--accent); }
.verdict p { font-size: 1.2rem; font-weight: 600; line-height: 1.35; margin: 0 0 .5rem; }
header p, footer p { color: var(--soft); margin: 0 0 1rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 1.1rem 1.4rem 1.4rem; margin: 0 0 1.25rem; }
h2 { font-size: 1.1rem; margin: 0 0 .6rem; }
ul { margin: 0 0 .8rem; padding-left: 1.1rem; } li { margin: .15rem 0; overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 0 0 1rem; padding: 0; }
.tiles div { border: 1px solid var(--line); border-radius: 10px; padding: .5rem .9rem; min-width: 7.5rem; }
.tiles dt { color: var(--soft); font-size: .8rem; } .tiles dd { margin: 0; font-size: 1.25rem; font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } th, td { white-space: nowrap; } td.left:last-child { white-space: normal; min-width: 16rem; }
.left { text-align: left; } summary { cursor: pointer; color: var(--accent); }
tbody tr:hover { background: color-mix(in srgb, var(--accent) 8%, transparent); }
figure { margin: 0 0 1.1rem; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; list-style: none; margin: 0 0 .6rem; padding: 0; font-size: .85rem; }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; margin-right: .4rem; vertical-align: -.08rem; }
.bars { display: grid; grid-template-columns: minmax(5rem, max-content) 1fr; gap: .3rem .8rem; align-items: center; }
.label { font-size: .85rem; overflow-wrap: anywhere; max-width: 16rem; }
.bar { display: flex; height: 1.55rem; background: var(--bar); border-radius: 5px; overflow: hidden; }
.times .bar { background: transparent; }
ul:last-child { margin-bottom: 0; }
.bar span { font-size: .76rem; line-height: 1.55rem; text-align: center; overflow: hidden; white-space: nowrap; }
.bar span + span { border-left: 1px solid var(--card); }
img { display: block; width: 100%; height: auto; background: #fff; border-radius: 6px; }
svg.line { display: block; width: 100%; min-width: 44rem; height: auto; font: 11.5px/1 system-ui, sans-serif; }
svg.line text { fill: var(--text); } svg.line .tick { fill: var(--soft); stroke: none; font-size: 10.5px; }
svg.line path.tick { stroke: var(--line); } svg.line .task { stroke: var(--card); stroke-width: .7; }
svg.line text.in { text-anchor: middle; pointer-events: none; }
@media (max-width: 40rem) {
  header, main, footer { padding: 0 .6rem; } section { padding: .9rem .8rem 1rem; } h1 { font-size: 1.3rem; }
  .verdict p { font-size: 1.05rem; }
  table { font-size: .8rem; } th, td { padding: .3rem .35rem; } th { white-space: normal; vertical-align: bottom; }
  .tiles { gap: .4rem; } .tiles div { min-width: 5.6rem; padding: .35rem .6rem; } .tiles dd { font-size: 1.05rem; }
  .bars { grid-template-columns: 1fr; gap: .1rem; } .label { max-width: none; margin-top: .25rem; } }
@media print { body { background: #fff; } section { break-inside: avoid; } }
"""
)


def page(title: str, sections: Sequence[Section], told: str = ABOUT_PLAN, writer: str = "explain") -> str:
    """Return the page; it loads nothing from anywhere.

    Parameters
    ----------
    title : its heading.
    sections : what it says, as `sections_text` does.
    told : what the page is about.
    writer : the command that writes it.
    """
    body = "\n".join(_section(section, f"section-{number}") for number, section in enumerate(sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header><h1>{_text(title)}</h1><p>{_text(told)}</p></header>
<main>
{body}
</main>
<footer><p>Written by hetero-mtf {_text(writer)}.</p></footer>
</body>
</html>
"""


def write_page(
    path: str | os.PathLike[str], title: str, sections: Sequence[Section], told: str = ABOUT_PLAN, writer: str = "explain"
) -> None:
    """Write the page to a file in one piece.

    Parameters
    ----------
    path : path of the file to write or replace.
    title, sections, told, writer : as for `page`.

    Raises
    ------
    HeteroError
        If it cannot be written.
    """
    with replace_file(path) as file:
        file.write(page(title, sections, told, writer).encode())


def _section(section: Section, name: str) -> str:
    kind = ' class="verdict"' if section.leads else ""
    parts = [f'<section{kind} aria-labelledby="{name}">', f'<h2 id="{name}">{_text(section.title)}</h2>']
    if section.figures:
        tiles = "".join(f"<div><dt>{_text(label)}</dt><dd>{_text(value)}</dd></div>" for label, value in section.figures)
        parts.append(f'<dl class="tiles">{tiles}</dl>')
    first, *others = section.sentences if section.leads else ("", *section.sentences)
    parts += [f"<p>{_text(first)}</p>"] if first else []
    if others:
        parts.append(f"<ul>{''.join(f'<li>{_text(sentence)}</li>' for sentence in others)}</ul>")
    if section.bars is not None and section.bars.bars:
        parts.append(_figure(section.bars, section.title))
    if section.line is not None:
        parts.append(time_line_svg(section.line, section.title))
    if section.image is not None:
        parts.append(_image(section.image))
    if section.table is not None and section.table.rows:
        table = _table(section.table, section.title)
        folded = section.bars is not None and len(section.table.rows) >= _FOLDED_FROM
        parts.append(f"<details><summary>the same as a table</summary>{table}</details>" if folded else table)
    return "\n".join([*parts, "</section>"])


def _image(image: Image) -> str:
    return f'<img alt="{_text(image.text)}" src="data:image/png;base64,{base64.b64encode(image.png).decode()}">'


def _table(table: Table, caption: str) -> str:
    head = "".join(f'<th scope="col"{_side(at, table)}>{_text(heading)}</th>' for at, heading in enumerate(table.headings))
    rows = ("".join(f"<td{_side(at, table)}>{_text(cell)}</td>" for at, cell in enumerate(row)) for row in table.rows)
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    heading = f"<thead><tr>{head}</tr></thead>"
    return f'<div class="wide"><table aria-label="{_text(caption)}">{heading}\n<tbody>\n{body}\n</tbody></table></div>'


def _side(column: int, table: Table) -> str:
    return ' class="left"' if column < table.left else ""


def _figure(bars: Bars, title: str) -> str:
    """Return stacked bars; each is one thing to a screen reader, with its figures as text."""
    drawn = [at for at in range(len(bars.series)) if any(bar.parts[at] for bar in bars.bars)]
    key = "".join(f'<li><i class="fill-{_colour(bars, at)}"></i>{_text(bars.series[at])}</li>' for at in drawn)
    rows = "\n".join(_bar(bar, bars) for bar in bars.bars)
    kind = ' class="times"' if bars.kind == "times" else ""
    return f'<figure{kind} aria-label="{_text(title)}"><ul class="key">{key}</ul>\n<div class="bars">\n{rows}\n</div></figure>'


def _bar(bar: Bar, bars: Bars) -> str:
    told = ", ".join(f"{name} {text}" for name, text in zip(bars.series, bar.texts) if text)
    label = f'role="img" aria-label="{_text(f"{bar.label}: {told}")}"'
    return f'<div class="label">{_text(bar.label)}</div><div class="bar" {label}>{"".join(_parts(bar, bars))}</div>'


def _parts(bar: Bar, bars: Bars) -> Iterator[str]:
    full_length = max(bars.full_length or 0.0, sum(bar.parts)) or 1.0
    for at, (length, text) in enumerate(zip(bar.parts, bar.texts)):
        if length > 0:
            wide = length / full_length
            inside = _text(text) if wide >= _TEXT_FROM else ""
            style = f'class="fill-{_colour(bars, at)}" style="width:{100 * wide:.3f}%"'
            yield f'<span {style} title="{_text(f"{bars.series[at]}: {text}")}">{inside}</span>'


def _colour(bars: Bars, at: int) -> str:
    """Return the name of a series' colour."""
    if bars.kind == "times":
        return STATES[at % len(STATES)]
    return REPLICATED if at == len(bars.series) - 1 else device_colour(at)


def _text(text: str) -> str:
    return html.escape(text, quote=True)
