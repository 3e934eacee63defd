"""Packing shares onto cores."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.limits.cores import pack, read_shares


@given(st.lists(st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.6, 1.0]), min_size=1, max_size=5), st.integers(1, 3))
def test_a_packing_is_found_exactly_where_there_is_one(shares, cores):
    possible = any(
        all(sum(s for s, c in zip(shares, choice) if c == core) <= 1 + 1e-9 for core in range(cores))
        for choice in itertools.product(range(cores), repeat=len(shares))
    )
    if not possible:
        with pytest.raises(ClusterError):
            pack(shares, range(cores))
        return
    placed = pack(shares, range(cores))
    assert len(placed) == len(shares)
    assert all(sum(s for s, c in zip(shares, placed) if c == core) <= 1 + 1e-9 for core in range(cores))


def test_devices_are_spread_over_the_cores():
    assert sorted(pack([0.5, 0.5], [3, 9])) == [3, 9]


def test_shares_that_sum_above_the_cores_are_refused():
    with pytest.raises(ClusterError, match="the shares sum to 1.5 and this process may use 1 cores; use fewer or smaller shares"):
        pack([1.0, 0.5], [0])


def test_shares_that_would_cut_a_device_in_two_are_refused():
    with pytest.raises(
        ClusterError, match="the shares 0.6, 0.6, 0.6 do not fit onto 2 cores without cutting a device in two; use smaller shares"
    ):
        pack([0.6, 0.6, 0.6], [0, 1])


@pytest.mark.parametrize("text", ["emulate:1.0, 0.5", " emulate:1.0,0.5:process ", "emulate:1.0,0.5,"])
def test_shares_are_read_with_blanks_and_limit_processes_unless_it_is_said(text):
    assert read_shares(text) == ([1.0, 0.5], [], "process")


def test_a_device_may_have_an_instruction_set():
    assert read_shares("emulate:1.0@avx512, 0.5@AVX2 :compute") == ([1.0, 0.5], ["avx512", "avx2"], "compute")
    assert read_shares("emulate:1.0,1.0@avx2") == ([1.0, 1.0], ["", "avx2"], "process")
    with pytest.raises(ClusterError, match="has an @ without an instruction set; write emulate:1.0@avx512,1.0@avx2"):
        read_shares("emulate:1.0@,0.5")


@pytest.mark.parametrize("limit", ["fast", "", "compute:x", "Compute"])
def test_what_follows_the_shares_is_a_limit(limit):
    with pytest.raises(ClusterError, match=f"ends with '{limit}', which is no limit; write emulate:1.0,0.5 or emulate:1.0,0.5:compute"):
        read_shares(f"emulate:1.0,0.5:{limit}")
