"""The layer graphs of Tarnawski et al., read from their JSON, linearised, and written as chains in the same format.

    {"maxSizePerFPGA": bytes, "maxFPGAs": accelerators, "maxCPUs": processors,
     "nodes": [{"id", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode", "colorClass" (optional), "size" (optional)}],
     "edges": [{"sourceId", "destId", "cost"}]}

Nodes of one colour class are on one device; the cost of an edge is the time of a transfer between an accelerator and the host's memory,
the same for all edges of a source. The load of an accelerator is its nodes' latency plus the cost of each node that sends to it or from it,
once each; the load of a processor is the latency alone.

Reference: Tarnawski, Phanishayee, Devanur, Mahajan, Paravecino, "Efficient Algorithms for Device Placement of DNN Graph Operators",
NeurIPS 2020, with the files at github.com/msr-fiddle/dnn-partitioning.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from typing import Any

import numpy as np

from hetero_mtf.errors import DataError
from hetero_mtf.planning.allocation.problem import ChainProblem
from tools.bench.others.linear import boundary_sums, depth_first_order
from tools.bench.others.published_json import published_json

_REMEDY = "fetch the file again from throughput-inputs/LayerGraphs of github.com/msr-fiddle/dnn-partitioning"
_NODE = ("id", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode")
_EDGE = ("sourceId", "destId", "cost")
_SAME = 1e-6  # of the costs of one source


@dataclasses.dataclass(frozen=True)
class Node:
    """A layer's forward or backward pass.

    Parameters
    ----------
    accelerator_ms, processor_ms : its time on either kind of device.
    size_bytes : memory on an accelerator.
    backward : whether it is a backward pass.
    colour : its colour class; None where it has none.
    cost_ms : time of sending its output, 0 where nothing reads it.
    """

    accelerator_ms: float
    processor_ms: float
    size_bytes: float
    backward: bool
    colour: int | None
    cost_ms: float


@dataclasses.dataclass(frozen=True)
class LayerGraph:
    """A graph of layers and the devices it is for.

    Parameters
    ----------
    name : of the file.
    accelerators, processors : how many devices.
    accelerator_bytes : memory of an accelerator.
    nodes : (nodes,) in the order of the file.
    edges : (edges,) source and destination of each, as indices of nodes.
    """

    name: str
    accelerators: int
    processors: int
    accelerator_bytes: float
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class LinearGraph:
    """A layer graph as a chain of blocks, one for each colour class.

    Parameters
    ----------
    graph : what was linearised.
    forward, backward : (blocks, 2) array of float, times on an accelerator and on a processor, ms, of the forward and the backward nodes.
    size_bytes : (blocks,) array of float.
    forward_cost_ms, backward_cost_ms : (blocks - 1,) array of float, cost of all forward and of all backward nodes read across a boundary.
    """

    graph: LayerGraph
    forward: np.ndarray
    backward: np.ndarray
    size_bytes: np.ndarray
    forward_cost_ms: np.ndarray
    backward_cost_ms: np.ndarray

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.size_bytes)


def read_layer_graph(path: str | os.PathLike[str]) -> LayerGraph:
    """Return the layer graph of a file.

    Raises
    ------
    DataError
        If it is missing, is not JSON, or is not of this format.
    """
    name = pathlib.Path(path).name
    document = published_json(pathlib.Path(path), _REMEDY)
    if not isinstance(document, dict) or not all(isinstance(document.get(key), list) for key in ("nodes", "edges")):
        raise DataError(f"{name} is not an object with lists of nodes and edges", _REMEDY)
    nodes = [_numbers(entry, _NODE, name, f"node {at}") for at, entry in enumerate(document["nodes"])]
    edges = [_numbers(entry, _EDGE, name, f"edge {at}") for at, entry in enumerate(document["edges"])]
    head = _numbers(document, ("maxSizePerFPGA", "maxFPGAs", "maxCPUs"), name, "the file")
    places = {int(node["id"]): at for at, node in enumerate(nodes)}
    if not nodes or len(places) < len(nodes):
        raise DataError(f"{name} has {len(nodes)} nodes with {len(places)} different ids", "give each node an id of its own")
    if not all(node["supportedOnFpga"] for node in nodes):
        raise DataError(f"{name} has nodes that no accelerator supports", "set supportedOnFpga, as in all layer graphs of the authors")
    if head["maxFPGAs"] < 0 or head["maxCPUs"] < 0 or head["maxFPGAs"] + head["maxCPUs"] < 1:
        raise DataError(f"{name} has {head['maxFPGAs']:g} accelerators and {head['maxCPUs']:g} processors", "give at least one device")
    costs = _costs(edges, places, name)
    records = tuple(_node(node, costs.get(int(node["id"]), 0.0)) for node in nodes)
    pairs = tuple((places[int(edge["sourceId"])], places[int(edge["destId"])]) for edge in edges)
    return LayerGraph(name, int(head["maxFPGAs"]), int(head["maxCPUs"]), float(head["maxSizePerFPGA"]), records, pairs)


def linearised(graph: LayerGraph) -> LinearGraph:
    """Return a layer graph as a chain: colour classes in a depth-first topological order of the edges between forward nodes.

    Raises
    ------
    DataError
        If there is no such order, or a colour class has backward nodes only, which no forward edge places.
    """
    colours: dict[object, int] = {}
    block = [colours.setdefault(("node", at) if node.colour is None else node.colour, len(colours)) for at, node in enumerate(graph.nodes)]
    backward = [node.backward for node in graph.nodes]
    alone = len(colours) - len({colour for colour, late in zip(block, backward) if not late})
    if alone:
        raise DataError(
            f"{graph.name} has {alone} colour classes of backward nodes only", "give each a forward node of the same colour class"
        )
    pairs = {(block[a], block[b]) for a, b in graph.edges if not backward[a] and not backward[b]}
    order = depth_first_order(len(colours), {(a, b) for a, b in pairs if a != b}, graph.name)
    place = np.argsort(order)[block]
    latencies, sizes = np.zeros((2, len(order), 2)), np.zeros(len(order))
    for at, node in zip(place, graph.nodes):
        latencies[int(node.backward), at] += node.accelerator_ms, node.processor_ms
        sizes[at] += node.size_bytes
    costs = [[node.cost_ms if node.backward == wanted else 0.0 for node in graph.nodes] for wanted in (False, True)]
    sums = [boundary_sums(place.tolist(), graph.edges, amounts, len(order)) for amounts in costs]
    return LinearGraph(graph, latencies[0], latencies[1], sizes, *sums)


def chain_problem(chain: LinearGraph) -> ChainProblem:
    """Return the chain as an allocation problem: the largest load is least, communication counts as load of accelerators only.

    Times are those of the file, in milliseconds where `ChainProblem` has seconds.
    """
    graph = chain.graph
    devices = graph.accelerators + graph.processors
    fast = np.arange(devices) < graph.accelerators
    seconds = np.where(fast[:, None], *(chain.forward + chain.backward).T)
    # transfers are counted forth and back: half of the cost each
    per_byte = np.where(np.eye(devices, dtype=bool), 0.0, 0.5)
    memory = np.where(fast, graph.accelerator_bytes, math.inf)
    groups, zeros = tuple((d,) for d in range(devices)), np.zeros(chain.blocks)
    costs = chain.forward_cost_ms + chain.backward_cost_ms
    counted = tuple(bool(f) for f in fast)
    problem = ChainProblem(seconds, groups, costs, 0 * per_byte, per_byte, chain.size_bytes, zeros, memory, microbatches=1)
    return dataclasses.replace(problem, objective="largest_load", communication_load=counted)


def chain_document(chain: LinearGraph) -> dict[str, Any]:
    """Return the chain in the format of the layer graphs, for the published program.

    Block i is forward node i + 1 and, where the graph has backward nodes, backward node blocks + i + 1 of the same colour class.
    """
    graph, blocks = chain.graph, chain.blocks
    passes = [(False, chain.forward, 0)] + [(True, chain.backward, blocks)] * any(node.backward for node in graph.nodes)
    nodes = [
        {
            "id": first + at + 1,
            "supportedOnFpga": 1,
            "cpuLatency": float(times[at, 1]),
            "fpgaLatency": float(times[at, 0]),
            "isBackwardNode": int(backward),
            "colorClass": at + 1,
            "size": 0.0 if backward else float(chain.size_bytes[at]),
        }
        for backward, times, first in passes
        for at in range(blocks)
    ]
    edges = [{"sourceId": at + 1, "destId": at + 2, "cost": float(cost)} for at, cost in enumerate(chain.forward_cost_ms)]
    if len(passes) > 1:
        edges += [
            {"sourceId": blocks + at + 2, "destId": blocks + at + 1, "cost": float(cost)} for at, cost in enumerate(chain.backward_cost_ms)
        ]
    head = {"maxSizePerFPGA": graph.accelerator_bytes, "maxFPGAs": graph.accelerators, "maxCPUs": graph.processors}
    return {**head, "nodes": nodes, "edges": edges}


def _node(entry: dict[str, float], cost_ms: float) -> Node:
    colour = int(entry["colorClass"]) if "colorClass" in entry else None
    return Node(entry["fpgaLatency"], entry["cpuLatency"], entry.get("size", 0.0), bool(entry["isBackwardNode"]), colour, cost_ms)


def _numbers(entry: Any, keys: tuple[str, ...], name: str, place: str) -> dict[str, float]:
    """Return the numbers of an entry: those of some keys, which must be there, and "colorClass" and "size" where they are there."""
    if not isinstance(entry, dict):
        raise DataError(f"{place} of {name} is {entry!r} and not an object", _REMEDY)
    missing = [key for key in keys if key not in entry]
    if missing:
        raise DataError(f"{place} of {name} lacks {', '.join(missing)}", _REMEDY)
    numbers = {key: entry[key] for key in (*keys, "colorClass", "size") if key in entry}
    for key, number in numbers.items():
        if not isinstance(number, (bool, int, float)) or not math.isfinite(number) or number < 0:
            raise DataError(f"{key} of {place} of {name} is {number!r}", "give a number of at least 0")
    return {key: float(number) for key, number in numbers.items()}


def _costs(edges: list[dict[str, float]], places: dict[int, int], name: str) -> dict[int, float]:
    """Return the cost of each node that has an edge out of it."""
    costs: dict[int, float] = {}
    for edge in edges:
        for key in ("sourceId", "destId"):
            if int(edge[key]) not in places:
                raise DataError(f"{name} has an edge with {key} {edge[key]:g}, which no node has", "remove the edge or add the node")
        source = int(edge["sourceId"])
        if abs(costs.setdefault(source, edge["cost"]) - edge["cost"]) > _SAME:
            raise DataError(f"edges out of node {source} of {name} cost {costs[source]:g} and {edge['cost']:g}", "give them the same cost")
    return costs
