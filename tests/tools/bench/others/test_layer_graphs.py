"""Layer graphs of others: their reader, their chains, and the table, on small files of the same format."""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError, PlanError
from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.problem import Allocation
from tools.bench.others.evolved import above_optimum
from tools.bench.others.layer_graph import LayerGraph, chain_document, chain_problem, linearised, read_layer_graph
from tools.bench.others.layer_graphs import files_in, main, published_loads, verdicts
from tools.results.records import ResultSet

NODES = [("a", 0, 2.0), ("b", 1, 3.0), ("c", 2, 1.0), ("d", 3, 4.0), ("e", 4, 2.0)]
EDGES = [(0, 1, 0.5), (1, 2, 0.25), (1, 3, 0.25), (2, 3, 1.0), (3, 4, 0.125)]


def _document(training: bool = False, **head: float) -> dict[str, Any]:
    passes = (0, 1) if training else (0,)
    nodes = [
        {
            "name": name,
            "id": 10 * back + at,
            "supportedOnFpga": 1,
            "fpgaLatency": latency * (1 + back),
            "cpuLatency": 10 * latency * (1 + back),
            "isBackwardNode": back,
            "colorClass": at + 1,
            "size": 4.0,
        }
        for back in passes
        for name, at, latency in NODES
    ]
    edges = [{"sourceId": 10 * back + a, "destId": 10 * back + b, "cost": cost, "size": 1.0} for back in passes for a, b, cost in EDGES]
    return {"maxSizePerFPGA": 100.0, "maxFPGAs": 2, "maxCPUs": 1, **head, "nodes": nodes, "edges": edges}


def _graph(folder: pathlib.Path, document: Any, name: str = "small.json") -> LayerGraph:
    (folder / name).write_text(json.dumps(document))
    return read_layer_graph(folder / name)


def _published_load(graph: LayerGraph) -> float:
    """Return the least largest load over the prefixes of a graph whose nodes are in order, as the published program counts it."""
    colours = sorted({node.colour or 0 for node in graph.nodes})
    place = [colours.index(node.colour or 0) for node in graph.nodes]
    blocks, devices, best = len(colours), graph.accelerators + graph.processors, float("inf")

    def load(first: int, end: int, fast: bool) -> float:
        inside = [first <= at < end for at in place]
        spent = sum(n.accelerator_ms if fast else n.processor_ms for n, here in zip(graph.nodes, inside) if here)
        if fast and sum(n.size_bytes for n, here in zip(graph.nodes, inside) if here) > graph.accelerator_bytes:
            return float("inf")
        return spent + fast * sum(graph.nodes[a].cost_ms for a in {a for a, b in graph.edges if inside[a] != inside[b]})

    for pieces in range(1, devices + 1):
        for borders in itertools.combinations(range(1, blocks), pieces - 1):
            runs = list(zip((0, *borders), (*borders, blocks)))
            for fast in itertools.product((True, False), repeat=pieces):
                if sum(fast) <= graph.accelerators and pieces - sum(fast) <= graph.processors:
                    best = min(best, max(load(*run, each) for run, each in zip(runs, fast)))
    return best


@pytest.mark.fast("head0-True", "head3-False", "head3-True", "head4-False", "head4-True")
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "head", [{}, {"maxFPGAs": 4}, {"maxSizePerFPGA": 13.0, "maxFPGAs": 3}, {"maxFPGAs": 1, "maxCPUs": 2}, {"maxFPGAs": 0}]
)
def test_the_chain_has_the_load_that_the_published_program_gives_it(tmp_path: pathlib.Path, training: bool, head: dict[str, float]) -> None:
    chain = linearised(_graph(tmp_path, _document(training, **head)))
    again = _graph(tmp_path, chain_document(chain), "chain.json")
    expected = _published_load(again)
    assert exact_allocation(chain_problem(chain)).value == pytest.approx(expected, rel=1e-12)
    assert exact_allocation(chain_problem(linearised(again))).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("training", [False, True])
def test_transfers_count_for_accelerators_and_not_for_processors(tmp_path: pathlib.Path, training: bool) -> None:
    chain = linearised(_graph(tmp_path, _document(training)))
    problem, factor, twice = chain_problem(chain), 3 if training else 1, 2 if training else 1
    assert problem.sent_bytes.tolist() == [twice * cost for cost in (0.5, 0.25, 1.25, 0.125)]
    loads = problem.loads_s(Allocation((0, 1, 3), (0, 2, 1)))
    assert loads.tolist() == [factor * 2.0 + twice * 0.5, factor * 40.0, factor * 6.0 + twice * 1.25]


def test_colour_classes_are_blocks_and_nodes_without_one_are_alone(tmp_path: pathlib.Path) -> None:
    document = _document()
    document["nodes"][2]["colorClass"] = 2
    for node in document["nodes"][3:]:
        del node["colorClass"], node["size"]
    chain = linearised(_graph(tmp_path, document))
    assert chain.forward[:, 0].tolist() == [2.0, 4.0, 4.0, 2.0] and chain.size_bytes.tolist() == [4.0, 8.0, 0.0, 0.0]
    assert chain.forward_cost_ms.tolist() == [0.5, 1.25, 0.125]


