from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.cost.all_reduce import PairLinks, cheapest_by_size, choices, priced
from hetero_mtf.planning.layout.records import CollectiveRule
from hetero_mtf.planning.plan.collective_rule import rule_for

A, B = 1e-3, 1e-9


def equal(count: int, hosts: str | None = None) -> PairLinks:
    return PairLinks(((A,) * count,) * count, ((B,) * count,) * count, tuple(hosts or "a" * count))


def of_hosts(hosts: str, far: float) -> PairLinks:
    """Return links that are `far` times as slow between hosts."""
    factor = [[1.0 if one == other else far for other in hosts] for one in hosts]
    return PairLinks(tuple(tuple(A * f for f in row) for row in factor), tuple(tuple(B * f for f in row) for row in factor), tuple(hosts))


def seconds(method: str, links: PairLinks, tensor_bytes: float, **more: object) -> float:
    return priced(CollectiveRule("all_reduce", method, **more), links).seconds(tensor_bytes)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_equal_links_cost_what_the_formulas_say(count: int) -> None:
    log2 = math.log2(count)
    for n in (0, 1, 1e4, 1e8):
        assert seconds("ring", equal(count), n) == pytest.approx(2 * (count - 1) * A + 2 * n * B * (count - 1) / count)
        assert seconds("nccl", equal(count), n) == seconds("ring", equal(count), n)
        assert seconds("butterfly", equal(count), n) == pytest.approx(log2 * (A + n * B))
        assert seconds("halving_doubling", equal(count), n) == pytest.approx(2 * log2 * A + 2 * n * B * (count - 1) / count)
        assert seconds("exchange", equal(count), n) == pytest.approx((count - 1) * (A + n * B))


@pytest.mark.parametrize("count", [3, 5, 6, 7, 9])
def test_processors_beyond_a_power_of_two_cost_two_rounds_of_the_whole_tensor_more(count: int) -> None:
    power = 1 << int(math.log2(count))
    for method in ("butterfly", "halving_doubling"):
        assert seconds(method, equal(count), 1e6) == pytest.approx(seconds(method, equal(power), 1e6) + 2 * (A + 1e6 * B))


def test_a_round_takes_as_long_as_its_slowest_message_whether_it_is_late_or_slow() -> None:
    late, slow = (5.0, 1.0), (1.0, 2.0)
    lines = [[(0.0, 0.0), late], [slow, (0.0, 0.0)]]
    links = PairLinks(tuple(tuple(x[0] for x in row) for row in lines), tuple(tuple(x[1] for x in row) for row in lines), ("a", "a"))
    for n in (0, 1, 4, 5, 100):
        assert seconds("exchange", links, n) == max(5 + n, 1 + 2 * n)


def test_four_alike_take_the_butterfly_up_to_four_latencies_and_halving_beyond() -> None:
    rules = cheapest_by_size([[equal(4)]], segmented=True)
    assert [rule.method for rule in rules] == ["butterfly", "halving_doubling"]
    assert rules[0].up_to_bytes == pytest.approx(4 * A / B, abs=2) and rules[1].up_to_bytes is None


def test_two_exchange_and_three_exchange_then_form_a_ring() -> None:
    assert cheapest_by_size([[equal(2)]], segmented=True) == (CollectiveRule("all_reduce", "exchange"),)
    rules = cheapest_by_size([[equal(3)]], segmented=True)
    assert [rule.method for rule in rules] == ["exchange", "ring"]
    assert rules[0].up_to_bytes == pytest.approx(2 * A / (2 * B - 4 / 3 * B), abs=2)


