"""What runs plans to time them frees what it holds, also when a plan fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.program.engine import Engine
from hetero_mtf.program.objective import read_objective
from hetero_mtf.program.optimizer_reading import read_optimizer
from hetero_mtf.training.plan_runner import EngineRunner, _random_targets
from tests.training.setting import cluster, cross_entropy, net

__all__ = ["cluster"]


def test_a_plan_of_which_a_step_fails_holds_nothing(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Engine, *arguments: Any) -> None:
        raise RuntimeError("no step")

    def close(self: Engine) -> None:
        closed.append(self)
        really_close(self)

    closed: list[Engine] = []
    really_close = Engine.close
    model = net()
    graph = layer_graph(model)
    objective = read_objective(cross_entropy(), None, read_wiring(model).output_structure)
    runner = EngineRunner(model, graph, cluster, objective, read_optimizer("sgd", graph.dtype)[0], np.random.default_rng(0))
    planned = hm.Plan.batch(model, [2, 1, 1], cluster, 4)
    monkeypatch.setattr(Engine, "train", fail)
    monkeypatch.setattr(Engine, "close", close)
    with pytest.raises(RuntimeError, match="no step"):
        runner.start(planned)
    assert len(closed) == 1
    runner.stop(planned)  # nothing is left to free
    assert len(closed) == 1


def test_an_output_without_a_loss_has_no_targets() -> None:
    assert _random_targets(None, (3,), 4, np.random.default_rng(0)) is None
