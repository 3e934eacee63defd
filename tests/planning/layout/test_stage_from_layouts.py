from __future__ import annotations

from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.layout.stage_from_layouts import full_stage, split_by_samples, trimmed_grid, trimmed_stage, unsplit_stage
from tests.planning.networks import pair_net

GRAPH = pair_net()
COLUMN = LayerLayout(1, "first", "column", (3, 0, 1))
ON_GRID = LayerLayout(1, "first", "column", (3, 0, 1), "filters", (2, 0, 1), "batch")


def test_a_trimmed_stage_lacks_the_devices_that_have_no_part() -> None:
    stage = trimmed_stage([LayerLayout(0, "input", "replicated"), COLUMN], (4, 6, 9))
    assert stage.devices == (4, 9) and stage.axes == (("devices", 2),) and stage.layers == (0, 1)
    assert [entry.sizes for entry in stage.layouts] == [(), (3, 1)]
    assert full_stage([COLUMN], (4, 6, 9)).layouts == (COLUMN,)


def test_one_device_that_remains_computes_all_layers_replicated() -> None:
    alone = LayerLayout(1, "first", "column", (0, 4, 0))
    assert trimmed_stage([alone], (4, 6, 9)) == full_stage([LayerLayout(1, "first", "replicated")], (6,))
    none = [LayerLayout(1, "first", "replicated")]
    assert trimmed_stage(none, (4, 6, 9)).devices == (4,) and trimmed_stage(none, (4, 6, 9), fallback=9).devices == (9,)


def test_a_trimmed_grid_lacks_rows_without_samples_and_columns_without_sizes() -> None:
    stage = trimmed_grid([ON_GRID], range(9), 3)
    assert stage is not None and stage.devices == (0, 2, 6, 8) and stage.axes == (("batch", 2), ("filters", 2))
    assert (stage.layouts[0].sizes, stage.layouts[0].samples) == ((3, 1), (2, 1))
    assert trimmed_grid([LayerLayout(1, "first", "batch", samples=(2, 0, 1))], range(9), 3) is None


def test_a_stage_of_some_layers_holds_only_these() -> None:
    assert unsplit_stage(GRAPH, (2, 3), 5).layers == (2, 3) and unsplit_stage(GRAPH, (2, 3), 5).devices == (5,)
    assert {entry.samples for entry in split_by_samples(GRAPH, range(2), [3, 1])} == {(3, 1)}
