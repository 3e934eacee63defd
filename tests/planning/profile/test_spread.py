from __future__ import annotations

from hetero_mtf.planning.profile.spread import median_and_spread


def test_the_median_of_one_figure_has_no_spread() -> None:
    assert median_and_spread([0.5]) == (0.5, 0.0) and median_and_spread([1.0, 2.0, 3.0, 4.0])[0] == 2.5
