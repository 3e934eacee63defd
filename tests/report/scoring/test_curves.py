"""The picture of calibration, ROC and precision-recall curves, and the page it lies in."""

from __future__ import annotations

import base64
import pathlib

import numpy as np
import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.report.page import page
from hetero_mtf.report.scores import scores
from hetero_mtf.report.scoring.curves import Curves, curves_png, save_curves, told
from hetero_mtf.report.scoring.groups import group_scores
from hetero_mtf.report.scoring.reliability import reliability
from hetero_mtf.report.scoring.sections import score_sections

PNG = b"\x89PNG\r\n\x1a\n"


def curves(classes: tuple[str, ...], true: np.ndarray, seed: int = 0) -> Curves:
    p = np.random.default_rng(seed).dirichlet(np.ones(len(classes)), len(true))
    return Curves(p, true, scores(p, true, classes))


@pytest.mark.fast("one class only")
@pytest.mark.parametrize(
    ("classes", "true"),
    [
        (("AD", "NC"), np.arange(30) % 2),
        (("AD", "MCI", "NC"), np.arange(30) % 3),
        (tuple(f"class {c}" for c in range(10)), np.arange(40) % 10),
        (("AD", "NC"), np.zeros(3, np.int64)),
        (("AD", "NC"), np.array([1])),
        (("\u8f7b\u5ea6", "\u91cd\u5ea6"), np.arange(12) % 2),
    ],
    ids=["two", "three", "ten", "one class only", "one sample", "Chinese"],
)
def test_a_picture_is_drawn_of_whatever_can_be_scored(classes: tuple[str, ...], true: np.ndarray) -> None:
    assert curves_png(curves(classes, true), "a title").startswith(PNG)


def test_of_two_classes_the_positive_one_is_drawn_and_of_more_all() -> None:
    assert curves(("NC", "AD"), np.arange(10) % 2).drawn == (1,)
    assert curves(("AD", "MCI", "NC"), np.arange(9) % 3).drawn == (0, 1, 2)


def test_the_calibration_is_that_of_the_class_against_the_others() -> None:
    drawn = curves(("AD", "MCI", "NC"), np.arange(30) % 3)
    for c in range(3):
        assert drawn.reliability(c) == reliability(drawn.probabilities[:, c], drawn.true == c)
    fit = drawn.reliability(0)
    lines = told(drawn)
    assert lines[0] == (f"calibration (AD): Brier score {fit.brier:.3f}, expected calibration error {fit.error:.3f} in 10 bins")
    assert sum(bin["samples"] for bin in drawn.document()["NC"]["bins"]) == 30


def test_a_picture_that_cannot_be_written_is_one_sentence(tmp_path: pathlib.Path) -> None:
    save_curves(tmp_path / "a.png", PNG)
    assert (tmp_path / "a.png").read_bytes() == PNG
    with pytest.raises(HeteroError, match=r"cannot write .*a.png.*; choose another place"):
        save_curves(tmp_path / "none" / "a.png", PNG)


def test_a_page_has_the_picture_inside_and_all_scores() -> None:
    drawn = curves(("AD", "NC"), np.arange(20) % 2)
    group = group_scores("site", ["A<", "B"] * 10, ["x"] * 20, (drawn.probabilities, drawn.true), ("AD", "NC"))
    text = page("Scores", score_sections(drawn.scores, [group], PNG, told(drawn)), writer="evaluate")
    assert f'src="data:image/png;base64,{base64.b64encode(PNG).decode()}"' in text and 'alt="calibration (AD)' in text
    assert "Written by hetero-mtf evaluate." in text and "A&lt;" in text and "average precision (AD)" in text
    assert "http" not in text.replace("http-equiv", "")
