"""Which baselines take part, and with how many samples on each device."""

from __future__ import annotations

import json

from tools.bench.baselines.equal_batches import DDP, MIRRORED, UNEQUAL_DDP, Baselines
from tools.bench.baselines.limited import Places
from tools.bench.baselines.tasks import Trained

TRAINED = Trained("vgg8", 12, (32, 32, 3), 10)


def test_without_pytorch_there_is_the_mirrored_strategy_only() -> None:
    (mirrored,) = Baselines(TRAINED, [1.0, 0.5], 9, None, unequal=[2.0, 1.0]).chosen()
    assert mirrored.name == MIRRORED and sorted(mirrored.samples) == [4, 5]


def test_unequal_batches_are_in_proportion_to_speeds_and_weighted() -> None:
    mirrored, equal, unequal = Baselines(TRAINED, [1.0, 0.5], 64, "python", unequal=[0.4, 0.2]).chosen()
    assert [mirrored.name, equal.name, unequal.name] == [MIRRORED, DDP, UNEQUAL_DDP]
    assert mirrored.samples == equal.samples == (32, 32) and unequal.samples == (43, 21)
    assert unequal.words[2:] == ("weighted",) and equal.words[2:] == () and equal.words[0] == unequal.words[0]


def test_unequal_batches_take_part_where_they_are_asked_for() -> None:
    assert [baseline.name for baseline in Baselines(TRAINED, [1.0, 0.5], 8, "python").chosen()] == [MIRRORED, DDP]


def test_the_processes_are_told_what_to_train() -> None:
    network = next(Baselines(TRAINED, [1.0, 0.5], 8, None).chosen()).words[1]
    assert json.loads(network) == {"network": "vgg8", "weights": 12, "shape": [32, 32, 3], "classes": 10, "loss": "classes"}


def test_processes_beside_others_have_ports_of_their_own() -> None:
    places = Places(("10.0.0.1:2300", "10.0.0.2:2300"), lambda: None, {})  # type: ignore[arg-type,return-value]
    assert places.beside(0) == places and places.beside(2).addresses == ("10.0.0.1:2302", "10.0.0.2:2302")
