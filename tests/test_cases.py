"""Which cases are fast: all values of all parameters, in few cases, the same in every process."""

from __future__ import annotations

import itertools
import random

from tests.cases import covering_subset, first_fast


def test_a_subset_has_every_value_of_each_parameter_in_as_few_cases_as_the_longest_has_values() -> None:
    cases = list(itertools.product([("kind", n) for n in range(7)], [("size", n) for n in range(3)]))
    subset = covering_subset(cases, random.Random("name"))
    assert len(subset) == 7 and {pair for case in subset for pair in case} == {pair for case in cases for pair in case}
    for seed in range(10):
        drawn = covering_subset(cases, random.Random(seed))
        assert all(sum(("size", n) in case for case in drawn) in (2, 3) for n in range(3))
    assert subset == covering_subset(cases, random.Random("name"))


def test_a_subset_of_one_parameter_is_all_of_it_and_of_none_is_none() -> None:
    cases = [(("seed", n),) for n in range(4)]
    assert covering_subset(cases, random.Random("name")) == set(cases)
    assert covering_subset([], random.Random("name")) == set()


def test_all_but_the_first_are_slow_and_a_tuple_is_several_arguments() -> None:
    parameters = first_fast([(1, "a"), (2, "b"), (3, "c")], 1)
    assert [parameter.values for parameter in parameters] == [(1, "a"), (2, "b"), (3, "c")]
    assert [[mark.name for mark in parameter.marks] for parameter in parameters] == [[], ["slow"], ["slow"]]
    assert [parameter.values for parameter in first_fast(range(2), 2)] == [(0,), (1,)]
