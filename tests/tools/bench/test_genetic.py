"""What is said of the genetic allocator, and chains whose memory binds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetero_mtf.planning.allocation.exact import exact_allocation
from tools.bench.genetic import CHAINS, chain, large, large_row, rows, verdicts
from tools.generated.chains import drawn_chain, drawn_operations, drawn_operations_size
from tools.results.tables import table as markdown


def _found(index: int, devices: int, before: float | None, after: float | None, equal: float | None = 0.9) -> dict[str, Any]:
    taken = {"genetic_cpu_s": 0.5, "genetic_wall_s": 0.6, "exact_cpu_s": 0.1}
    over = {"before": before, "after": after, "equal": equal, "proportional": 0.2}
    return {"index": index, "devices": devices, "binds": index % 3 == 0, **over, **taken}


@pytest.mark.few(1)
@pytest.mark.parametrize("index", [0, 3, 6])
def test_in_every_third_chain_the_optimum_without_a_limit_does_not_fit(index: int) -> None:
    problem = chain(index)
    free = drawn_chain(index, problem.blocks, problem.devices, problem.microbatches)
    assert exact_allocation(problem).value > exact_allocation(free).value


@pytest.mark.slow
def test_chains_of_operations_have_memory_that_binds_too() -> None:
    problem = chain(48, operations=True)
    blocks, devices, microbatches = drawn_operations_size(48)
    assert (problem.blocks, problem.devices) == (blocks, devices) and np.isfinite(problem.memory_bytes).all()
    free = drawn_operations(48, blocks, devices, microbatches)
    assert exact_allocation(problem).value > exact_allocation(free).value


def test_the_rows_count_what_is_near_and_what_does_not_fit() -> None:
    found = [_found(1, 3, 0.02, 0.005), _found(2, 4, 0.0, 0.0, None), _found(3, 9, 0.0, 0.0)]
    table = rows(found)
    names = [(row.texts["devices"], row.texts["memory"], row.numbers["chains"]) for row in table]
    assert names == [("2-4", "free", 2), ("8-10", "bottleneck", 1), ("all", "all", 3)]
    cells = markdown(CHAINS.columns, table[:1], targets=False).splitlines()[-1].strip("| ").split(" | ")[3:]
    assert cells == ["50.0%", "100.0%", "2.00%", "0.50%", "+20%", "0", "+90%", "1", "0.50", "0.50", "0.10", "0.10"]
    assert rows([_found(1, 3, None, None)])[0].texts["worst_before"] == "none fits"


def test_the_verdicts_say_where_the_claim_fails() -> None:
    good = verdicts([_found(1, 3, 0.02, 0.005)])
    assert good[0].startswith("before local search: within 1 % on 0.0%") and good[0].endswith("within 5 % on all")
    assert good[2].endswith("never") and "0.50 CPU" in good[3]
    bad = verdicts([_found(7, 3, 0.3, 0.06)])
    assert bad[1].endswith("NOT ALL") and bad[2].endswith("[7]")


@pytest.mark.slow
def test_a_large_chain_has_a_row() -> None:
    found = large(60, 20, 8)
    assert found["bound"] <= found["value"] <= found["proportional"]
    assert large_row(found).numbers["blocks"] == 60 and large_row(found).numbers["j_s"] == found["value"]
