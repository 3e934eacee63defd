"""A Sphinx extension that adds the annotations of a signature to the lists of parameters in docstrings.

The docstrings of this project write `name : meaning` and leave the type to the annotation. numpydoc expects
`name : type` with the meaning below it, so the lists are rewritten before numpydoc reads them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SECTIONS = ("Parameters", "Attributes")
_ITEM = re.compile(r"(?P<names>\w+(?:, \w+)*) : (?P<meaning>.+)")


def with_types(lines: Sequence[str], types: Mapping[str, str]) -> list[str]:
    """Return the lines of a docstring with `name : type` and the meaning below it in its lists of parameters.

    Parameters
    ----------
    lines : a docstring without its indentation.
    types : name -> annotation; a name without one stands alone.

    Examples
    --------
    >>> with_types(["Parameters", "----------", "path : file to write."], {"path": "str"})
    ['Parameters', '----------', 'path : str', '    file to write.']
    """
    return [new for line, inside in _lines_in_lists(lines) for new in (_item(line, types) if inside else [line])]


def _lines_in_lists(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is in a list of parameters."""
    inside = False
    for index, line in enumerate(lines):
        underlined = index + 1 < len(lines) and re.fullmatch("-{3,}", lines[index + 1]) is not None
        if underlined:
            inside = line in SECTIONS
        yield line, inside and not underlined


def _item(line: str, types: Mapping[str, str]) -> list[str]:
    match = _ITEM.fullmatch(line)
    if match is None:
        return [line]
    annotations = dict.fromkeys(types[name] for name in match["names"].split(", ") if name in types)
    head = f"{match['names']} : {' and '.join(annotations)}" if annotations else match["names"]
    return [head, "    " + re.sub(r"(?<!\w)\*(?=\w)", r"\*", match["meaning"])]  # "(*inputs)" is no emphasis


def annotations_of(target: Any) -> dict[str, str]:
    """Return the annotations of a function, or of the fields and constructor of a class, as text; Any is left out."""
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        parameters = {}
    annotated = {name: item.annotation for name, item in parameters.items() if item.annotation is not inspect.Parameter.empty}
    fields = getattr(target, "__annotations__", {}) if inspect.isclass(target) else {}
    return {name: inspect.formatannotation(kind).strip("'") for name, kind in {**fields, **annotated}.items() if kind not in ("Any", Any)}


def _rewrite(application: Any, what: str, name: str, target: Any, options: Any, lines: list[str]) -> None:
    lines[:] = with_types(lines, annotations_of(target))


def setup(application: Any) -> dict[str, Any]:
    """Connect the extension, before numpydoc's handler of the same event."""
    application.connect("autodoc-process-docstring", _rewrite, priority=100)
    return {"version": "1", "parallel_read_safe": True}