@pytest.mark.slow
@given(st.integers(2, 6), st.data())
def test_the_rules_take_the_cheapest_method_at_every_size(count: int, data: st.DataObject) -> None:
    numbers = st.floats(1e-6, 1.0)
    a, b = (tuple(tuple(data.draw(numbers) for _ in range(count)) for _ in range(count)) for _ in range(2))
    links = PairLinks(a, tuple(tuple(x / 1e6 for x in row) for row in b), tuple(data.draw(st.sampled_from("ab")) for _ in range(count)))
    rules = cheapest_by_size([[links]], segmented=False)
    limits = [rule.up_to_bytes for rule in rules]
    assert limits[-1] is None and limits[:-1] == sorted(set(limits[:-1]))  # type: ignore[type-var]
    for bits in range(34):
        taken = rule_for(rules, "all_reduce", 1 << bits)
        assert taken is not None
        best = min(choice.seconds(1 << bits) for choice in choices(links))
        assert priced(taken, links).seconds(1 << bits) == pytest.approx(best)


def test_slow_links_between_hosts_ask_for_two_levels_and_fast_ones_do_not() -> None:
    far = cheapest_by_size([[of_hosts("aabbcc", 1000.0)]], segmented=True)
    assert {rule.method for rule in far} == {"two_level"} and all(rule.leaders for rule in far)
    assert "two_level" not in {rule.method for rule in cheapest_by_size([[of_hosts("aaaabbbb", 1.0)]], segmented=True)}


def test_messages_between_the_same_hosts_share_the_way() -> None:
    links = of_hosts("aabb", 10.0)
    assert seconds("butterfly", links, 1e6) == pytest.approx((A + 1e6 * B) + 10 * (A + 2e6 * B))
    assert seconds("two_level", links, 1e6, leaders="exchange") == pytest.approx(2 * (A + 1e6 * B) + 10 * (A + 1e6 * B))
    in_order, mixed = (seconds("ring", of_hosts(hosts, 10.0), 1e6) for hosts in ("aabb", "abab"))
    assert in_order == pytest.approx(6 * 10 * A + 1.5 * 10 * 1e6 * B)
    assert mixed == pytest.approx(6 * 10 * A + 2 * 1.5 * 10 * 1e6 * B)


def test_a_slow_link_gets_unequal_segments_where_they_are_allowed_and_shorten_the_ring() -> None:
    slow = [[B] * 3 for _ in range(3)]
    slow[0][1] = slow[1][0] = 50 * B
    links = PairLinks(((0.0,) * 3,) * 3, tuple(map(tuple, slow)), ("a",) * 3)
    ringed = [choice.rule for choice in choices(links, segmented=True) if choice.rule.method == "ring"]
    assert ringed[0].segments and sum(ringed[0].segments) == pytest.approx(1)
    assert seconds("ring", links, 1e6, segments=ringed[0].segments) < 0.8 * seconds("ring", links, 1e6)
    assert all(not choice.rule.segments for choice in choices(links))
    assert all(not choice.rule.segments for choice in choices(equal(3), segmented=True))


def test_methods_over_links_that_were_not_measured_are_left_out() -> None:
    a = [[math.inf] * 4 for _ in range(4)]
    for p in range(4):
        a[p][(p + 1) % 4] = a[(p + 1) % 4][p] = A
    links = PairLinks(tuple(map(tuple, a)), ((B,) * 4,) * 4, ("a",) * 4)
    assert [choice.rule.method for choice in choices(links)] == ["ring"]


def test_on_several_axes_the_slowest_group_counts_and_axes_add_up() -> None:
    fast, slow = equal(2), PairLinks(((9 * A,) * 2,) * 2, ((B,) * 2,) * 2, ("a", "a"))
    for along in itertools.permutations([[fast, slow], [equal(3)]]):
        rules = cheapest_by_size(list(along), segmented=False)
        assert rules[0].method == "exchange" and rules[-1].method in ("ring", "exchange")


def test_among_more_than_32_devices_no_exchange_is_priced() -> None:
    assert {choice.rule.method for choice in choices(equal(32))} - {choice.rule.method for choice in choices(equal(33))} == {"exchange"}


def test_equal_links_are_one_key() -> None:
    assert hash(equal(3)) == hash(equal(3)) and equal(3) == equal(3) != equal(4)
