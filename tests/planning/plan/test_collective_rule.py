from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.layout.records import CollectiveRule
from hetero_mtf.planning.plan.collective_rule import rule_for, segment_sizes
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import cluster_of, pair_net


def rule(method: str = "ring", up_to_bytes: int | None = None, **more: Any) -> CollectiveRule:
    return CollectiveRule("all_reduce", method, up_to_bytes, **more)


def with_rules(*rules: CollectiveRule) -> Plan:
    return dataclasses.replace(Plan.filters(pair_net(), [7, 4, 1], cluster_of(3), 8), collectives=rules)


def test_the_first_rule_whose_limit_holds_is_taken() -> None:
    rules = (rule("exchange", 0), rule("butterfly", 100), rule("ring"))
    assert [rule_for(rules, "all_reduce", size).method for size in (0, 1, 100, 101, 1e12)] == [  # type: ignore[union-attr]
        "exchange", "butterfly", "butterfly", "ring", "ring"
    ]  # fmt: skip


def test_without_a_rule_there_is_no_choice() -> None:
    assert rule_for((), "all_reduce", 5) is None
    assert rule_for((rule("ring", 4),), "all_reduce", 5) is None
    assert rule_for((rule("ring"),), "all_gather", 5) is None


@given(st.integers(0, 5000), st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(lambda parts: sum(parts) > 0.01))
def test_segments_hold_all_elements_and_miss_their_fraction_by_at_most_one(elements: int, parts: list[float]) -> None:
    segments = [part / sum(parts) for part in parts]
    sizes = segment_sizes(elements, segments)
    assert sum(sizes) == elements and min(sizes) >= 0 and len(sizes) == len(segments)
    assert all(abs(size - elements * part) <= 1 + 1e-6 for size, part in zip(sizes, segments))


def test_sensible_rules_are_taken() -> None:
    with_rules()
    with_rules(rule("nccl"))
    with_rules(rule("butterfly", 1000), rule("two_level", 2000, leaders="exchange"), rule("ring", segments=(0.5, 0.5, 0.0)))


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ([rule("pigeon")], "[0].method: is 'pigeon', must be one of ring, butterfly, halving_doubling, two_level, exchange, nccl"),
        ([CollectiveRule("shout", "ring")], "[0].collective: is 'shout', only all_reduce has a choice"),
        ([rule("butterfly", -1), rule()], "[0].up_to_bytes: is -1, must be 0 or more, or null for any size"),
        ([rule("butterfly", 8)], "[0].up_to_bytes: is 8, the last rule for all_reduce must be for any size; make it null"),
        ([rule(), rule("butterfly")], "[1].up_to_bytes: is never reached, a rule before it takes any size; sort them by size"),
        ([rule(up_to_bytes=9), rule(up_to_bytes=9), rule()], "[1].up_to_bytes: is never reached, a rule before it takes up to 9 bytes; "),
        ([rule("ring", leaders="ring")], "[0].leaders: is 'ring', only two_level has leaders; leave it empty"),
        ([rule("two_level", leaders="nccl")], "[0].leaders: is 'nccl', must be one of ring, butterfly, halving_doubling, exchange"),
        ([rule("butterfly", segments=(1.0, 0.0, 0.0))], "[0].segments: are [1, 0, 0], only a ring has segments; leave them empty"),
        ([rule(segments=(0.5, 0.5, 0.5))], "[0].segments: are [0.5, 0.5, 0.5], must be fractions of 0 or more that sum to 1"),
        ([rule(segments=(1.5, -0.5, 0.0))], "[0].segments: are [1.5, -0.5, 0], must be fractions of 0 or more that sum to 1"),
        ([rule(segments=(0.5, 0.5))], "[0].segments: are 2, the ring over stage 0 has 3 processors; give one each, or none"),
    ],
)
def test_a_rule_that_cannot_be_honoured_is_named(rules: list[CollectiveRule], fault: str) -> None:
    with pytest.raises(PlanError) as caught:
        with_rules(*rules)
    assert f"collectives{fault}" in str(caught.value)


def test_segments_on_a_mesh_of_several_axes_are_refused() -> None:
    plan = Plan.grid(pair_net(), [2, 1], [1, 1], cluster_of(4), 8)
    with pytest.raises(PlanError, match="stage 0 has several mesh axes and as many rings; leave them empty"):
        dataclasses.replace(plan, collectives=(rule(segments=(0.25, 0.25, 0.25, 0.25)),))
