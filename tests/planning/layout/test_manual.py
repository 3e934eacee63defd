from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.layout.arrangement import arrange
from hetero_mtf.planning.layout.manual import checked_shares, device_index, device_names, filter_stage, single_stage, sized_stage
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import cluster_of, pair_net

GRAPH = pair_net()


def test_names_and_indices_find_devices() -> None:
    names = device_names(cluster_of(2))
    assert names == ("worker:0", "worker:1") and device_index("worker:1", names) == 1 == device_index(1, names)


@pytest.mark.parametrize("device", [2, -1, 0.5, True, "worker:7", None])
def test_a_device_that_there_is_not_is_refused(device: Any) -> None:
    with pytest.raises(PlanError, match="there is no device .*, the cluster has 2 .*; use an index from 0 to 1 or a name"):
        device_index(device, device_names(cluster_of(2)))


@pytest.mark.parametrize("cluster", [None, "local"])
def test_what_has_no_devices_is_refused(cluster: Any) -> None:
    with pytest.raises(PlanError, match=f"the cluster is {cluster!r}, which has no devices; pass a Cluster or a ClusterRecord"):
        Plan.filters(GRAPH, [1, 1], cluster, 8)


@pytest.mark.parametrize("batch_size", [8.0, "8", True, None])
def test_a_batch_size_that_is_no_whole_number_is_refused(batch_size: Any) -> None:
    with pytest.raises(PlanError, match="batch_size: is .*, must be a whole number; correct them"):
        Plan.single(GRAPH, 0, cluster_of(2), batch_size)


def test_shares_become_floats() -> None:
    assert checked_shares(["3", 1], ("a", "b")) == [3.0, 1.0]  # type: ignore[list-item]


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=2))
def test_devices_that_get_nothing_anywhere_are_left_out_and_no_others(rows: list[list[int]]) -> None:
    stage = sized_stage(GRAPH, arrange(GRAPH), rows, (4, 6, 9), fallback=6)
    used = [d for at, d in enumerate((4, 6, 9)) if any(row[at] for row in rows)]
    assert stage.devices == (tuple(used) or (6,))
    if len(used) > 1:
        kept = [at for at, d in enumerate((4, 6, 9)) if d in used]
        assert [stage.layouts[i].sizes for i in (1, 4)] == [tuple(row[at] for at in kept) for row in rows]
    else:
        assert stage == single_stage(GRAPH, stage.devices[0])


@pytest.mark.parametrize("pairing", ["pairs", "gather"])
def test_equal_shares_split_equally(pairing: str) -> None:
    assert filter_stage(GRAPH, [1, 1, 1], pairing).layouts[1].sizes == (4, 4, 4)
