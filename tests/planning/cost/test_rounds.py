from __future__ import annotations

import itertools
import math

import pytest

from hetero_mtf.planning.cost.rounds import folded, hosted, rounds, tree
from hetero_mtf.planning.layout.records import LEADERS
from tests.cases import each

METHODS = ("ring", "butterfly", "halving_doubling", "exchange")


@each("count", range(1, 18))
def test_a_power_of_two_takes_part_and_everyone_else_folds_onto_one_of_them(count: int) -> None:
    members, pairs = folded(count)
    assert len(members) & (len(members) - 1) == 0 and 2 * len(members) > count
    assert sorted([*members, *(odd for odd, _ in pairs)]) == list(range(count))
    assert {neighbour for _, neighbour in pairs} <= set(members) and len({neighbour for _, neighbour in pairs}) == len(pairs)


@each("count", range(1, 10))
@each("method", METHODS)
def test_everybody_hears_of_everybody(method: str, count: int) -> None:
    heard = [{p} for p in range(count)]
    for level in rounds(method, count):
        before = [set(known) for known in heard]
        for source, destination, _ in level:
            heard[destination] |= before[source]
    assert heard == [set(range(count))] * count


@each("count", range(2, 10))
@each("method", METHODS)
def test_nobody_sends_or_receives_twice_in_a_round(method: str, count: int) -> None:
    for level in rounds(method, count):
        for ends in ([m.source for m in level], [m.destination for m in level]):
            assert len(set(ends)) == len(ends)
        assert all(message.source != message.destination for message in level)


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_rounds_and_parts_of_powers_of_two_are_those_of_the_formulas(count: int) -> None:
    log2 = round(math.log2(count))
    wanted = {
        "ring": (2 * (count - 1), 2 * (count - 1) / count),
        "butterfly": (log2, log2),
        "halving_doubling": (2 * log2, 2 * (count - 1) / count),
        "exchange": (count - 1, count - 1),
    }
    for method, (number, parts) in wanted.items():
        found = rounds(method, count)
        assert len(found) == number
        for p in range(count):
            assert sum(m.part for m in itertools.chain(*found) if m.source == p) == pytest.approx(parts)


@pytest.mark.parametrize("leaders", LEADERS)
def test_two_levels_send_between_hosts_what_the_leaders_send(leaders: str) -> None:
    hosts = "aaabbcb"
    found = list(itertools.chain(*rounds("two_level", 7, hosts=hosts, leaders=leaders)))
    between = [m for m in found if hosts[m.source] != hosts[m.destination]]
    assert {p for m in between for p in (m.source, m.destination)} == {0, 3, 5}
    assert sum(m.part for m in between) == pytest.approx(sum(m.part for m in itertools.chain(*rounds(leaders, 3))))
    assert len(found) - len(between) == 2 * 4


def test_one_processor_sends_nothing() -> None:
    assert [rounds(method, 1, hosts="a") for method in (*METHODS, "two_level")] == [[]] * 5


def test_hosts_are_grouped_in_the_order_of_their_first_processor() -> None:
    assert hosted("babca") == [[0, 2], [1, 4], [3]]


@pytest.mark.parametrize("count", range(1, 10))
def test_a_tree_brings_all_to_the_first_in_as_few_rounds_as_doubling_takes(count: int) -> None:
    levels = tree(range(count))
    assert len(levels) == math.ceil(math.log2(count))
    assert sorted(source for level in levels for source, _ in level) == list(range(1, count))
