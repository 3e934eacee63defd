"""Kept plans: what they are kept by, and what a damaged file or a second process does to them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.training import plan_choice

optimizers, losses = keras.optimizers, keras.losses


@pytest.fixture(autouse=True)
def own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv(plan_choice.CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def _network() -> keras.Model:
    i = keras.Input((6,))
    return keras.Model(i, keras.layers.Dense(2, name="end")(keras.layers.Dense(24, activation="tanh")(i)))


class _Files:
    """Which files a training's plan is kept in, as the user sees it: by the names of those it writes."""

    def __init__(self) -> None:
        self.model = _network()
        self.cluster = hm.Cluster.local(["cpu:0"] * 2)

    def name(self, optimizer: Any, loss: Any = "mse") -> str:
        settings = {"optimizer": optimizer, "loss": loss, "loss_weights": None}
        return plan_choice._name(plan_choice.Task(self.model, layer_graph(self.model), self.cluster, 8, settings))


@pytest.fixture(scope="module")
def files() -> Any:
    made = _Files()
    with made.cluster:
        yield made


class _Own(optimizers.SGD):
    """An optimizer of the user's own, with an option of a real number."""

    def __init__(self, rank: float = 0.5, **options: Any) -> None:
        super().__init__(**options)
        self.rank = rank

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rank": self.rank}


SAME: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "name and object": (lambda: "adam", lambda: optimizers.Adam()),
    "learning rates": (
        lambda: optimizers.Adam(0.1),
        lambda: optimizers.Adam(optimizers.schedules.ExponentialDecay(0.2, 5, 0.5), name="other"),
    ),
    "numbers that are not 0": (
        lambda: optimizers.SGD(momentum=0.9, weight_decay=0.01),
        lambda: optimizers.SGD(momentum=0.5, weight_decay=0.1),
    ),
    "of several": (lambda: _several(0.1), lambda: _several(0.2)),
}
OTHER: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "amsgrad": (lambda: optimizers.Adam(), lambda: optimizers.Adam(amsgrad=True)),
    "clipnorm": (lambda: optimizers.Adam(), lambda: optimizers.Adam(clipnorm=1.0)),
    "kinds of clipping": (lambda: optimizers.Adam(clipvalue=1.0), lambda: optimizers.Adam(clipnorm=1.0)),
    "momentum": (lambda: optimizers.SGD(), lambda: optimizers.SGD(momentum=0.9)),
    "nesterov": (lambda: optimizers.SGD(momentum=0.9), lambda: optimizers.SGD(momentum=0.9, nesterov=True)),
    "decay": (lambda: optimizers.Adam(), lambda: optimizers.Adam(weight_decay=0.01)),
    "averages": (lambda: optimizers.Adam(), lambda: optimizers.Adam(use_ema=True)),
    "accumulation": (lambda: optimizers.Adam(gradient_accumulation_steps=2), lambda: optimizers.Adam(gradient_accumulation_steps=4)),
    "classes": (lambda: optimizers.Adam(), lambda: optimizers.Lion()),
    "one of several": (lambda: _several(0.1), lambda: _several(0.1, momentum=0.9)),
    "a number of an own class": (lambda: _Own(0.5), lambda: _Own(0.25)),
}


def _several(rate: float, **options: Any) -> Any:
    return optimizers.MultiOptimizer(optimizers.OptimizerMap(optimizers.Adam(rate), {"end/.*": optimizers.SGD(rate, **options)}))


@pytest.mark.fast("learning rates", "numbers that are not 0")
@pytest.mark.parametrize("case", SAME)
def test_optimizers_that_cost_the_same_share_a_plan(case: str, files: _Files) -> None:
    first, second = SAME[case]
    assert files.name(first()) == files.name(first()) == files.name(second())


@pytest.mark.parametrize("case", OTHER)
def test_options_that_change_the_cost_of_a_step_have_plans_of_their_own(case: str, files: _Files) -> None:
    first, second = OTHER[case]
    assert files.name(first()) != files.name(second())


