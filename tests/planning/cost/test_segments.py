from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.cost.rounds import rounds
from hetero_mtf.planning.cost.segments import ring_segments, slowest_link_s_per_byte

slownesses = st.lists(st.floats(1e-12, 1e-3), min_size=1, max_size=9)


@given(slownesses)
def test_segments_are_fractions_and_never_worse_than_equal_ones(links: list[float]) -> None:
    segments = ring_segments(links)
    assert len(segments) == len(links) and min(segments) >= 0 and sum(segments) == pytest.approx(1)
    even = slowest_link_s_per_byte([1 / len(links)] * len(links), links)
    assert slowest_link_s_per_byte(segments, links) <= even


@given(st.integers(1, 9), st.floats(0, 1e-3))
def test_equal_links_get_equal_segments(count: int, link: float) -> None:
    assert ring_segments([link] * count) == (1 / count,) * count


@pytest.mark.parametrize("links", [(4.0, 1.0, 1.0), (1.0, 2.0, 3.0), (5.0, 5.0, 1.0), (9.0, 1.0, 8.0, 1.0), (1.0, 1.0, 1.0, 10.0)], ids=str)
def test_no_segments_on_a_grid_are_better(links: tuple[float, ...]) -> None:
    found = slowest_link_s_per_byte(ring_segments(links), links)
    count, steps = len(links), 12
    grid = (cut for cut in itertools.product(range(steps + 1), repeat=count) if sum(cut) == steps)
    best = min(slowest_link_s_per_byte(np.array(cut) / steps, links) for cut in grid)
    assert found <= best * (1 + 1e-5)


def test_one_slow_link_is_relieved_by_a_quarter() -> None:
    links = [1.0, 100.0, 1.0]
    assert slowest_link_s_per_byte([1 / 3] * 3, links) == pytest.approx(400 / 3)
    assert slowest_link_s_per_byte(ring_segments(links), links) == pytest.approx(100, rel=1e-4)


def test_the_busiest_link_carries_what_the_ring_s_rounds_send_over_it() -> None:
    segments, links = (0.5, 0.1, 0.15, 0.25), [3.0, 1.0, 2.0, 5.0]
    carried = [0.0] * 4
    for message in itertools.chain(*rounds("ring", 4, segments)):
        carried[message.source] += message.part
    assert slowest_link_s_per_byte(segments, links) == pytest.approx(max(b * parts for b, parts in zip(links, carried)))