def _spoilt(**change: Any) -> dict[str, Any]:
    document = _document()
    place = document["edges" if "cost" in change or "destId" in change else "nodes"][2]
    place.update(change)
    return document


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ([], r"small.json is not an object with lists of nodes and edges; fetch"),
        ({"nodes": [], "edges": []}, "the file of small.json lacks maxSizePerFPGA, maxFPGAs, maxCPUs; fetch"),
        ({**_document(), "nodes": [1]}, "node 0 of small.json is 1 and not an object; fetch"),
        ({**_document(), "nodes": []}, "0 nodes with 0 different ids; give"),
        (_spoilt(id=1), "5 nodes with 4 different ids; give each node"),
        (_spoilt(supportedOnFpga=0), "no accelerator supports; set supportedOnFpga"),
        (_spoilt(fpgaLatency=-1.0), "fpgaLatency of node 2 of small.json is -1.0; give a number"),
        (_spoilt(cpuLatency="fast"), "cpuLatency of node 2 of small.json is 'fast'; give a number"),
        (_spoilt(colorClass=None), "colorClass of node 2 of small.json is None; give a number"),
        (_spoilt(isBackwardNode=1), "1 colour classes of backward nodes only; give each a forward node"),
        (_spoilt(cost=0.5), "edges out of node 1 of small.json cost 0.25 and 0.5; give them the same cost"),
        (_spoilt(destId=77), "an edge with destId 77, which no node has; remove"),
        (_spoilt(sourceId=1, destId=0), "form a cycle"),
        (_document(maxFPGAs=0, maxCPUs=0), "0 accelerators and 0 processors; give at least one device"),
    ],
)
def test_a_malformed_graph_is_refused_in_one_sentence(tmp_path: pathlib.Path, document: Any, fault: str) -> None:
    with pytest.raises(DataError, match=fault) as refused:
        linearised(_graph(tmp_path, document))
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_text_that_is_no_json_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match="none.json cannot be read as JSON.*; fetch"):
        read_layer_graph(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("{")
    with pytest.raises(DataError, match="text.json cannot be read as JSON.*; fetch"):
        read_layer_graph(tmp_path / "text.json")


@pytest.mark.slow
def test_the_table_counts_what_is_equal_to_the_published_loads(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "throughput-inputs" / "LayerGraphs"
    folder.mkdir(parents=True)
    for name, training in (("one.json", False), ("two.json", True)):
        _graph(folder, _document(training), name)
    load = exact_allocation(chain_problem(linearised(read_layer_graph(folder / "one.json")))).value
    published = tmp_path / "answers.json"
    published.write_text(json.dumps({"note": "by hand", "loads": {"one.json": {"chain_ms": load, "graph_ms": 0.5 * load}}}))
    command = ["--folder", str(tmp_path), "--published", str(published), "--write", str(tmp_path / "chains"), "--seeds", "1"]
    ended = CliRunner().invoke(main, [*command, "--results", str(tmp_path / "results"), "--json", str(tmp_path / "all.json")])
    assert ended.exit_code == 0, ended.output
    assert "for the chains to 1e-06 on 1 of 1 (at least 5 of 8)." in ended.output and "one +100.00%" in ended.output
    table = ResultSet.load(tmp_path / "results" / "others_layer_graphs.json")
    assert [row.texts["file"] for row in table.rows] == ["one", "two"] and "chain_ms" not in table.rows[1].numbers
    assert table.rows[0].numbers["chain_off"] == 0.0 and table.rows[0].numbers["genetic"] <= 0.01
    assert "by hand" in table.notes[-1].text
    assert sorted(path.name for path in (tmp_path / "chains").iterdir()) == ["one.json", "two.json"]


def test_a_graph_that_fits_nowhere_and_a_folder_without_graphs_are_errors_of_one_sentence(tmp_path: pathlib.Path) -> None:
    empty = CliRunner().invoke(main, ["--folder", str(tmp_path), "--results", "-"])
    assert empty.exit_code == 1 and "has no layer graphs; fetch them with git clone" in empty.output
    _graph(tmp_path, _document(maxSizePerFPGA=1.0, maxCPUs=0))
    unfit = CliRunner().invoke(main, ["--folder", str(tmp_path), "--results", "-"])
    assert unfit.exit_code == 1 and "no allocation of small.json fits into memory; raise" in unfit.output
    with pytest.raises(DataError, match="no layer graphs"):
        files_in(tmp_path / "none")


@pytest.mark.parametrize("text", ["{", "[]", '{"loads": {}}', '{"note": "", "loads": {"a.json": {"chain_ms": "x"}}}'])
def test_published_loads_of_another_form_are_refused(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "answers.json").write_text(text)
    with pytest.raises(DataError, match="answers.json has no published loads .*; write it as"):
        published_loads(tmp_path / "answers.json")


def test_the_loads_beside_the_bench_are_of_eight_files() -> None:
    loads, note = published_loads(pathlib.Path("tools/bench/others/published_loads.json").resolve())
    assert len(loads) == 8 and all("chain_ms" in cases for cases in loads.values()) and "dp.cpp" in note


def test_verdicts_name_the_files_that_differ() -> None:
    records = [{"file": "a", "exact_ms": 2.0, "chain_ms": 2.0 + 1e-9, "own_order_ms": 1.0, "genetic": 0.02, "reached": 0}]
    said = verdicts([*records, {"file": "b", "exact_ms": 1.0, "genetic": None, "reached": 0}], 3)
    assert "on 1 of 1" in said[0] and said[1].endswith("on 0 of 1; the others: a +100.00%.") and "on 0 of 2" in said[2]


def test_no_seeds_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PlanError, match="0 seeds are no run of the genetic allocator; ask for at least 1"):
        above_optimum(chain_problem(linearised(_graph(tmp_path, _document()))), 1.0, 0)
