"""A training that moves to another plan goes on as if nothing had happened: weights, slots, steps, draws, loss scale, files."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import PlanError, UnsupportedError
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.program.engine import Engine
from hetero_mtf.training.control.controller import Controller
from tests.planning.networks import profile_of
from tests.program.oracle import worst_error
from tests.training.control.scripted_moves import moves_at
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]

STEPS, BATCH = 20, 8


def profile(model: keras.Model, cluster: Any) -> Profile:
    of_graph = profile_of(layer_graph(model), [3e6, 2e6, 1e6], 1e-6, batch_size=BATCH)
    return dataclasses.replace(of_graph, cluster=cluster.record, memory=cluster.record.pools)


def trained(model: keras.Model, cluster: Any, optimizer: Any, after: hm.Plan | None, traced: bool = False) -> Any:
    """Return losses, weights, loss scale and number of moves of some steps, with a move in their middle to another plan."""
    plan = hm.Plan.batch(model, (1, 1, 2), cluster, BATCH)
    options = {"optimizer": optimizer, "loss": cross_entropy(), "seed": 3}
    with hm.Trainer(model, plan, cluster, **options, profile=profile(model, cluster), rebalance=True) as trainer:
        assert isinstance(trainer.controller, Controller)
        trainer.controller.speaks = False
        if traced:
            assert trainer.controller.devices is not None
            trainer.controller.devices.wants_trace = lambda left: True  # type: ignore[method-assign]
        with contextlib.nullcontext() if after is None else moves_at({STEPS // 2: after}):
            losses = [trainer.train_on_batch(*data(BATCH, step)) for step in range(STEPS)]
        return losses, trainer.to_keras().get_weights(), trainer.loss_scale, trainer.step, trainer.moves


OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05, momentum=0.9), initial_scale=2.0**1020, dynamic_growth_steps=4
    ),
}


@pytest.mark.slow
@pytest.mark.fast("filters-adam")
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("strategy", ["filters", "single"])
def test_a_move_changes_no_number(name: str, strategy: str, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(1)
    model = net(0.3, second_bias=False)
    after = hm.Plan.filters(model, (3, 2, 1), cluster, BATCH) if strategy == "filters" else hm.Plan.single(model, 0, cluster, BATCH)
    losses, weights, scale, step, moves = trained(model, cluster, OPTIMIZERS[name](), after)
    expected = trained(model, cluster, OPTIMIZERS[name](), None)
    assert [move.after for move in moves] == [after] and expected[-1] == ()
    assert worst_error(expected[1], weights) <= 1e-8 and np.abs(np.subtract(losses, expected[0])).max() <= 1e-8
    assert (scale, step) == expected[2:4] and (name != "loss scale" or step < STEPS)


@pytest.mark.slow
def test_a_traced_step_gives_what_any_other_gives(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = net(0.3)
    *traced, _ = trained(model, cluster, OPTIMIZERS["loss scale"](), None, traced=True)
    *plain, _ = trained(model, cluster, OPTIMIZERS["loss scale"](), None)
    assert worst_error(plain[1], traced[1]) == 0 and [plain[0], *plain[2:]] == [traced[0], *traced[2:]]


@pytest.mark.slow
def test_fit_tells_callbacks_and_files_nothing_of_a_move_but_the_line(
    cluster: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(1)
    model, (x, y) = net(0.3, second_bias=False), data(40)

    def run(folder: str, moves: bool, epochs: int) -> Any:
        plan = hm.Plan.batch(model, (1, 1, 2), cluster, BATCH)
        options = {"optimizer": OPTIMIZERS["adam"](), "loss": cross_entropy(), "metrics": ["accuracy"]}
        with hm.Trainer(model, plan, cluster, **options, profile=profile(model, cluster), rebalance=True) as trainer:
            after = hm.Plan.filters(model, (3, 2, 1), cluster, BATCH)
            backup = keras.callbacks.BackupAndRestore(tmp_path / folder, delete_checkpoint=False)
            with moves_at({7: after}) if moves else contextlib.nullcontext():
                history = trainer.fit(x, y, batch_size=BATCH, epochs=epochs, validation_split=0.2, verbose=2, callbacks=[backup])
            return history.history, trainer.to_keras().get_weights(), len(trainer.moves)

    assert run("moved", True, 3)[2] == 1
    assert "hetero_mtf: training on batch" in capsys.readouterr().err
    resumed, expected = run("moved", False, 5), run("undisturbed", False, 5)
    assert worst_error(expected[1], resumed[1]) <= 1e-8
    for name, values in resumed[0].items():
        assert np.abs(np.subtract(values, expected[0][name][3:])).max() <= 1e-8


@pytest.mark.slow
def test_a_plan_that_fails_in_its_first_step_loses_no_step(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keras.config.set_floatx("float64")
    model = net(second_bias=False)
    expected = trained(model, cluster, "adam", None)
    advance = Engine.advance

    def failing(engine: Engine, *arguments: Any) -> Any:
        finished = advance(engine, *arguments)
        if engine.plan.strategy == "filters":
            raise UnsupportedError("out of memory; use another plan")
        return finished

    monkeypatch.setattr(Engine, "advance", failing)
    with pytest.warns(UserWarning, match="could not be built .*out of memory"):
        losses, weights, _, step, moves = trained(model, cluster, "adam", hm.Plan.filters(model, (3, 2, 1), cluster, BATCH))
    assert moves == () and step == STEPS and losses == expected[0] and worst_error(expected[1], weights) == 0


def test_a_given_plan_is_rebalanced_on_request_alone(cluster: Any) -> None:
    model = net()
    plan, measured = hm.Plan.batch(model, (1, 1, 2), cluster, BATCH), profile(model, cluster)
    options = {"optimizer": "sgd", "loss": cross_entropy()}
    for asked, watched in ((None, False), (False, False), (True, True)):
        with hm.Trainer(model, plan, cluster, **options, profile=measured, rebalance=asked) as trainer:
            assert (trainer.controller is not None) == watched and trainer.moves == ()
            trainer.replan(hm.Plan.single(model, 0, cluster, BATCH))
            assert (trainer.controller is not None) == watched


@pytest.mark.parametrize(
    "plan, words",
    [
        (lambda model, cluster: hm.Plan.batch(model, (1, 1, 2), cluster, BATCH), "needs the profile .*give profile="),
        (lambda model, cluster: hm.Plan.batch(model, (1, 1, 2), cluster, 4), "for batches of 4 .*calibrate with the batch size"),
        (
            lambda model, cluster: hm.Plan.batch(model, (1, 1, 2), cluster, BATCH, gradient_sync="butterfly_mixing"),
            "no other plan has the numbers .*leave rebalance out",
        ),
    ],
)
def test_a_plan_that_cannot_be_rebalanced_is_refused_with_the_reason(plan: Any, words: str, cluster: Any) -> None:
    model = net()
    measured = None if "profile" in words else profile(model, cluster)
    with pytest.raises(PlanError, match=words):
        hm.Trainer(model, plan(model, cluster), cluster, optimizer="sgd", loss=cross_entropy(), profile=measured, rebalance=True)
