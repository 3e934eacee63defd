"""The networks of the simulation are those that are trained."""

from __future__ import annotations

from tools.bench.start.start_networks import read_networks, start_networks


def test_the_files_hold_the_networks_of_the_benches() -> None:
    assert start_networks() == read_networks()
