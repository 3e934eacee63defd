"""Slices: through the peak, and written in one piece."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.report.slice_picture import peak, save_slices

SCAN = np.random.default_rng(0).normal(size=(6, 7, 8)).astype(np.float32)


def heat_at(*place: int) -> np.ndarray:
    heat = np.zeros((6, 7, 8), np.float32)
    heat[place] = 1.0
    return heat


def test_the_peak_is_the_largest_value_and_the_middle_where_there_is_none() -> None:
    assert peak(heat_at(4, 2, 7).astype(float)) == (4, 2, 7)
    assert peak(np.zeros((6, 7, 8))) == (3, 3, 4)


@pytest.mark.slow
@pytest.mark.fast("-1")
@pytest.mark.parametrize("sign", [1, -1])
def test_the_picture_shows_the_slices_through_the_peak_whatever_the_axes_order(tmp_path: pathlib.Path, sign: int, monkeypatch) -> None:
    from matplotlib.axes import Axes

    titles: list[str] = []
    monkeypatch.setattr(Axes, "set_title", lambda self, text, **how: titles.append(text))
    affine = np.diag([sign * 2.0, 2, 2, 1])
    save_slices(tmp_path / "a.png", SCAN, heat_at(5, 1, 3), affine, "one")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert titles == ["axial, z = 6 mm", "coronal, y = 2 mm", f"sagittal, x = {10 * sign} mm"]


@pytest.mark.slow
def test_a_scan_that_is_the_same_everywhere_is_drawn_all_the_same(tmp_path: pathlib.Path) -> None:
    save_slices(tmp_path / "a.png", np.ones((6, 7, 8), np.float32), np.zeros((6, 7, 8), np.float32), np.eye(4), "one")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.slow
def test_a_title_in_another_script_is_drawn_without_a_word(tmp_path: pathlib.Path) -> None:
    save_slices(tmp_path / "a.png", SCAN, heat_at(0, 0, 0), np.eye(4), "\u8f7b\u5ea6")
    assert (tmp_path / "a.png").is_file()


@pytest.mark.slow
def test_a_picture_that_cannot_be_written_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(HeteroError, match="cannot write .*a.png"):
        save_slices(tmp_path / "none" / "a.png", SCAN, heat_at(0, 0, 0), np.eye(4), "one")
