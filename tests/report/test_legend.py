from __future__ import annotations

from hetero_mtf.planning.layout.records import LAYOUTS
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.legend import DEFINITIONS, layout_legend
from tests.planning.networks import cluster_of, pair_net


def test_every_layout_has_a_definition() -> None:
    assert set(DEFINITIONS) == set(LAYOUTS)


def test_only_layouts_that_occur_are_defined() -> None:
    assert [line.split(":")[0] for line in layout_legend(Plan.batch(pair_net(), [1, 1], cluster_of(2), 8))] == ["layout batch"]
    assert len(layout_legend(Plan.filters(pair_net(), [1, 1], cluster_of(2), 8))) > 2
