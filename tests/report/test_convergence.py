from __future__ import annotations

import math
import pathlib

import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.report.convergence import draw_convergence


@pytest.mark.slow
@pytest.mark.fast("a.svg-<?xml")
@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("b.PDF", b"%PDF")])
def test_a_picture_is_written_in_the_format_of_its_name(tmp_path: pathlib.Path, name: str, begins: bytes) -> None:
    history = [math.inf, 3.0, 2.5, 2.5] * 8
    draw_convergence(
        tmp_path / name, history, after_local_search=2.4, bound=2.0, others=[("equal partition", 4.0), ("proportional partition", 3.5)]
    )
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_the_yardsticks_are_named_in_it(tmp_path: pathlib.Path) -> None:
    draw_convergence(tmp_path / "a.svg", [3.0, 2.5], after_local_search=2.4, bound=2.0, optimal=True, others=[("equal partition", 4.0)])
    text = (tmp_path / "a.svg").read_text()
    assert all(
        f"<!-- {label} -->" in text for label in ("equal partition: 4.00 s", "after local search: 2.40 s", "optimum: 2.00 s", "generation")
    )
    draw_convergence(tmp_path / "b.svg", [3.0], bound=2.0)
    assert "<!-- lower bound: 2.00 s -->" in (tmp_path / "b.svg").read_text()


def test_what_cannot_be_drawn_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(HeteroError, match=r"a.txt; end its name with .png, .svg, .pdf"):
        draw_convergence(tmp_path / "a.txt", [1.0])
    with pytest.raises(HeteroError, match="no generation to draw"):
        draw_convergence(tmp_path / "a.png", [])


@pytest.mark.slow
def test_the_picture_has_a_title_and_axes_with_units(tmp_path: pathlib.Path) -> None:
    draw_convergence(tmp_path / "s.svg", [3.0, 2.5], bound=2.0, optimal=True)
    draw_convergence(tmp_path / "ms.svg", [0.3, 0.25], bound=0.2, optimal=True)
    for name in ("s", "ms"):
        text = (tmp_path / f"{name}.svg").read_text()
        labels = ("Convergence of the genetic allocator", "generation", f"objective J of the best allocation ({name})")
        assert all(f"<!-- {label} -->" in text for label in labels)
