"""Peak memory of slabs: a row a device, of workers as they are and of those that put memory first."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.space.slab_memory import MB, TABLE, rows
from tools.results.publication import shown


def case(workers: str, single_mb: float) -> dict[str, Any]:
    def part(device: str, slab: int, mb: float) -> dict[str, Any]:
        return {"device": device, "slab": slab, "predicted_bytes": 0.9 * mb * MB, "measured_bytes": mb * MB}

    devices = {"alone": [part("worker:0", 96, single_mb)]}
    devices["slabs"] = [part("worker:0", 64, 0.65 * single_mb), part("worker:1", 32, 0.3 * single_mb)]
    ends = {"alone": "ends: worker:0 was killed by SIGKILL", "slabs": "trains, 48:48"}
    return {"extent": 96, "workers": workers, "devices": devices, "ends": ends}


def test_slabs_are_beside_one_device_of_the_same_workers() -> None:
    alone, fast, slow = rows(case("memory first", 1000.0))
    assert alone.texts["workers"] == "memory first" and fast.numbers["of_single"] == pytest.approx(0.65)
    assert fast.numbers["off"] == pytest.approx(-0.1) and slow.numbers["of_single"] == pytest.approx(0.3)
    text = shown(TABLE, [alone, fast, slow])
    assert "≤ 0.7 ✓" in text and text.count("± 20% ✓") == 2 and "trains, 48:48" in text
