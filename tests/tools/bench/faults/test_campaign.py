"""The campaign of faults: what is drawn leaves a worker at all times, and what is wrong with a training is seen."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tools.bench.faults import campaign
from tools.bench.faults.campaign import EPOCHS, FORM, STEPS, compared, drawn_faults, rows, waits_s
from tools.bench.faults.faulty_workers import KINDS, MEASURING, MOMENTS, TIMEOUT_S, TRYING, WORKERS, Fault, Happened, Said, acting
from tools.results.publication import shown


def figures(**changed: Any) -> dict[str, Any]:
    batches = [(epoch, batch, 1.0 + batch, 100.0 + 10.0 * epoch + batch) for epoch in range(EPOCHS) for batch in range(STEPS)]
    return {"batches": batches, "history": {"loss": [2.0] * EPOCHS}, **changed}


def test_the_same_faults_are_drawn_from_a_seed_and_never_all_workers_are_away() -> None:
    drawn = [drawn_faults(seed) for seed in range(1, 101)]
    assert drawn == [drawn_faults(seed) for seed in range(1, 101)]
    assert {fault.kind for faults in drawn for fault in faults} == set(KINDS)
    assert {fault.moment for faults in drawn for fault in faults} == {"", *MOMENTS}
    assert any(fault.back_s is None for faults in drawn for fault in faults) and {*map(len, drawn)} == {1, 2}
    for faults in drawn:
        assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
        for now in faults:
            away = {f.worker for f in faults if f.at_s <= now.at_s and (f.back_s is None or f.at_s + f.back_s + TIMEOUT_S > now.at_s)}
            assert len(away) < WORKERS


def test_a_fault_comes_first_while_a_plan_is_tried_where_that_is_asked_for() -> None:
    for seed in range(1, 21):
        first, *others = drawn_faults(seed, trying=True)
        assert (first.at_s, first.moment) == (0.0, TRYING) and first.kind in KINDS
        assert [fault.at_s for fault in others] == sorted(fault.at_s for fault in others)


def test_a_weight_or_loss_that_differs_and_a_batch_that_is_counted_twice_are_seen() -> None:
    weights = [np.ones(3)]
    same = compared((figures(), weights), (figures(), weights), [Happened(100.5, Fault(0.5, 1, "killed", None), "")])
    assert same == {"error": 0.0, "counted": True, "waits_s": [0.5]}
    assert compared((figures(), [np.array([1.0, 1.0, 1.1])]), (figures(), weights), [])["error"] == pytest.approx(0.1, rel=0.01)
    assert compared((figures(history={"loss": [2.0] * 7 + [2.1]}), weights), (figures(), weights), [])["error"] > 0.04
    twice = figures(batches=[figures()["batches"][0], *figures()["batches"]])
    assert not compared((twice, weights), (figures(), weights), [])["counted"]


def test_a_stopped_worker_is_waited_for_from_its_detection_on() -> None:
    stopped, killed = Fault(0.0, 0, "stopped", 1.0), Fault(9.0, 1, "killed", None)
    happened = [Happened(100.5 - TIMEOUT_S, stopped, ""), Happened(1e9, killed, ""), Happened(1.0, killed, MEASURING)]
    assert compared((figures(), []), (figures(), []), happened)["waits_s"] == [0.0, 0.0]


TALKS = """
import time
for line in ("calibrating", "begun", "", "saving", "", ""):
    print(line, flush=True)
    time.sleep(0.25)
"""


class Recorded:
    """Notes what happens to workers."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []

    def apply(self, fault: Fault) -> None:
        self.done.append((fault.kind, fault.worker))

    def undo(self, fault: Fault) -> None:
        self.done.append(("back", fault.worker))


def happened_in(faults: list[Fault]) -> tuple[Recorded, list[Happened]]:
    """Return what happened to workers in a training that says lines."""
    workers, happened = Recorded(), list[Happened]()
    process = subprocess.Popen([sys.executable, "-c", TALKS], stdout=subprocess.PIPE, text=True)
    said = Said(process)
    with acting(workers, faults, happened, said):  # type: ignore[arg-type]
        process.wait()
        said.join()
    assert process.stdout is not None and said.lines == ["calibrating", "begun", "", "saving", "", ""]
    process.stdout.close()
    return workers, happened


def test_faults_happen_in_their_order_and_are_undone() -> None:
    faults = [Fault(0.0, 1, "killed", 0.3), Fault(0.1, 2, "stopped", 0.4), Fault(1e6, 0, "killed", None)]
    workers, happened = happened_in(faults)
    assert workers.done == [("killed", 1), ("stopped", 2), ("back", 1), ("back", 2)] and [each.fault for each in happened] == faults[:2]


def test_faults_wait_for_their_moment() -> None:
    faults = [Fault(0.0, 0, "killed", None, MEASURING), Fault(0.1, 1, "killed", None, "saving"), Fault(0.2, 2, "killed", None, "moving")]
    _, happened = happened_in(faults)
    assert [each.moment for each in happened] == [MEASURING, "saving"] and happened[1].time_s - happened[0].time_s > 0.5


def test_a_training_that_failed_is_a_miss() -> None:
    good = {"network": "images", "by": "trainer", "faults": [[1.0, *Fault(0.5, 1, "killed", 2.0, "saving"), "saving"]], "left": 0}
    good |= {"error": 1e-12, "counted": True, "waits_s": [2.0]}
    bad = {"network": "images", "by": "trainer", "faults": [], "left": 0, "failure": "ended with 1"}
    found = rows([good, bad], "drawn")
    assert [row.texts["network"] for row in found] == ["images", "all"] and found[1].numbers["ended"] == 1
    assert "| 1 | ≥ 2 ✗ |" in shown(FORM, found) and found[0].numbers["back"] == 1
    assert found[0].texts["moments"] == "0/1/0/0/0" and {row.texts["first"] for row in found} == {"drawn"}


def test_a_wait_in_which_another_fault_happens_is_kept_apart() -> None:
    stopped, killed = [*Fault(0.5, 0, "stopped", 2.0), ""], [*Fault(3.0, 1, "killed", None), "moving"]
    case = {"faults": [[100.0, *stopped], [104.0, *killed]], "waits_s": [1.0, 2.0]}
    assert waits_s(case) == ([2.0], [1.0])  # 100 + TIMEOUT_S + 1 s is after 104 s
    assert waits_s({**case, "faults": [[97.0, *stopped], [104.0, *killed]]}) == ([1.0, 2.0], [])
    measuring = [*Fault(0.0, 2, "killed", None, MEASURING), MEASURING]
    assert waits_s({"faults": [[100.0, *measuring], [104.0, *killed]], "waits_s": [2.0]}) == ([2.0], [])


@pytest.mark.slow
def test_a_training_under_faults_has_the_weights_of_one_device(tmp_path: Any) -> None:
    process = campaign.trained("vectors", "one device", tmp_path)
    process.communicate()
    record = campaign.run(1, {"vectors": campaign.results(tmp_path), "sequences": campaign.results(tmp_path)})
    assert record["network"] == "vectors" and "failure" not in record, record
    assert record["error"] < 1e-8 and record["counted"] and record["left"] == 0
