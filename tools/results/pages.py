"""Pages with result tables: what stands between two marks is written from the JSON of the results.

    <!-- results: NAME columns=KEY,KEY rows=1,3 parts=title,table,run,notes targets=hidden -->
    <!-- end -->

NAME is that of a file in docs/results. Without `columns` a table has all columns, without `rows` (counted from 1) all rows, without
`parts` all parts: title (with the command), table, run (when, at which commit, on which machine) and notes. With `targets=hidden` what was
wanted is left out.

    <!-- derived: claims -->
    <!-- end -->

is the index of all claims (`claims.py`), `derived: highlights` what the README shows of it, and `derived: prediction_errors` how far
predictions are off (`prediction_errors.py`).
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence

from hetero_mtf.errors import DataError
from tools.results.claims import claims_table, highlights_table
from tools.results.prediction_errors import errors_table
from tools.results.records import ResultSet
from tools.results.tables import note_text, provenance, table

PARTS = ("title", "table", "run", "notes")
ABSENT = "Not measured yet."
DERIVED = {"claims": claims_table, "highlights": highlights_table, "prediction_errors": errors_table}
_DERIVED = re.compile(r"^(?P<mark><!-- derived: *(?P<name>\w+) *-->)\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^(?P<mark><!-- results: *(?P<wanted>[^\n]*?) *-->)\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^<!-- (results|derived):", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Selection:
    """What a mark asks for.

    Parameters
    ----------
    name : of the results.
    columns : keys; empty for all.
    rows : numbers from 1; empty for all.
    parts : some of `PARTS`.
    targets : whether what was wanted is shown.
    """

    name: str
    columns: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    parts: tuple[str, ...] = PARTS
    targets: bool = True


def selection(wanted: str) -> Selection:
    """Return what the text of a mark asks for.

    Parameters
    ----------
    wanted : what follows "results:".

    Raises
    ------
    DataError
        If it is of another form.

    Examples
    --------
    >>> selection("uneven_split columns=shares,batch rows=1,2 parts=table")
    Selection(name='uneven_split', columns=('shares', 'batch'), rows=(1, 2), parts=('table',), targets=True)
    """
    name, *words = wanted.split() or [""]
    given = dict(word.partition("=")[::2] for word in words)
    entries = {key: tuple(value.split(",")) for key, value in given.items()}
    rows, parts = entries.get("rows", ()), entries.get("parts", PARTS)
    hidden = given.pop("targets", None)
    known = not set(given) - {"columns", "rows", "parts"} and not set(parts) - set(PARTS) and hidden in (None, "hidden")
    if not known or not all(map(str.isdecimal, rows)):
        remedy = f"write NAME columns=KEY,KEY rows=1,3 parts={','.join(PARTS)} targets=hidden"
        raise DataError(f"the mark 'results: {wanted}' is not understood", remedy)
    return Selection(name, entries.get("columns", ()), tuple(map(int, rows)), parts, hidden is None)


def block(results: ResultSet, chosen: Selection) -> str:
    """Return the Markdown of a table with its command, its runs and its notes, those of several runs once.

    Parameters
    ----------
    results : the table.
    chosen : what of it is wanted.

    Raises
    ------
    DataError
        If it has no such column or row.
    """
    columns = {column.key: column for column in results.columns}
    count = len(results.rows)
    unknown = [key for key in chosen.columns if key not in columns] + [str(row) for row in chosen.rows if not 1 <= row <= count]
    if unknown:
        there = f"columns {', '.join(columns)} and {count} rows"
        raise DataError(f"the results {results.name} have no {', '.join(unknown)}", f"there are {there}")
    rows = [row - 1 for row in chosen.rows] or list(range(count))
    used = [results.rows[i] for i in rows]
    runs = list(dict.fromkeys(results.runs[row.run] for row in used))
    command = f": `{runs[0].command}`" if len(runs) == 1 else ""
    texts = {
        "title": [f"{results.title}{command}"],
        "table": [table([columns[key] for key in chosen.columns or columns], used, chosen.targets)],
        "run": ["\n".join(provenance(results, rows))],
        "notes": list(dict.fromkeys([*results.summary, *(note_text(results, note, rows) for note in results.notes)])),
    }
    return "\n\n".join(text for part in PARTS if part in chosen.parts for text in texts[part])


def filled(page: str, results: Mapping[str, ResultSet]) -> str:
    """Return the text of a page with all its blocks written from the results; one without results says so.

    Parameters
    ----------
    page : text of the page.
    results : name -> results.

    Raises
    ------
    DataError
        If a mark is not understood or not ended.
    """
    if len(_MARK.findall(page)) != len(list(_BLOCK.finditer(page))) + len(list(_DERIVED.finditer(page))):
        raise DataError("a block of results does not end", "write <!-- end --> on a line of its own after each <!-- results: ... -->")

    def written(match: re.Match[str]) -> str:
        chosen = selection(match["wanted"])
        text = block(results[chosen.name], chosen) if chosen.name in results else ABSENT
        return f"{match['mark']}\n\n{text}\n\n<!-- end -->"

    def computed(match: re.Match[str]) -> str:
        if match["name"] not in DERIVED:
            raise DataError(f"there is no table {match['name']}", f"name one of {', '.join(DERIVED)}")
        return f"{match['mark']}\n\n{DERIVED[match['name']](results)}\n\n<!-- end -->"

    return _DERIVED.sub(computed, _BLOCK.sub(written, page))


def names_in(page: str) -> list[str]:
    """Return the names of the results that a page shows."""
    return [selection(match["wanted"]).name for match in _BLOCK.finditer(page)]


def outside_blocks(page: str) -> str:
    """Return what of a page was written by hand."""
    return _DERIVED.sub("", _BLOCK.sub("", page))


def load_all(folder: pathlib.Path) -> dict[str, ResultSet]:
    """Return all results of a folder by name.

    Parameters
    ----------
    folder : with a JSON file a table.

    Raises
    ------
    HeteroError
        If a file has faults, or is not named for its results.
    """
    results = {path.stem: ResultSet.load(path) for path in sorted(folder.glob("*.json"))}
    wrong = [name for name, each in results.items() if each.name != name]
    if wrong:
        raise DataError(f"{folder / wrong[0]}.json has the results {results[wrong[0]].name!r}", "rename the file")
    return results


def pages_of(root: pathlib.Path) -> Sequence[pathlib.Path]:
    """Return the pages of a clone that have blocks of results: README.md and the pages below docs."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in pages if page.exists() and _MARK.search(page.read_text(encoding="utf-8"))]
