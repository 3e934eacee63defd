"""The networks that `regret` draws from, as LayerGraphs in files, so that it needs neither Keras nor TensorFlow.

    python -m tools.bench.start.start_networks

writes them again; a test compares them with the models.
"""

from __future__ import annotations

import functools
import json
import pathlib
from typing import NamedTuple

from hetero_mtf.graph.records import LayerGraph
from tools.bench.start.start_tasks import task_of
from tools.bench.start.start_trace import FOLDER as TRACES
from tools.bench.start.start_trace import load_all

FOLDER = pathlib.Path(__file__).parent / "networks"


class StartNetwork(NamedTuple):
    """A network.

    Parameters
    ----------
    name : as `task_of` takes it.
    batch : samples a step.
    graph : its layers.
    """

    name: str
    batch: int
    graph: LayerGraph


def read_networks() -> dict[str, StartNetwork]:
    """Return the networks that are compared with other libraries and those of the recordings that are kept, by name."""
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from tools.bench.baselines.tasks import COMPARED

    recorded = sorted({trace.network for trace in load_all(TRACES)}.difference(COMPARED))
    tasks = {name: task_of(name) for name in (*COMPARED, *recorded)}
    return {name: StartNetwork(name, task.batch, layer_graph(task.model)) for name, task in tasks.items()}


@functools.cache
def start_networks() -> dict[str, StartNetwork]:
    """Return the networks in the files, by name."""
    documents = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
    return {name: StartNetwork(name, each["batch"], LayerGraph.from_json(each["graph"])) for name, each in documents.items()}


def main() -> None:
    """Write the files."""
    FOLDER.mkdir(exist_ok=True)
    for network in read_networks().values():
        layers = network.graph.to_json()
        head = {key: value for key, value in layers.items() if key != "layers"}
        rows = ",\n  ".join(json.dumps(layer, separators=(",", ":")) for layer in layers["layers"])
        text = json.dumps({"batch": network.batch, "graph": head})[:-2]
        (FOLDER / f"{network.name}.json").write_text(f'{text}, "layers": [\n  {rows}]}}}}\n')


if __name__ == "__main__":
    main()
