"""Papers B and C: what their tables conclude from figures that are given here."""

from __future__ import annotations

from typing import Any

import pytest

import hetero_mtf as hm
from tests.planning.networks import cluster_of, pair_net
from tools.bench.baselines.equal_batches import DDP, MIRRORED
from tools.papers import genetic_pipeline as paper_b
from tools.papers import layerwise as paper_c

POINTS: dict[str, Any] = {"points": [{"devices": 2, "rounds_s": {"alone 0": [2.0], "auto": [1.25]}}]}


def test_the_faster_genetic_pipeline_is_compared_with_the_others_in_the_mean() -> None:
    seconds = {"alone 0": 1.5, "alone 2": 3.0, paper_b.GENETIC: 0.8, paper_b.GROUPED: 1.0, paper_b.AUTO: 0.6}
    seconds |= {paper_b.HALVES: 1.0, MIRRORED: 1.2, DDP: 0.8}
    case = {"batch": 8, "automatic": "batch", "times": {name: {"rounds_s": [step_s]} for name, step_s in seconds.items()}}
    cohort = {"subjects": 40, "epochs": 2, "seeds": 1, "auc": {"pipeline": [0.8], "single": [0.9]}}
    training, speed, accuracy = paper_b.claims(case, POINTS, cohort, "quick")
    mean = (1.0 / 0.8 + 1.2 / 0.8 + 1.0) / 3 - 1
    assert f"{1 + mean:.2f} x as fast in the mean" in training.texts["measured"] and "fastest is auto" in training.texts["measured"]
    assert "2 devices 1.60 (auto)" in speed.texts["measured"]
    assert "pipeline 0.800, single 0.900" in accuracy.texts["measured"]


def test_a_plan_is_described_by_its_stages() -> None:
    single = hm.Plan.single(pair_net(), 0, cluster_of(2), 8)
    piped = hm.Plan.pipeline(pair_net(), ["first", "second"], [[0], [1]], [[1], [1]], cluster_of(2), 8, microbatches=4)
    assert paper_b.described(single) == "single"
    assert paper_b.described(piped).endswith("on 1; 4 microbatches")


@pytest.mark.parametrize("brief, count", [(True, 2), (False, 6)])
def test_every_allocator_takes_part(brief: bool, count: int) -> None:
    assert len(paper_b.options(4, brief)) == count
    assert {option.allocator for option in paper_b.options(4).values()} == {"genetic", "exact", "equal", "proportional"}


def test_paper_c_gives_step_bytes_and_memory_of_each_arrangement() -> None:
    entry = {"rounds_s": [0.25], "sent_bytes": 2e6, "peak_bytes": [3e6, 7e6]}
    case = {"batch": 8, "times": {"alone 0": entry, "layers": entry}}
    scored = {"scores": {"one device": [{"accuracy": 0.75}]}}
    partition, _ = paper_c.claims({"net": case}, POINTS, "full")
    accuracy = paper_c.accuracy_claim(scored, 400, "full")
    assert partition.texts["measured"].endswith("layers 250 ms, 2.0 MB, 7 MB")
    assert "400 steps, seeds 1: mean test accuracy 75.0% (one device)" in accuracy.texts["measured"]
