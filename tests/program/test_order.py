"""Every device takes its tasks in the order of the schedule: read off the TensorFlow graph's control dependencies, and off a trace."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.mesh.task_order import TASK_END
from hetero_mtf.planning.schedule.clock_table import clock_table
from hetero_mtf.planning.schedule.pipeline_costs import PipelineCosts
from hetero_mtf.planning.schedule.simulator import simulate
from hetero_mtf.program.context import PlacedStage
from hetero_mtf.program.order import recomputed_passes, task_order
from hetero_mtf.program.passes import task_name
from hetero_mtf.runtime import step_trace
from tests.program import small_nets as nets
from tests.program.pipelines import Pipe, steps_for
from tests.program.test_program import _accesses, _unordered

KERNELS = {"Conv2D", "MatMul", "Conv2DBackpropInput", "Conv2DBackpropFilter", "BiasAddGrad", "ReluGrad", "TanhGrad"}
TASK = re.compile(r"^train_8/(stage\d+_(?:forward|backward)\d+)/")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    keras.config.set_floatx("float64")  # whose operations keep their names, where those of float32 may be fused
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def _graph(pipe: Pipe, cluster: Any, depths: tuple[int, ...] = ()) -> tuple[hm.Plan, list[tf.Operation]]:
    model = nets.convs()
    plan = dataclasses.replace(pipe.plan(model, cluster), depths=depths)
    steps = steps_for(model, (8,))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Trainer(model, plan, cluster, loss=loss) as trainer:
        trainer.build(steps.x[0], steps.y[0])
        return plan, trainer._run.engine._tf_graph.get_operations()


def _ancestors(operations: list[tf.Operation]) -> dict[str, set[str]]:
    """Return the names of all that each operation needs; operations come behind those they need."""
    found: dict[str, set[str]] = {}
    for operation in operations:
        before = {source.name for source in (*(tensor.op for tensor in operation.inputs), *operation.control_inputs)}
        found[operation.name] = before.union(*(found[name] for name in before))
    return found


def _kernels(operations: list[tf.Operation]) -> dict[str, list[str]]:
    """Return the names of the kernels that each task runs."""
    found: dict[str, list[str]] = {}
    for operation in operations:
        task = TASK.match(operation.name)
        if task and operation.type in KERNELS:
            found.setdefault(task[1], []).append(operation.name)
    return found


PIPES = [
    Pipe(("first", "second", "hidden"), ((0,), (1,), (2,)), ((1,), (1,), (1,)), schedule="1f1b"),
    Pipe(("first", "second", "hidden"), ((0,), (1,), (2,)), ((1,), (1,), (1,)), schedule="fill_drain", recompute=True),
    Pipe(("first", "second", "hidden", "head"), ((0,), (1,), (0,), (1,)), ((1,),) * 4, schedule="interleaved"),
]


@pytest.mark.slow
@pytest.mark.fast("1f1b")
@pytest.mark.parametrize(
    "pipe, depths",
    [*((pipe, ()) for pipe in PIPES), (PIPES[0], (4, 2, 1))],
    ids=[*(pipe.schedule for pipe in PIPES), "1f1b, deeper"],
)
def test_every_kernel_of_a_device_waits_for_all_kernels_of_the_tasks_before(pipe: Pipe, depths: tuple[int, ...], cluster: Any) -> None:
    plan, operations = _graph(pipe, cluster, depths)
    kernels, ancestors = _kernels(operations), _ancestors(operations)
    table = clock_table(pipe.schedule, [stage.devices for stage in plan.stages], pipe.microbatches, depths or None)
    for device in {d for stage in plan.stages for d in stage.devices}:
        tasks = [task_name(task) for tick in table for task in tick if device in plan.stages[task.stage].devices]
        assert len(tasks) == 2 * pipe.microbatches * sum(device in stage.devices for stage in plan.stages)
        for earlier, later in zip(tasks, tasks[1:]):
            needed = set(kernels[earlier])
            assert needed and all(needed <= ancestors[name] for name in kernels[later]), (earlier, later)


@pytest.mark.slow
def test_no_task_waits_for_another_device_but_for_its_inputs(cluster: Any) -> None:
    _, operations = _graph(PIPES[0], cluster)
    ends = [operation for operation in operations if operation.name.split("/")[-1].startswith(TASK_END)]
    assert len(ends) == 3 * (2 * 4 - 1) + 3, "one between any two tasks, and one before the updates"
    for end in ends:
        stages = {TASK.match(source.name)[1].split("_")[0] for source in end.control_inputs}  # type: ignore[index]
        assert len(stages) == 1


@pytest.mark.slow
@pytest.mark.fast("interleaved")
@pytest.mark.parametrize("pipe", PIPES, ids=[pipe.schedule for pipe in PIPES])
def test_every_slice_is_read_once_a_step_for_all_microbatches_and_before_it_is_written(pipe: Pipe, cluster: Any) -> None:
    _, operations = _graph(pipe, cluster)
    step = [operation for operation in operations if operation.name.startswith("train_8/")]
    accesses = _accesses(step)
    assert sum(bool(writes) for _, writes in accesses.values()) == 8, "kernels and biases of four layers"
    assert all(len(reads) == 1 for reads, _ in accesses.values())
    assert _unordered(step) == []


@pytest.mark.slow
def test_a_plan_of_one_stage_and_one_microbatch_has_no_turns(cluster: Any) -> None:
    _, operations = _graph(Pipe(("first",), ((0, 1, 2),), ((3, 2, 1),), microbatches=1, schedule="synchronous"), cluster)
    assert not any(TASK_END in operation.name or TASK.match(operation.name) for operation in operations)


@pytest.mark.slow
def test_what_no_step_needs_is_neither_built_nor_waited_for(cluster: Any) -> None:
    _, operations = _graph(PIPES[0], cluster)
    first = [op.name for op in operations if op.type == "Conv2DBackpropInput" and "/stage0_" in op.name]
    assert first == [], "nobody reads the gradient of the network's input"


@pytest.mark.slow
@pytest.mark.fast("False")
@pytest.mark.parametrize("recompute", [False, True])
def test_forward_passes_run_once_more_where_activations_are_recomputed_passes(
    recompute: bool, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keras.config.set_floatx("float64")
    seen: list[Any] = []
    monkeypatch.setattr(step_trace, "read_trace", lambda stats, *_: seen.append(stats))
    model, pipe = nets.convs(), Pipe(("first", "hidden"), ((0,), (1,)), ((1,), (1,)), schedule="fill_drain", recompute=recompute)
    steps = steps_for(model, (8,))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Trainer(model, pipe.plan(model, cluster), cluster, loss=loss) as trainer:
        trainer.trace_on_batch(steps.x[0], steps.y[0])
    nodes = {node.node_name for entry in seen[0].dev_stats for node in entry.node_stats}
    convolutions = [name for name in nodes if TASK.match(name) and name.endswith("/Conv2D")]
    assert len(convolutions) == 2 * (4 + 3 * recompute), "two convolutions; the last of four microbatches comes back at once"


@pytest.mark.fast("1f1b")
@pytest.mark.parametrize("schedule", ["1f1b", "interleaved", "synchronous"])
def test_what_the_simulator_says_is_computed_again_is_what_the_program_computes_again(schedule: str, cluster: Any) -> None:
    turns = schedule == "interleaved"
    starts, devices = ("first", "second", "hidden"), ((0,), (1,), (0 if turns else 2,))
    plan = Pipe(starts, devices, ((1,),) * 3, schedule=schedule, recompute=True).plan(nets.convs(), cluster)
    stages = tuple(PlacedStage(stage, ("/cpu:0",)) for stage in plan.stages)
    context: Any = types.SimpleNamespace(stages=stages, execution=plan.execution)
    found = recomputed_passes(context, task_order(context, 4, True))
    if schedule == "synchronous":
        assert found == frozenset()
        return
    costs = PipelineCosts([1.0] * 3, [2.0] * 3, recompute=True)
    assert found == simulate(costs, clock_table(schedule, devices, 4), devices).again and (0, 0) in found and (2, 3) not in found
    context.execution = dataclasses.replace(plan.execution, recompute=False)
    assert recomputed_passes(context, task_order(context, 4, True)) == frozenset()


@pytest.mark.slow
@pytest.mark.serial
def test_the_stages_of_a_traced_step_overlap_in_time() -> None:
    keras.config.set_floatx("float32")
    L = keras.layers
    i = keras.Input((32, 32, 16))
    x = i
    for number in range(4):
        x = L.Conv2D(64, 3, padding="same", activation="relu", name=f"conv{number}")(x)
    model = keras.Model(i, L.Dense(5, name="head")(L.GlobalAveragePooling2D()(x)))
    steps = steps_for(model, (32, 32, 32))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Cluster.emulate([1.0, 1.0]) as cluster:
        plan = Pipe(("conv0", "conv2"), ((0,), (1,)), ((1,), (1,)), microbatches=8).plan(model, cluster, 32)
        with hm.Trainer(model, plan, cluster, loss=loss) as trainer:
            trainer.train_on_batch(steps.x[0], steps.y[0])
            trainer.train_on_batch(steps.x[1], steps.y[1])
            trace = trainer.trace_on_batch(steps.x[2], steps.y[2])
    assert {entry.task for entry in trace.tasks} == {f"stage{s}_{p}{m}" for s in (0, 1) for p in ("forward", "backward") for m in range(8)}
    by_stage = [[entry for entry in trace.tasks if entry.task.startswith(f"stage{s}")] for s in (0, 1)]
    for entries in by_stage:
        assert len({entry.device for entry in entries}) == 1
        assert all(a.end_s <= b.start_s + 1e-4 for a, b in zip(entries, entries[1:])), "one task at a time"
    together = sum(max(0.0, min(a.end_s, b.end_s) - max(a.start_s, b.start_s)) for a in by_stage[0] for b in by_stage[1])
    assert together > 0.3 * sum(entry.end_s - entry.start_s for entry in by_stage[0])
