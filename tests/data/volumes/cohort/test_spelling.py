from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.data.volumes.cohort.spelling import cell_text, comparison_form, participant_form, session_form


@given(st.text())
def test_what_is_read_is_read_again_as_it_is_and_compares_as_what_was_written(written: str) -> None:
    text = cell_text(written)
    assert cell_text(text) == text == unicodedata.normalize("NFC", text)
    assert cell_text(unicodedata.normalize("NFD", written)) == text and comparison_form(text) == comparison_form(written)


@pytest.mark.parametrize("text", ["x\u00b2", "\u00bd", "\uff21", "\u2167"])
def test_what_a_reader_sees_is_kept_and_is_compared_as_plain_letters(text: str) -> None:
    assert cell_text(text) == text and comparison_form(text) == unicodedata.normalize("NFKC", text).casefold()


def test_identifiers_lose_their_own_prefix_once_and_numbers_their_zeros() -> None:
    assert [participant_form(text) for text in ("Sub-0010.00", "ses-01", "sub-sub-1", "000", "sub-", "0.5")] == [
        "10",
        "ses-01",
        "sub-1",
        "0",
        "sub-",
        "0.5",
    ]
    assert [session_form(text) for text in ("SES-01", "sub-1", None)] == ["1", "sub-1", None]
    assert participant_form("SUB-01", "exact") == "SUB-01" and session_form("ses-01", "exact") == "ses-01"
