"""The campaign between hosts: a cut is made and healed where the worker is, and counted."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.faults import faulty_workers
from tools.bench.faults.campaign import drawn_faults, waits_s
from tools.bench.faults.faulty_workers import CUTS, KINDS, TIMEOUT_S, Fault, HostWorkers
from tools.bench.faults.host_campaign import FORM, rows
from tools.lab.namespaces import HERE
from tools.results.publication import shown


class RecordedLab:
    """Notes what is cut and healed."""

    prefix = "hm-none"

    def __init__(self, names: Any) -> None:
        self.names, self.done = tuple(names), list[tuple[str, ...]]()

    def cut(self, one: str, other: str) -> None:
        self.done.append(("cut", one, other))

    def heal(self, names: Any) -> None:
        self.done.append(("heal", *names))

    def close(self) -> None:
        self.done.append(("closed",))


def test_links_of_a_worker_are_cut_at_its_host_and_healed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = HostWorkers.__new__(HostWorkers)
    lab = workers._lab = RecordedLab(["alpha", "beta", "gamma"])  # type: ignore[assignment]
    for fault in (Fault(0.0, 2, "cut from one", 1.0), Fault(0.0, 1, "cut off", 1.0)):
        workers.apply(fault)
        workers.undo(fault)
    assert lab.done[:2] == [("cut", "gamma", "alpha"), ("heal", "gamma")]
    assert lab.done[2:] == [("cut", "beta", "alpha"), ("cut", "beta", "gamma"), ("cut", "beta", HERE), ("heal", "beta")]


def test_hosts_are_removed_where_workers_do_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[RecordedLab] = []
    monkeypatch.setattr(faulty_workers, "Lab", lambda names: made.append(RecordedLab(names)) or made[-1])
    monkeypatch.setattr(HostWorkers, "_addresses", lambda workers: ["a:1", "b:1", "c:1"])

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("no such program")

    monkeypatch.setattr(HostWorkers, "_started", fails)
    with pytest.raises(OSError, match="no such program"):
        HostWorkers()
    assert made[0].done == [("closed",)]


def test_cuts_are_drawn_beside_kills_and_counted_from_their_detection() -> None:
    drawn = [fault for seed in range(1, 21) for fault in drawn_faults(seed, (*KINDS, *CUTS))]
    assert {fault.kind for fault in drawn} == {*KINDS, *CUTS}
    faults = [[100.0, *Fault(0.5, 0, "cut off", 2.0), ""], [120.0, *Fault(20.5, 1, "killed", None), "moving"]]
    case = {"network": "images", "by": "trainer", "faults": faults, "left": 0, "error": 1e-12, "counted": True, "waits_s": [1.0, 2.0]}
    assert waits_s(case) == ([1.0, 2.0], [])
    assert waits_s({**case, "faults": [faults[0], [100.5 + TIMEOUT_S, *faults[1][1:]]]}) == ([2.0], [1.0])
    (row,) = rows([case])
    assert row.numbers["cuts"] == 1 and row.numbers["runs"] == 1 and "✗" not in shown(FORM, [row])
