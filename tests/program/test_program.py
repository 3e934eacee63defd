"""What a program's TensorFlow graph looks like: every read of a slice before every write to it, and no more nodes than needed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.mesh import variables
from tests.program import small_nets as nets

READS = {"ReadVariableOp", "ResourceGather"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def _train_operations(model: keras.Model, cluster: Any, optimizer: Any) -> list[tf.Operation]:
    """Return the operations of a program that trains."""
    plan = hm.Plan.filters(model, [5, 3, 1], cluster, 4)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Trainer(model, plan, cluster, optimizer=optimizer, loss=loss) as trainer:
        trainer.build(np.zeros((4, *model.input_shape[1:])), np.zeros(4, int))
        return [op for op in trainer._run.engine._tf_graph.get_operations() if op.name.startswith("train_4/")]


def _ancestors(operation: tf.Operation) -> set[str]:
    seen: set[str] = set()
    stack = [operation]
    while stack:
        at = stack.pop()
        for source in [*(tensor.op for tensor in at.inputs), *at.control_inputs]:
            if source.name not in seen:
                seen.add(source.name)
                stack.append(source)
    return seen


def _accesses(operations: list[tf.Operation]) -> dict[str, tuple[list[tf.Operation], list[tf.Operation]]]:
    """Return the reads and the writes of every slice, by its handle's shared name."""
    found: dict[str, tuple[list[tf.Operation], list[tf.Operation]]] = {}
    for operation in operations:
        for tensor in operation.inputs:
            if tensor.dtype == tf.resource and tensor.op.type == "VarHandleOp":
                slot = found.setdefault(tensor.op.get_attr("shared_name").decode(), ([], []))
                slot[operation.type not in READS].append(operation)
    return found


def _unordered(operations: list[tf.Operation]) -> list[tuple[str, str]]:
    """Return the pairs of a read and a write of one slice that are not ordered."""
    pairs = []
    for reads, writes in _accesses(operations).values():
        for write in writes:
            before = _ancestors(write)
            pairs += [(read.name, write.name) for read in reads if read.name not in before]
    return pairs


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: keras.optimizers.SGD(0.1, weight_decay=0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(amsgrad=True),
    "AdamW with clipping": lambda: keras.optimizers.AdamW(global_clipnorm=1.0),
}


@pytest.mark.slow
@pytest.mark.fast("SGD-rows_into_dense")
@pytest.mark.parametrize("build", [nets.norms, nets.residual, nets.rows_into_dense], ids=lambda build: build.__name__)
@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_every_read_of_a_slice_comes_before_every_write_to_it(build: nets.Build, optimizer: Callable[[], Any], cluster: Any) -> None:
    operations = _train_operations(build(), cluster, optimizer())
    accesses = _accesses(operations)
    assert sum(bool(writes) for _, writes in accesses.values()) >= 3 * 5
    assert all(len(reads) == 1 for reads, _ in accesses.values()), "one snapshot serves all consumers"
    assert _unordered(operations) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["momentum", "Adam"])
def test_the_check_of_reads_and_writes_notices_a_missing_dependency(name: str, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless:
        """TensorFlow without control dependencies."""

        def __getattr__(self, attribute: str) -> Any:
            return getattr(tf, attribute)

        @staticmethod
        def control_dependencies(_: Any) -> Any:
            return contextlib.nullcontext()

    monkeypatch.setattr(variables, "tf", Careless())
    assert _unordered(_train_operations(nets.norms(), cluster, OPTIMIZERS[name]())) != []


@pytest.mark.slow
def test_a_deep_residual_network_stays_a_small_graph(cluster: Any) -> None:
    from models.residual import residual

    counts = {}
    for convolutions in (14, 20):
        model = residual(convolutions, size=16)
        plan = hm.Plan.filters(model, [5, 3, 2], cluster, 4)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss=loss) as trainer:
            trainer.build(np.zeros((4, *model.input_shape[1:])), np.zeros(4, int))
            (program,) = trainer._run.engine._programs.values()
            counts[convolutions] = program.nodes
    each = (counts[20] - counts[14]) / 6
    assert each <= 220, "nodes a convolution with its batch norm, activation and updates, on three processors"
    assert counts[14] + 36 * each <= 12_000, "fifty convolutions"
