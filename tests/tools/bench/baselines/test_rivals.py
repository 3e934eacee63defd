"""The rows of auto beside other libraries, from figures that are given here."""

from __future__ import annotations

import types
from typing import Any

import pytest
from click.testing import CliRunner

from tools.bench.baselines import one_device, rivals
from tools.bench.baselines.equal_batches import DDP, MIRRORED, UNEQUAL_DDP
from tools.results.publication import shown
from tools.results.records import Row


def case(network: str = "vgg8", unequal_s: float = 0.6, **more: Any) -> dict[str, Any]:
    """Return figures with an ideal of 0.4 s and a plan of 0.5 s."""
    seconds = {"alone 0": 0.6, "alone 1": 1.2, rivals.AUTO: 0.5, MIRRORED: 0.7, DDP: 0.8, UNEQUAL_DDP: unequal_s}
    return {
        "network": network,
        "shares": [1.0, 0.5],
        "limit": "process",
        "batch": 64,
        "automatic": "batch",
        "samples": {rivals.AUTO: [43, 21], MIRRORED: [32, 32], DDP: [32, 32], UNEQUAL_DDP: [43, 21]},
        "times": {name: {"measured_s": step_s, "rounds_s": [0.98 * step_s, step_s, 1.02 * step_s]} for name, step_s in seconds.items()},
        **more,
    }


def by_arrangement(figures: dict[str, Any]) -> dict[str, Row]:
    return {row.texts["arrangement"]: row for row in rivals.rows(figures)}


def misses(row: Row) -> bool:
    return any(row.misses(column) for column in rivals.TABLE.columns)


def test_every_arrangement_has_its_samples_its_step_and_what_that_is_of_ours() -> None:
    rows = by_arrangement(case())
    assert list(rows) == ["worker:0 alone", "worker:1 alone", "auto (batch)", MIRRORED, DDP, UNEQUAL_DDP, "ideal"]
    assert rows["auto (batch)"].texts["samples"] == "43:21" and "samples" not in rows["worker:0 alone"]
    assert rows[DDP].numbers["times_ours"] == pytest.approx(1.6) and rows["ideal"].numbers["step_ms"] == pytest.approx(400)
    assert rows[DDP].numbers["spread"] == pytest.approx(0.02) and "spread" not in rows["ideal"].numbers


def test_ours_has_to_reach_a_part_of_what_the_ideal_allows_over_equal_batches() -> None:
    rows = by_arrangement(case())
    assert rows[DDP].wanted["times_ours"] == pytest.approx(0.95 * 0.8 / 0.4) and misses(rows[DDP])
    resnet18 = by_arrangement(case("resnet18"))
    assert [resnet18[name].wanted["times_ours"] for name in (MIRRORED, DDP)] == [1.6, 1.6]
    assert misses(resnet18[MIRRORED]) and not misses(resnet18[DDP])


@pytest.mark.parametrize(("unequal_s", "missed"), [(0.6, False), (0.495, False), (0.48, True)])
def test_ours_may_be_slower_than_unequal_batches_by_the_spread_only(unequal_s: float, missed: bool) -> None:
    assert misses(by_arrangement(case(unequal_s=unequal_s))[UNEQUAL_DDP]) == missed


def test_unequal_batches_are_summarised_over_all_networks() -> None:
    rows = rivals.rows(case(unequal_s=0.5)) + rivals.rows(case("volume", unequal_s=0.72))
    assert "ours: 1.20 (at least 1.1) in the geometric mean of 2 cases" in shown(rivals.TABLE, rows)
    both = shown(rivals.TABLE, rows + rivals.rows(case(unequal_s=0.55, limit="compute")))
    assert (
        "At 1.0,0.5: step" in both
        and "At 1.0,0.5:compute: step" in both
        and "ours: 1.10 (at least 1.1) in the geometric mean of 1 case" in both
    )
    assert "ours: **1.00** (at least 1.1)" in shown(rivals.TABLE, rivals.rows(case(unequal_s=0.5)))
    assert "geometric" not in shown(rivals.TABLE, rivals.rows(case(times={key: case()["times"][key] for key in ("alone 0", rivals.AUTO)})))


def test_clusters_tell_what_their_shares_limit() -> None:
    assert {row.texts["cluster"] for row in rivals.rows(case(limit="compute"))} == {"1.0,0.5:compute"}


@pytest.mark.parametrize(
    ("splits", "samples"), [([(5, 3), (5, 3), ()], [5, 3]), ([(5, 3), (4, 4)], []), ([()], [])], ids=["alike", "differently", "filters"]
)
def test_a_plan_has_samples_where_its_layers_split_the_batch_alike(splits: list[tuple[int, ...]], samples: list[int]) -> None:
    stage = types.SimpleNamespace(layouts=[types.SimpleNamespace(samples=split) for split in splits])
    assert rivals.plan_samples(types.SimpleNamespace(stages=[stage])) == samples


def test_the_bench_measures_each_network_that_is_named_and_says_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[rivals.RivalCase] = []
    monkeypatch.setattr(rivals, "run", lambda question: asked.append(question) or case(question.network))
    words = ["--network", "volume", "--network", "unet3d", "--limit", "compute", "--results", "-", "--rounds", "2", "--steps", "1"]
    ended = CliRunner().invoke(rivals.main, words)
    assert ended.exit_code == 0 and "3-D U-Net, batch 64" in ended.output and "`--torch-python`" in ended.output
    assert [(each.network, each.limit, each.pace.rounds, each.pace.steps) for each in asked] == [
        ("volume", "compute", 2, 1),
        ("unet3d", "compute", 2, 1),
    ]


def test_on_one_device_pytorch_is_wanted_to_be_no_faster_than_we_beyond_the_spread() -> None:
    seconds = {one_device.OURS: 0.5, MIRRORED: 0.4, DDP: 0.45}
    times = {name: {"rounds_s": [0.98 * step_s, step_s, 1.02 * step_s]} for name, step_s in seconds.items()}
    rows = {row.texts["arrangement"]: row for row in one_device.rows("unet3d", 0.5, "compute", {"batch": 8, "times": times})}
    assert rows[DDP].numbers["times_ours"] == pytest.approx(0.9) and rows[DDP].wanted["times_ours"] == pytest.approx(0.98)
    assert not rows[MIRRORED].wanted and rows[one_device.OURS].texts["cluster"] == "0.5:compute"
