from __future__ import annotations

import pathlib

import pytest

from hetero_mtf.data.volumes.cohort import tsv_table as table_module
from hetero_mtf.data.volumes.cohort.tsv_table import read_table
from hetero_mtf.errors import DataError


def written(folder: pathlib.Path, content: str | bytes) -> pathlib.Path:
    path = folder / "people.tsv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_rows_keep_their_line_and_blank_lines_are_passed_over(tmp_path: pathlib.Path) -> None:
    table = read_table(written(tmp_path, "a\tb\n\n1\t2\n\t\n 3 \tx y\n"))
    assert table.columns == ("a", "b") and not table.faults
    assert [(row.line, row.cells) for row in table.rows] == [(3, {"a": "1", "b": "2"}), (5, {"a": "3", "b": "x y"})]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfa\tb\r\n1\t2\r\n",
        b"a\tb\n1\t2",
        b"a\tb\t\t\n1\t2\t\t\n",
        b" a \t b \n1\t 2\n",
        b'"a"\t"b"\n"1"\t"2"\n',
        b"\n\na\tb\n1\t2\n",
    ],
)
def test_what_windows_and_spreadsheets_write_is_understood(tmp_path: pathlib.Path, content: bytes) -> None:
    table = read_table(written(tmp_path, content))
    assert table.columns == ("a", "b") and [row.cells for row in table.rows] == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("cell", ["", "n/a", "N/A", "NA", "nan", " n/a ", "#N/A", "NULL", "None", "\u00a0", "n/a\u200b", "'n/a'", "\u2013"])
def test_cells_that_stand_for_unknown_are_empty_and_what_was_written_is_kept(tmp_path: pathlib.Path, cell: str) -> None:
    row = read_table(written(tmp_path, f"a\tb\n1\t{cell}\n")).rows[0]
    assert row.cells["b"] == "" and row.written["b"] == cell


def test_a_quoted_cell_may_hold_tabs_quotes_and_lines_and_the_next_row_has_its_true_line(tmp_path: pathlib.Path) -> None:
    table = read_table(written(tmp_path, 'a\tb\n"x\ty ""z""\nw"\t1\nnext\t2\n'))
    assert [(row.line, row.cells["a"]) for row in table.rows] == [(2, 'x\ty "z"\nw'), (4, "next")]


def test_a_row_with_too_many_cells_is_a_fault_of_that_row_only(tmp_path: pathlib.Path) -> None:
    table = read_table(written(tmp_path, "a\tb\n1\t2\t3\n4\t5\n"))
    assert [row.line for row in table.rows] == [3]
    assert [(fault.text, fault.line) for fault in table.faults] == [
        ("line 2: it has 3 cells and the header 2; put one tab between two cells", 2)
    ]


@pytest.mark.parametrize(("row", "count"), [("1\t2", "2 cells"), ("1", "1 cell"), ("1\t\t", None), ("1\t\t2", None)])
def test_a_row_with_too_few_cells_is_a_fault_of_that_row_and_not_of_a_column(tmp_path: pathlib.Path, row: str, count: str | None) -> None:
    table = read_table(written(tmp_path, f"a\tb\tc\n{row}\n4\t5\t6\n"))
    expected = [f"line 2: it has {count} and the header 3; put one tab between two cells, and n/a where nothing is known"]
    assert [fault.text for fault in table.faults] == (expected if count else [])
    assert [row.line for row in table.rows] == ([3] if count else [2, 3])


def test_rows_that_are_all_of_another_length_than_the_header_are_one_sentence(tmp_path: pathlib.Path) -> None:
    for rows in ("1\ta\tb\n2\tc\td\n", "1\n2\n"):
        with pytest.raises(
            DataError, match="none of its 2 rows has as many cells as the header, 2, such as line 2 with .; name every column"
        ):
            read_table(written(tmp_path, f"a\tb\n{rows}"))


def test_cells_and_columns_are_read_in_one_form_and_kept_as_they_were_written(tmp_path: pathlib.Path) -> None:
    table = read_table(written(tmp_path, "\ufeffa\u200b\te\u0301\n\ufeff1\u00a02\tx\u0308y\n\u200b\t\u200b\n"))
    assert table.columns == ("a", "\u00e9")
    assert [dict(row.cells) for row in table.rows] == [{"a": "1 2", "\u00e9": "\u1e8dy"}]
    assert table.rows[0].written["a"] == "\ufeff1\u00a02"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; write a header line and one line a scan"),
        ("\n \n", "is empty; write a header line"),
        ("a\tb\n", "has a header and no rows; write one line a scan"),
        ("a,b\n1,2\n", "has the header 'a,b', without tabs; save the table with tabs between the cells"),
        ('\n"a","b"\n"1","2"\n', 'has the header \'"a","b"\', without tabs; save the table with tabs between the cells'),
        ('"a";"b"\n1;2\n', "without tabs; save the table with tabs"),
        ("sep=;\na;b\n", "has the header 'sep=;', without tabs; save the table with tabs"),
        ("a|b\n1|2\n", "has the header 'a|b', without tabs; save the table with tabs"),
        ("a b\n1 2\n", "has the header 'a b', without tabs; save the table with tabs"),
        ("a\tb\ta\n1\t2\t3\n", "names the column 'a' twice; give each its own name"),
        (b"a\tb\n1\t\xff\n", "is not UTF-8 text: line 2 has the byte 0xff; save it as UTF-8 text"),
        ("a\tb\n1\t2\n".encode("utf-16"), "holds zero bytes, so it is not UTF-8 text"),
        ('a\tb\n1\t"2\n', r"cannot be read from line 2 on \(.*\); close every double quote"),
    ],
)
def test_what_is_no_table_is_refused_with_what_to_do(tmp_path: pathlib.Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_table(written(tmp_path, content))


def test_a_missing_table_a_folder_and_a_huge_file_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="cannot read .*people.tsv: No such file or directory; check the path of the table"):
        read_table(tmp_path / "people.tsv")
    with pytest.raises(DataError, match="Is a directory; check the path"):
        read_table(tmp_path)
    monkeypatch.setattr(table_module, "MAX_TABLE_BYTES", 8)
    with pytest.raises(DataError, match="has more than 8 B, too much for a table; check the path"):
        read_table(written(tmp_path, "a\tb\n1\t2\n3\t4\n"))
