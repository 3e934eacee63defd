"""Profiles of others: their reader and their table, on small files of the same format."""

from __future__ import annotations

import pathlib

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError
from hetero_mtf.planning.allocation.problem import Allocation
from tools.bench.others.profile_graph import ProfileChain, profile_problem, read_profile
from tools.bench.others.profiles import files_in, main
from tools.results.records import ResultSet


def _line(name: str, operation: str, forward: float, sent: float, more: str = "") -> str:
    figures = f"forward_compute_time={forward:.3f}, backward_compute_time={2 * forward:.3f}, activation_size={sent:.3f}"
    return f"{name} -- {operation} -- {figures}, parameter_size=8.000{more}"


LINES = (
    _line("node4", "Add", 0.0, 32e6),
    _line("node1", "Input0", 0.0, 64e6),
    _line("node2", "Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))", 1.0, 16e6),
    _line("node3", "ReLU(inplace)", 0.5, 8e6, " -- stage_id=0"),
    _line("node5", "Linear(in_features=8, out_features=10, bias=True)", 2.0, 4e3),
)
EDGES = ("\tnode1 -- node2", "\tnode2 -- node3", "\tnode2 -- node4", "\tnode3 -- node4", "\tnode4 -- node5")


def _profile(folder: pathlib.Path, lines: tuple[str, ...], name: str = "small") -> ProfileChain:
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "graph.txt").write_text("\n".join(lines))
    return read_profile(folder / name / "graph.txt")


def test_a_profile_is_a_chain_without_its_input(tmp_path: pathlib.Path) -> None:
    chain = _profile(tmp_path, (*LINES, *EDGES))
    assert chain.name == "small"
    assert chain.compute_ms.tolist() == [3.0, 1.5, 0.0, 6.0]
    assert chain.sent_bytes.tolist() == [16e6, 24e6, 32e6]


def test_devices_are_slower_by_their_speed_and_transfers_count_forth_and_back(tmp_path: pathlib.Path) -> None:
    problem = profile_problem(_profile(tmp_path, (*LINES, *EDGES)), (1.0, 0.5), 32e9)
    assert problem.loads_s(Allocation((0, 1), (1, 0))).tolist() == pytest.approx([7e-3, 8.5e-3])


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ((*LINES, "node9 -- Conv"), "line 6 of small/graph.txt is not 'NODE -- OPERATION -- FIGURES'; fetch"),
        ((*LINES, "node9 -- Conv -- forward_compute_time=1.0"), "line 6 of small/graph.txt lacks backward_compute_time, activation_size"),
        ((*LINES, _line("node9", "Conv", 1.0, 1.0).replace("8.000", "many")), "line 6 .* has a figure that is no number.*; fetch"),
        ((*LINES, _line("node9", "Conv", -1.0, 1.0)), "has forward_compute_time=-1, backward_compute_time=-2; give finite"),
        ((*LINES, LINES[0]), "line 6 of small/graph.txt describes node4 again; fetch"),
        ((*LINES, "\tnode1"), "line 6 of small/graph.txt is not an edge 'NODE -- NODE'; fetch"),
        ((*LINES, "\tnode1 -- node7"), "the edges of small/graph.txt name node7, which no line describes; fetch"),
        ((LINES[1],), "has no operation but inputs; fetch"),
        ((*LINES, *EDGES, "\tnode5 -- node2"), "the edges of small/graph.txt form a cycle"),
        ((), "has no operation but inputs; fetch"),
    ],
)
def test_a_malformed_profile_is_refused_in_one_sentence(tmp_path: pathlib.Path, lines: tuple[str, ...], fault: str) -> None:
    with pytest.raises(DataError, match=fault) as refused:
        _profile(tmp_path, lines)
    assert "\n" not in str(refused.value)


def test_a_missing_profile_and_one_that_is_no_text_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match=r"none/graph.txt cannot be read.*; fetch"):
        read_profile(tmp_path / "none" / "graph.txt")
    (tmp_path / "graph.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"graph.txt cannot be read.*; fetch"):
        read_profile(tmp_path / "graph.txt")


@pytest.mark.slow
def test_the_table_has_both_objectives_of_each_network(tmp_path: pathlib.Path) -> None:
    for name in ("one", "two"):
        _profile(tmp_path / "profiler" / "image_classification" / "profiles", (*LINES, *EDGES), name)
    ended = CliRunner().invoke(main, ["--folder", str(tmp_path), "--seeds", "1", "--results", str(tmp_path / "results")])
    assert ended.exit_code == 0, ended.output
    table = ResultSet.load(tmp_path / "results" / "others_profiles.json")
    assert [(row.texts["network"], row.texts["objective"].split(",")[0]) for row in table.rows] == [
        ("one", "largest load"),
        ("two", "largest load"),
        ("one", "J"),
        ("two", "J"),
    ]
    for row in table.rows:
        assert row.numbers["bound_ms"] <= row.numbers["exact_ms"] and 0 <= row.numbers["genetic"] <= row.numbers["genetic_gap"] + 1e-12
    assert "Largest load: within 1 % of the optimum for all of 1 seeds on 2 of 2 networks" in ended.output


def test_a_folder_without_profiles_is_an_error_of_one_sentence(tmp_path: pathlib.Path) -> None:
    ended = CliRunner().invoke(main, ["--folder", str(tmp_path), "--results", "-"])
    assert ended.exit_code == 1 and "has no profiles NETWORK/graph.txt; fetch them with git clone" in ended.output
    with pytest.raises(DataError, match="no profiles"):
        files_in(tmp_path / "none")