def _error(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(keras.ops.square(y_true - y_pred), axis=-1)


def test_losses_count_with_their_options_and_not_with_their_names(files: _Files) -> None:
    names = {
        case: files.name("sgd", loss)
        for case, loss in {
            "mse": "mse",
            "object": losses.MeanSquaredError(name="other"),
            "logits": losses.BinaryCrossentropy(from_logits=True),
            "probabilities": losses.BinaryCrossentropy(),
            "function": _error,
            "list": ["mse", "mae"],
            "turned": ["mae", "mse"],
            "dict": {"a": "mse", "b": None},
        }.items()
    }
    assert names["mse"] == names["object"] and len(set(names.values())) == len(names) - 1
    assert files.name("sgd", _error) == names["function"]


def test_what_the_shares_of_devices_limit_counts(files: _Files, monkeypatch: pytest.MonkeyPatch) -> None:
    before, record = files.name("sgd"), files.cluster.record
    limited = tuple(dataclasses.replace(device, limit="compute") for device in record.devices)
    monkeypatch.setattr(files.cluster._backend, "record", dataclasses.replace(record, devices=limited))
    assert files.name("sgd") != before


def test_the_dtype_policy_counts(files: _Files) -> None:
    before = files.name("sgd")
    policy = files.model.layers[1].dtype_policy
    try:
        files.model.layers[1].dtype_policy = keras.DTypePolicy("mixed_bfloat16")
        settings = {"optimizer": "sgd", "loss": "mse", "loss_weights": None}
        graph = type("Graph", (), {"digest": before.split("-")[0]})()  # the reader may refuse such a policy
        assert plan_choice._name(plan_choice.Task(files.model, graph, files.cluster, 8, settings)) != before
    finally:
        files.model.layers[1].dtype_policy = policy


DAMAGE: dict[str, bytes] = {
    "empty": b"",
    "half": b'{"kind": "plan", "version"',
    "another document": b"{}",
    "a list": b"[1, 2]",
    "no text": bytes(range(256)),
    "deep": b"[" * 100_000,
    "not finite": b'{"kind": "profile", "version": NaN}',
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibration_budget.CalibrationWarning")  # devices may be busy
def test_a_damaged_file_is_replaced_with_one_line_each(own_cache: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = _network()
    model.compile("sgd", "mse")
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:

        def prepared() -> list[str]:
            with hm.Trainer(model, cluster=cluster, refine_s=0.0, measure="first") as trainer:
                capsys.readouterr()
                trainer.prepare(8, verbose=2)
            return [line for line in capsys.readouterr().err.splitlines() if "will be replaced" in line]

        assert prepared() == []
        (plan,), (profile,) = own_cache.glob("*.plan.json"), own_cache.glob("*.profile.json")
        for case, content in DAMAGE.items():
            plan.write_bytes(content)
            (line,) = prepared()
            assert line.startswith(f"hetero_mtf: {plan} is not used and will be replaced ("), case
            assert prepared() == [], case  # it was replaced
        profile.write_bytes(b"{")
        (line,) = prepared()
        assert f"{profile} is not used" in line and prepared() == []
        plan.unlink()
        plan.mkdir()
        assert len(prepared()) == 1  # a folder in its place cannot be replaced, and is no fault
    assert sorted(path.name for path in own_cache.iterdir()) == sorted([plan.name, profile.name])


WRITER = """
    import pathlib, sys
    from hetero_mtf.planning.plan.plan import Plan
    path = pathlib.Path(sys.argv[1])
    plan = Plan.load(path)
    for _ in range(60):
        plan.save(path)
        Plan.load(path)
"""


@pytest.mark.slow
def test_processes_that_write_at_once_leave_a_whole_file(tmp_path: pathlib.Path) -> None:
    model = _network()
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        plan = hm.Plan.batch(model, (1, 1), cluster, 8)
    path = tmp_path / "kept.plan.json"
    plan.save(path)
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    faults = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], faults
    assert hm.Plan.load(path) == plan and list(tmp_path.iterdir()) == [path]
