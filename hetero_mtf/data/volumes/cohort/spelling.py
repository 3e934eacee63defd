"""Spelling: what is read of a cell, and which texts are one name that is written in two forms."""

from __future__ import annotations

import re
import unicodedata

from hetero_mtf.errors import DataError
from hetero_mtf.units import value_text

ALIKE, EXACT = "alike", "exact"  # how identifiers are compared
IDS = (ALIKE, EXACT)
_NUMBER = re.compile(r"([0-9]+)(?:\.0+)?")  # no other form of a number is one: 1e3 or +1 may be the name of a person
_MINUS = "\u2212"
_QUOTES = "\"'\u2018\u2019\u201c\u201d\u201e"


def cell_text(written: str) -> str:
    """Return what is read of a cell: its letters in one Unicode form, without invisible characters, with plain spaces, and none around.

    The form is NFC, which joins a letter and its accent and changes nothing that a reader sees. NFKC would write "2" for a superscript
    two, another label perhaps; it is for comparing only.

    Parameters
    ----------
    written : the cell, or a name that is to be compared with one.

    Examples
    --------
    >>> cell_text("  mild\\u00a0AD\\u200b "), len(cell_text("e\\u0301"))
    ('mild AD', 1)
    """
    if written.isascii():
        return written.strip()
    # Cf: format characters, such as a zero-width space or a byte order mark. Z: spaces and separators, no-break ones among them.
    kinds = [(character, unicodedata.category(character)) for character in written]
    return unicodedata.normalize("NFC", "".join(" " if kind[0] == "Z" else mark for mark, kind in kinds if kind != "Cf")).strip()


def comparison_form(text: str) -> str:
    """Return what all texts share that differ in writing only: in capitals, width of letters, kind of dash, spaces, or quotes about them.

    Parameters
    ----------
    text : a label or an identifier.

    Examples
    --------
    >>> comparison_form("Mild  AD"), comparison_form("\\uff21\\uff24\\u20131")
    ('mild ad', 'ad-1')
    """
    if text.isascii():
        return _bare(text.casefold())
    # NFKC makes plain letters of full-width ones: to name two as one in error costs the user an option, to miss them hides a leak.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", cell_text(text)).casefold())
    dashed = ("-" if mark == _MINUS or unicodedata.category(mark) == "Pd" else mark for mark in folded)
    return _bare("".join(dashed))


def participant_form(participant: str, ids: str = ALIKE) -> str:
    """Return what all spellings of one participant share.

    Parameters
    ----------
    participant : as it is written.
    ids : "alike": capitals, a leading sub-, and zeros before or .0 behind a whole number do not matter; "exact": all that is written does.

    Examples
    --------
    >>> {participant_form(name) for name in ("sub-0050770", "50770", "SUB-50770.0")}, participant_form("1.5")
    ({'50770'}, '1.5')
    >>> participant_form("sub-01", "exact")
    'sub-01'
    """
    return participant if ids == EXACT else _identifier_form(participant, "sub-")


def session_form(session: str | None, ids: str = ALIKE) -> str | None:
    """Return what all spellings of one session share, as `participant_form`; a leading ses- does not matter.

    Parameters
    ----------
    session, ids : as for `participant_form`; None where no session is named.
    """
    return session if session is None or ids == EXACT else _identifier_form(session, "ses-")


def check_ids(ids: object) -> None:
    """Refuse a comparison of identifiers that there is not.

    Parameters
    ----------
    ids : what was asked for.

    Raises
    ------
    DataError
        If it is none of `IDS`.
    """
    if ids not in IDS:
        raise DataError(f"ids is {value_text(ids)}", f"give {' or '.join(map(repr, IDS))}")


def _bare(text: str) -> str:
    bare = " ".join(text.split())
    return bare[1:-1].strip() if len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES else bare


def _identifier_form(text: str, prefix: str) -> str:
    form = comparison_form(text)
    bare = form.removeprefix(prefix).strip() or form
    number = _NUMBER.fullmatch(bare)
    return bare if number is None else number[1].lstrip("0") or "0"
