"""A plan's rules for all-reduces are in force, and never change a result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.collectives import method_choice as made
from hetero_mtf.planning.layout.records import CollectiveRule
from hetero_mtf.runtime.in_process import InProcess
from tests.cases import first_fast
from tests.program.oracle import Steps, assert_transparent

HOSTS = "abacb"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Five processors that say they are on three hosts."""
    with hm.Cluster.local(["cpu:0"] * 5) as local:
        devices = tuple(dataclasses.replace(device, host=host) for device, host in zip(local.devices, HOSTS))
        record = dataclasses.replace(local.record, devices=devices)
    with hm.Cluster(InProcess(record)) as told:
        yield told


@pytest.fixture
def model() -> Any:
    keras.utils.set_random_seed(0)
    keras.config.set_floatx("float64")
    x = inputs = keras.Input((5, 5, 3))
    for filters in (7, 6):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = keras.layers.Dense(9, activation="relu")(keras.layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, keras.layers.Dense(4)(x))


def plans(model: Any, cluster: Any, *rules: CollectiveRule) -> list[hm.Plan]:
    typed = [hm.Plan.filters(model, [3, 1, 1, 1, 2], cluster, 8), hm.Plan.batch(model, [3, 1, 0.5, 2, 1], cluster, 8)]
    typed += [hm.Plan.hybrid(model, [2, 2, 2, 1, 1], cluster, 8, border) for border in ("all_gather", "all_to_all")]
    return [dataclasses.replace(plan, collectives=rules) for plan in typed]


def rule(method: str, up_to_bytes: int | None = None, **more: Any) -> CollectiveRule:
    return CollectiveRule("all_reduce", method, up_to_bytes, **more)


RULES: dict[str, tuple[CollectiveRule, ...]] = {
    "by size": (rule("two_level", 60, leaders="exchange"), rule("butterfly", 2000), rule("ring")),
    "unequal segments": (rule("ring", segments=(0.4, 0.3, 0.2, 0.1, 0.0)),),
    "halving_doubling": (rule("halving_doubling"),),
    "ring": (rule("ring"),),
    "butterfly": (rule("butterfly"),),
    "exchange": (rule("exchange"),),
}


@pytest.mark.slow
@pytest.mark.parametrize("rules", first_fast([(rules,) for rules in RULES.values()], 3), ids=RULES)
def test_training_gives_one_device_s_numbers_by_every_rule(rules: tuple[CollectiveRule, ...], model: Any, cluster: Any) -> None:
    rng = np.random.default_rng(0)
    steps = Steps([rng.normal(size=(8, 5, 5, 3)) for _ in range(2)], [rng.integers(0, 4, 8) for _ in range(2)], [None] * 2)
    for plan in plans(model, cluster, *rules):
        assert len(plan.stages[0].devices) == 5
        loss = lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        assert_transparent(model, plan, cluster, lambda: keras.optimizers.SGD(0.1, momentum=0.9), loss, steps)


@pytest.mark.slow
def test_the_method_that_the_plan_names_for_a_size_is_the_one_that_is_built(
    model: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: dict[str, set[int]] = {"ring": set(), "butterfly": set()}
    for name, seen in sizes.items():
        method = made._METHODS[name]

        def watched(tensors: Any, *rest: Any, seen: set[int] = seen, method: Any = method) -> Any:
            seen.add(8 * int(tensors[0].shape.num_elements()))
            return method(tensors, *rest)

        monkeypatch.setitem(made._METHODS, name, watched)
    _, plan, *_ = plans(model, cluster, rule("butterfly", 500), rule("ring"))
    with hm.Trainer(model, plan, cluster, optimizer="sgd", loss="mse") as trainer:
        trainer.train_on_batch(np.zeros((8, 5, 5, 3)), np.zeros((8, 4)))
    assert max(sizes["butterfly"]) <= 500 < min(sizes["ring"])


@pytest.mark.slow
def test_hosts_reach_the_two_level_all_reduce(model: Any, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: set[str] = set()
    two_level = made.two_level

    def watched(tensors: Any, devices: Any, combine: Any, hosts: Any, leaders: Any) -> Any:
        heard.add("".join(hosts))
        return two_level(tensors, devices, combine, hosts, leaders)

    monkeypatch.setattr(made, "two_level", watched)
    plan, *_ = plans(model, cluster, rule("two_level"))
    with hm.Trainer(model, plan, cluster, optimizer="sgd", loss="mse") as trainer:
        trainer.train_on_batch(np.zeros((8, 5, 5, 3)), np.zeros((8, 4)))
    assert heard == {HOSTS}


def test_a_rule_that_the_devices_cannot_honour_is_refused_by_name(model: Any, cluster: Any) -> None:
    plan, *_ = plans(model, cluster, rule("nccl"))
    with hm.Trainer(model, plan, cluster, optimizer="sgd", loss="mse") as trainer:
        with pytest.raises(LayoutError, match="an all-reduce cannot be made by nccl, of .* not all are GPUs; choose ring"):
            trainer.train_on_batch(np.zeros((8, 5, 5, 3)), np.zeros((8, 4)))
