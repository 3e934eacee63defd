"""Which networks are measured where, that all stay in the table, and that a run says what it is."""

from __future__ import annotations

import functools
import json
import pathlib
from typing import Any

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError
from tests.tools.bench.unseen_cases import unseen_case
from tools.bench import unseen
from tools.bench.comparison.commit_seeds import seed_of
from tools.bench.comparison.networks import convolutions
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.comparison.unseen_rows import row
from tools.bench.unseen import CLUSTERS, FIXED, UnseenNetwork, UnseenPace, attempted, cases, limited, main, networks_of, unfinished
from tools.results.records import ResultSet

COMMIT = "1" * 40


@pytest.fixture(autouse=True)
def _commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "last_commit", lambda root: COMMIT)


def _measured(network: UnseenNetwork, cluster: str, **_: Any) -> dict[str, Any]:
    return {key: value for key, value in unseen_case().items() if key not in ("network", "seed", "batch", "cluster")}


def test_the_networks_follow_from_the_commit_in_order_and_fixed_ones_join_them() -> None:
    networks, origin = networks_of(None, 3, True)
    assert [network.seed for network in networks] == [*(f"{seed_of(COMMIT, number):08x}" for number in (1, 2, 3)), "fixed", "fixed"]
    assert COMMIT in origin and [network.batch for network in networks[-2:]] == [32, 32]
    assert [network.title for network in networks_of(None, 2, False)[0]] == [network.title for network in networks[:2]]


def test_all_drawn_networks_are_measured_on_the_first_cluster_and_the_first_five_on_the_others() -> None:
    networks = networks_of(None, 7, True)[0]
    numbers = {cluster: [network.seed for network, where in cases(networks, CLUSTERS) if where == cluster] for cluster in CLUSTERS}
    seeds = [network.seed for network in networks]
    assert numbers == {"1.0,0.5": seeds, "0.8,0.4,0.4": [*seeds[:5], *seeds[7:]], "1.0,0.33": [*seeds[:5], *seeds[7:]]}
    assert len(seeds) == 7 + len(FIXED)


def test_clusters_whose_threads_are_limited_have_names_of_their_own() -> None:
    assert limited({"1.0,0.5": None}, "process") == {"1.0,0.5": None} and list(limited(CLUSTERS, "compute"))[0] == "1.0,0.5:compute"


def test_a_network_that_fails_stays_with_its_reason() -> None:
    def fail(network: UnseenNetwork, cluster: str) -> dict[str, Any]:
        raise RuntimeError("no memory\nat line 7")

    case = attempted(networks_of("101", 0, False)[0][0], "1.0,0.5", fail)
    assert case["failure"] == "RuntimeError: no memory" and case["seed"] == "101"


@pytest.mark.fast("options1-False-12")
@pytest.mark.parametrize(
    "options, published, rows", [([], True, 20 + 2 * 5 + 3 * 2), (["--seeds", "7,8"], False, 3 * 4), (["--networks", "3"], False, 3 * 5)]
)
def test_the_results_say_whether_the_run_is_published(
    options: list[str], published: bool, rows: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen, "run", _measured)
    ended = CliRunner().invoke(main, [*options, "--results", str(tmp_path)], catch_exceptions=False)
    table = ResultSet.load(tmp_path / "unseen.json")
    assert ended.exit_code == 0 and table.notes[0].text.startswith("Published run." if published else "Not a published run.")
    assert (COMMIT in table.notes[0].text) is ("--seeds" not in options)
    assert len(table.rows) == rows


def test_a_run_replaces_the_rows_of_an_earlier_one_and_resumes_where_it_was_broken_off(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen, "run", _measured)
    figures, options = tmp_path / "unseen-all.json", ["--no-fixed", "--shares", "1.0,0.5", "--results", str(tmp_path)]
    CliRunner().invoke(main, ["--seeds", "7,8", *options, "--json", str(figures)], catch_exceptions=False)
    measured = []
    monkeypatch.setattr(unseen, "run", lambda network, cluster, pace: measured.append(network.seed) or _measured(network, cluster))
    CliRunner().invoke(main, ["--seeds", "8,9", *options, "--json", str(figures), "--resume"], catch_exceptions=False)
    assert measured == ["9"]
    assert [case["seed"] for case in json.loads(figures.read_text())["cases"]] == ["8", "9"]
    assert [row.texts["seed"] for row in ResultSet.load(tmp_path / "unseen.json").rows] == ["8", "9"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibration_budget.CalibrationWarning")
def test_every_device_equal_batches_and_both_plans_are_measured_side_by_side() -> None:
    small = UnseenNetwork("two convolutions", "1", 8, lambda: convolutions((6, 6, 4), (8, 8), 3))
    case = attempted(small, "0.5,0.4", functools.partial(unseen.run, pace=UnseenPace(2, 1.0, 2.0)))
    assert "failure" not in case and list(case["rounds_s"]) == ["alone 0", "alone 1", "equal", "before", "after"]
    assert case["refinement_s"] > 0 and case["calibration_s"] > 0 and case["runs"] and {"single", "equal"} <= set(case["ceilings"])
    assert all(len(each) == 2 for each in case["rounds_s"].values())
    assert len(row(case).lists["corrected_errors"]) == len(case["runs"]) and "efficiency_after" in row(case)


def test_without_the_time_for_it_nothing_is_refined() -> None:
    assert unseen.refined(TrainingTask(None, 8), None, None, None, 0.0) is None


def test_without_a_commit_the_bench_refuses_and_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(root: pathlib.Path) -> str:
        raise DataError("hetero_mtf has changes; commit them, or name seeds by --seeds")

    monkeypatch.setattr(unseen, "last_commit", refuse)
    ended = CliRunner().invoke(main, ["--results", "-"])
    assert ended.exit_code == 1 and "or name seeds by --seeds" in ended.output


def test_a_run_that_was_ended_says_so() -> None:
    assert unfinished(36, 36) == [] and "after 3 of 36 cases" in unfinished(3, 36)[0]
