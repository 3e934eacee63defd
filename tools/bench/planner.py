"""Claim: large clusters are planned in seconds, with a stated gap, and without TensorFlow.

Networks on clusters that do not exist, from generated profiles of unequal devices (`tools.generated.profiles`): ResNet-50 on
8 devices (at most 5 s, gap at most 1 %), a residual net of 200 layers on 64 (at most 60 s), and a chain of 1,000 blocks (convolution,
batch norm, ReLU) on 512 (at most 60 s). Each is planned by `hm.plan`, strategy auto, and by strategy layers alone. CPU s are
those of the process, wall s what passed meanwhile: on a machine that does other work too the first is the claim.

    python -m tools.bench.planner [--case resnet50] [--json planner.json]
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import click

from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.layers import make_layer
from tools.generated.profiles import Figures, generated_profile
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

TABLE = TableForm(
    "planner",
    "Planning for generated clusters with unequal devices",
    (
        Column("network", "network"),
        Column("layers", "layers"),
        Column("devices", "devices"),
        Column("strategy", "strategy"),
        Column("cpu_s", "CPU s", ".1f", "at_most"),
        Column("wall_s", "wall s", ".1f"),
        Column("step_ms", "step ms", ".1f"),
        Column("chosen", "chosen"),
        Column("used", "devices used"),
        Column("status", "status"),
        Column("gap", "gap", ".2%"),
        Column("space", "bound among"),
    ),
    case=("network", "strategy"),
)
SPEEDS = ((1.0, 1.0), (0.7, 0.8), (0.5, 0.6), (0.25, 0.5))  # of computing and of memory: four generations of a device
MIXING = {"activation": "linear", "use_bias": True, "kernel_l2": 0.0, "bias_l2": 0.0}
NORM = {"momentum": 0.99, "epsilon": 1e-3, "center": True, "scale": True, "gamma_l2": 0.0, "beta_l2": 0.0, "axis": -1}


@dataclasses.dataclass(frozen=True)
class PlannerCase:
    """A network on so many devices.

    Parameters
    ----------
    title : for people.
    graph : makes the network.
    devices : how many; their speeds go through `SPEEDS`.
    batch : samples per step.
    limit_s : CPU seconds that planning may take.
    """

    title: str
    graph: Callable[[], LayerGraph]
    devices: int
    batch: int
    limit_s: float


def resnet50() -> LayerGraph:
    """Return ResNet-50 for 224x224 images, as Keras builds it."""
    import keras

    from hetero_mtf.keras_reading.layer_graph import layer_graph

    return layer_graph(keras.applications.ResNet50(weights=None))


class Drawn:
    """A network in the making, without Keras; each method reads the last layer and returns its index."""

    def __init__(self, size: int, channels: int) -> None:
        self.layers: list[Layer] = []
        self.add("InputLayer", (), shape=[size, size, channels])

    def add(self, kind: str, reads: tuple[int, ...] | None = None, **attributes: Any) -> int:
        sources = (len(self.layers) - 1,) if reads is None else reads
        shapes = [self.layers[i].output_shape for i in sources]
        self.layers.append(make_layer(f"layer{len(self.layers)}", kind, attributes, sources, shapes))
        return len(self.layers) - 1

    def block(self, filters: int, strides: int = 1) -> int:
        """Add a convolution, batch norm and ReLU."""
        self.add("Conv2D", filters=filters, kernel_size=[3, 3], strides=[strides, strides], padding="same", **MIXING)
        self.add("BatchNormalization", **NORM)
        return self.add("ReLU", max_value=None, negative_slope=0.0, threshold=0.0)

    def graph(self) -> LayerGraph:
        """Return the network with a head."""
        self.add("GlobalAveragePooling2D", keepdims=False)
        self.add("Dense", units=1000, **MIXING)
        return LayerGraph(tuple(self.layers), "float32")


def residual200() -> LayerGraph:
    """Return a residual net of 200 layers: 28 blocks of two convolutions and an Add, in four widths."""
    net = Drawn(56, 64)
    for width in (64, 128, 256, 512):
        start = net.block(width, strides=1 if width == 64 else 2)
        for _ in range(7 if width < 512 else 6):
            net.block(width)
            net.block(width)
            start = net.add("Add", (start, len(net.layers) - 1))
    return net.graph()


def chain1000() -> LayerGraph:
    """Return a chain of 1,000 blocks: 3,003 layers."""
    net = Drawn(16, 256)
    for _ in range(1000):
        net.block(256)
    return net.graph()


CASES = {
    "resnet50": PlannerCase("ResNet-50", resnet50, 8, 64, 5.0),
    "residual200": PlannerCase("residual net", residual200, 64, 512, 60.0),
    "chain1000": PlannerCase("chain of 1,000 blocks", chain1000, 512, 2048, 60.0),
}


def run(case: PlannerCase, strategy: str) -> dict[str, Any]:
    """Return what planning takes and finds."""
    import hetero_mtf as hm

    figures = [Figures(1e13 * computing, 3e11 * memory) for computing, memory in (SPEEDS[at % 4] for at in range(case.devices))]
    profile = generated_profile(case.graph(), figures, case.batch)
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    plan = hm.plan(profile, strategy=strategy)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    assert plan.predicted is not None and plan.proof is not None
    return {
        "network": case.title,
        "layers": len(profile.graph.layers),
        "devices": case.devices,
        "strategy": strategy,
        "cpu_s": cpu_s,
        "limit_s": case.limit_s,
        "wall_s": wall_s,
        "step_s": plan.predicted.step_s,
        "taken": plan.strategy,
        "used": len(plan.stages[0].devices),
        "alternatives": {other.strategy: other.step_s for other in plan.alternatives},
        "proof": dataclasses.asdict(plan.proof),
    }


def row(case: dict[str, Any]) -> Row:
    """Return the row of a table."""
    same = {key: case[key] for key in ("network", "layers", "devices", "strategy", "cpu_s", "wall_s", "used")}
    proof = {key: case["proof"][key] for key in ("status", "gap", "space")}
    return table_row({**same, **proof, "step_ms": 1e3 * case["step_s"], "chosen": case["taken"]}, {"cpu_s": case["limit_s"]})


@click.command(help=__doc__)
@click.option("--case", "names", multiple=True, type=click.Choice(list(CASES)), help="Network; by default all.")
@output_options()
def main(names: tuple[str, ...], output: Output) -> None:
    """Plan each network by auto and by the layout program, and print what it took."""
    cases = [CASES[name] for name in names or CASES]
    records = [run(case, strategy) for case in cases for strategy in ("layers", "auto")]
    rows = [row(entry) for entry in records]
    output.report(TABLE, rows)
    output.record({"cases": records})


if __name__ == "__main__":
    main()
