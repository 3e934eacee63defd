"""All-reduces: the right sum with the same bits everywhere, and no more bytes and rounds than the formulas say, for any p and n."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.collectives import Collectives, all_reduce, chunk_sizes
from hetero_mtf.planning.cost.rounds import folded, rounds
from hetero_mtf.planning.layout.records import CollectiveRule
from hetero_mtf.planning.plan.collective_rule import segment_sizes
from tests.mesh.crossings import Crossings, crossings

MOST = 9
METHODS = ("ring", "butterfly", "halving_doubling", "exchange", "two_level")


def rule_of(method: str, **more: Any) -> CollectiveRule:
    return CollectiveRule("all_reduce", method, **more)


def hosts_of(count: int) -> list[str]:
    """Return hosts of three processors, one less and the rest, not all side by side."""
    return ["abca"[p % 4] if p < 6 else "b" for p in range(count)]


def arrays_of(count: int, shape: Sequence[int], dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(count)
    return [rng.normal(size=shape).astype(dtype) for _ in range(count)]


def reduced(
    arrays: Sequence[Sequence[np.ndarray]], rule: CollectiveRule | None, combine: Any = tf.add, hosts: Sequence[str] = ()
) -> list[list[np.ndarray]]:
    """Return the all-reduce of several lists of arrays, one a processor, on as many real devices of this process."""
    count = len(arrays[0])
    devices = [f"/device:CPU:{p}" for p in range(count)]
    config = tf.compat.v1.ConfigProto(device_count={"CPU": count}, allow_soft_placement=False)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        fetches = []
        for several in arrays:
            tensors = []
            for device, array in zip(devices, several):
                with tf.device(device):
                    tensors.append(tf.constant(array))
            fetches.append(all_reduce(tensors, devices, combine, rule, hosts))
        for results in fetches:
            assert [result.device for result in results] == [f"/device:CPU:{p}" for p in range(count)]
        found: list[list[np.ndarray]] = session.run(fetches)
        return found


def counted(count: int, elements: int, rule: CollectiveRule | None, hosts: Sequence[str] = ()) -> Crossings:
    """Return what an all-reduce of float32 sends between as many workers."""
    with tf.Graph().as_default() as graph:
        devices = [f"/job:worker/task:{p}/device:CPU:0" for p in range(count)]
        tensors = []
        for device in devices:
            with tf.device(device):
                tensors.append(tf.compat.v1.placeholder(tf.float32, [elements]))
        all_reduce(tensors, devices, tf.add, rule, hosts)
        return crossings(graph)


def sizes_for(count: int) -> list[int]:
    return sorted({0, 1, count - 1, count, 1000})


@pytest.mark.fast("exchange-1")
@pytest.mark.parametrize("count", range(1, MOST + 1))
@pytest.mark.parametrize("method", METHODS)
def test_all_processors_get_the_same_bits_and_the_sum_to_float32_rounding(method: str, count: int) -> None:
    cases = [arrays_of(count, shape) for shape in [*((n,) for n in sizes_for(count)), (), (3, 0, 2), (7, 5)]]
    for arrays, found in zip(cases, reduced(cases, rule_of(method), hosts=hosts_of(count)), strict=True):
        for result in found:
            assert result.shape == arrays[0].shape and result.dtype == np.float32
            assert result.tobytes() == found[0].tobytes()
        terms = np.asarray(arrays, "float64")
        assert np.all(np.abs(found[0] - terms.sum(0)) <= (count - 1) * 2.0**-24 * np.abs(terms).sum(0))


@pytest.mark.fast("None-2", "None-3", "None-4", "butterfly-2", "butterfly-3", "butterfly-4", "exchange-2", "exchange-3")
@pytest.mark.parametrize("count", [2, 3, 4, 7])
@pytest.mark.parametrize("method", [*METHODS, None])
def test_the_largest_and_smallest_of_all_are_exact(method: str | None, count: int) -> None:
    cases = [arrays_of(count, (n,)) for n in (3, 50)]
    rule = rule_of(method) if method else None
    for combine, expected in ((tf.maximum, np.max), (tf.minimum, np.min)):
        for arrays, found in zip(cases, reduced(cases, rule, combine, hosts_of(count)), strict=True):
            for result in found:
                np.testing.assert_array_equal(result, expected(arrays, 0))


@pytest.mark.fast(
    'butterfly-2',
    'butterfly-3',
    'butterfly-4',
    'butterfly-6',
    'butterfly-7',
    'exchange-2',
    'exchange-3',
    'exchange-4',
    'halving_doubling-2',
    'halving_doubling-3',
    'ring-2',
    'ring-3',
    'two_level-2',
    'two_level-3',
)
@pytest.mark.parametrize("count", [2, 3, 4, 6, 7])
@pytest.mark.parametrize("method", METHODS)
def test_all_get_the_same_bits_even_where_the_order_counts(method: str, count: int) -> None:
    arrays = arrays_of(count, (2 * count,))
    found = reduced([arrays], rule_of(method), lambda a, b: a + 0.3 * b, hosts_of(count))[0]
    assert len({result.tobytes() for result in found}) == 1


@pytest.mark.fast("butterfly-float64", "butterfly-int32", "exchange-float64", "exchange-int32", "two_level-float64", "two_level-int32")
@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("method", METHODS)
def test_other_types_are_added_in_their_own_precision(method: str, dtype: str) -> None:
    arrays = [(1e6 * array).astype(dtype) for array in arrays_of(6, (11,), "float64")]
    for result in reduced([arrays], rule_of(method), hosts=hosts_of(6))[0]:
        assert result.dtype == dtype
        np.testing.assert_allclose(result, np.sum(arrays, 0), rtol=1e-14)


@pytest.mark.fast("1", "2")
@pytest.mark.parametrize("count", range(1, 6))
def test_by_default_too_all_processors_get_the_same_bits(count: int) -> None:
    cases = [arrays_of(count, shape) for shape in [(0,), (1,), (count,), (1000,), (1023,), (1024,), (5000,), (40, 50), (3, 0, 2), ()]]
    for arrays, found in zip(cases, reduced(cases, None), strict=True):
        for result in found:
            assert result.shape == arrays[0].shape and result.tobytes() == found[0].tobytes()
        np.testing.assert_allclose(found[0], np.sum(arrays, 0), rtol=1e-5, atol=1e-5)


@functools.cache
def power_of_two(count: int) -> int:
    return len(folded(count)[0])


def formula_parts(method: str, count: int) -> int:
    """Return how often all processors together send the whole tensor: methods.md's bytes times p, and the folds."""
    q = power_of_two(count)
    log2 = int(math.log2(q))
    return {
        "ring": 2 * (count - 1),
        "butterfly": q * log2 + 2 * (count - q),
        "halving_doubling": 2 * (q - 1) + 2 * (count - q),
        "exchange": count * (count - 1),
    }[method]


def formula_rounds(method: str, count: int) -> int:
    log2 = int(math.log2(power_of_two(count)))
    return {"ring": 2 * (count - 1), "butterfly": log2, "halving_doubling": 2 * log2, "exchange": min(1, count - 1)}[method]


def longest_path(method: str, count: int, **more: Any) -> int:
    """Return the most messages one after another of which each is sent by the processor that received the one before."""
    depth = [0] * count
    for level in rounds(method, count, **more):
        before = list(depth)
        for source, destination, _ in level:
            depth[destination] = max(depth[destination], before[source] + 1)
    return max(depth)


@pytest.mark.fast("butterfly-2", "butterfly-3", "exchange-1", "exchange-4", "halving_doubling-5")
@pytest.mark.parametrize("count", range(1, MOST + 1))
@pytest.mark.parametrize("method", METHODS[:-1])
def test_bytes_and_rounds_of_the_graph_are_those_of_the_formulas(method: str, count: int) -> None:
    for elements in sizes_for(count):
        found = counted(count, elements, rule_of(method))
        assert found.full_bytes == 4 * elements * formula_parts(method, count)
        assert not found.empty
        rounds_of_formula = formula_rounds(method, count)
        if not elements:
            assert found.rounds == 0
        elif count == power_of_two(count) or method in ("ring", "exchange"):
            assert found.rounds == rounds_of_formula
        else:  # the odd ones fold in and out beside the others' rounds, where they can
            assert rounds_of_formula <= found.rounds <= rounds_of_formula + 2


@pytest.mark.fast("butterfly-8", "exchange-3", "halving_doubling-2", "halving_doubling-7", "two_level-4", "two_level-5")
@pytest.mark.parametrize("count", range(2, MOST + 1))
@pytest.mark.parametrize("method", METHODS)
def test_the_graph_sends_what_the_planners_rounds_say(method: str, count: int) -> None:
    hosts = hosts_of(count)
    elements = 24 * count * power_of_two(count)  # every chunk is whole
    found = counted(count, elements, rule_of(method), hosts)
    expected: dict[tuple[str, str], float] = {}
    for source, destination, part in [message for level in rounds(method, count, hosts=hosts) for message in level]:
        key = tuple(f"/job:worker/task:{p}/device:CPU:0" for p in (source, destination))
        expected[key] = expected.get(key, 0.0) + 4 * elements * part  # type: ignore[index, arg-type]
    if method == "exchange":
        assert found.rounds == 1
    else:
        assert found.rounds == longest_path(method, count, hosts=hosts) <= len(rounds(method, count, hosts=hosts))
    assert found.sent_bytes == pytest.approx(expected)


@pytest.mark.fast("2")
@pytest.mark.parametrize("count", [2, 4, 8])
def test_in_a_power_of_two_every_processor_sends_alike(count: int) -> None:
    wanted = {"ring": 2 * (count - 1) / count, "butterfly": math.log2(count), "halving_doubling": 2 * (count - 1) / count}
    for method, parts in wanted.items():
        found = counted(count, 1024, rule_of(method))
        for p in range(count):
            mine = sum(sent for (source, _), sent in found.sent_bytes.items() if f"task:{p}/" in source)
            assert mine == 4 * 1024 * parts


@pytest.mark.fast("(0.3, 0.7)")
@pytest.mark.parametrize("segments", [(0.5, 0.25, 0.25), (1.0, 0.0, 0.0), (0.1, 0.0, 0.7, 0.2), (0.3, 0.7), (0.2,) * 5], ids=str)
def test_a_ring_over_unequal_segments_is_exact_and_its_links_carry_what_the_formula_says(segments: tuple[float, ...]) -> None:
    count, rule = len(segments), rule_of("ring", segments=segments)
    cases = [arrays_of(count, (n,)) for n in (1, 2, 5, 1001)]
    for arrays, found in zip(cases, reduced(cases, rule), strict=True):
        assert len({result.tobytes() for result in found}) == 1
        np.testing.assert_allclose(found[0], np.sum(arrays, 0), rtol=1e-5, atol=1e-6)
        elements = len(arrays[0])
        sizes, carried = segment_sizes(elements, segments), counted(count, elements, rule).sent_bytes
        for k in range(count):
            link = tuple(f"/job:worker/task:{p % count}/device:CPU:0" for p in (k, k + 1))
            assert carried.get(link, 0) == 4 * (2 * elements - sizes[k] - sizes[(k + 1) % count])  # type: ignore[call-overload]


@pytest.mark.fast(
    'a-butterfly',
    'a-exchange',
    'a-halving_doubling',
    'a-ring',
    'aa-butterfly',
    'aa-exchange',
    'aa-halving_doubling',
    'aa-ring',
    'aaaaaabcd-butterfly',
    'aaaaaabcd-exchange',
    'aaabb-butterfly',
    'aaabb-exchange',
    'aaabb-halving_doubling',
    'ab-butterfly',
    'ab-exchange',
    'ab-halving_doubling',
    'ab-ring',
    'abababa-butterfly',
    'abababa-exchange',
    'abcab-butterfly',
    'abcab-exchange',
    'abcab-halving_doubling',
)
@pytest.mark.parametrize("leaders", ["ring", "butterfly", "halving_doubling", "exchange"])
@pytest.mark.parametrize("hosts", ["a", "aa", "ab", "aaabb", "abcab", "aaaaaabcd", "abababa"])
def test_on_two_levels_only_leaders_send_between_hosts(hosts: str, leaders: str) -> None:
    count, rule = len(hosts), rule_of("two_level", leaders=leaders)
    arrays = arrays_of(count, (48,))
    found = reduced([arrays], rule, hosts=hosts)[0]
    assert len({result.tobytes() for result in found}) == 1
    np.testing.assert_allclose(found[0], np.sum(arrays, 0), rtol=1e-5, atol=1e-6)
    sent = counted(count, 48, rule, hosts).sent_bytes
    tasks = {(int(a.split("task:")[1].split("/")[0]), int(b.split("task:")[1].split("/")[0])): n for (a, b), n in sent.items()}
    between = {pair: n for pair, n in tasks.items() if hosts[pair[0]] != hosts[pair[1]]}
    assert {p for pair in between for p in pair} <= {hosts.index(name) for name in hosts}
    several = len(set(hosts))
    assert sum(between.values()) == 4 * 48 * (formula_parts(leaders, several) if several > 1 else 0)
    assert sum(tasks.values()) - sum(between.values()) == 4 * 48 * 2 * (count - several)


def test_the_rule_for_the_size_is_followed() -> None:
    rules = (rule_of("butterfly", up_to_bytes=400), rule_of("ring"))
    members = [4, 5, 6, 7]
    for elements, wanted in ((100, "butterfly"), (101, "ring")):
        with tf.Graph().as_default() as graph:
            devices = [f"/job:worker/task:{p}/device:CPU:0" for p in members]
            tensors = []
            for device in devices:
                with tf.device(device):
                    tensors.append(tf.compat.v1.placeholder(tf.float32, [elements]))
            Collectives(rules).all_reduce(tensors, devices, tf.add, members)
            assert crossings(graph).rounds == formula_rounds(wanted, 4)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            rule_of("pigeon"),
            "there is no all-reduce by 'pigeon'; choose one of ring, butterfly, halving_doubling, exchange, nccl, two_level",
        ),
        (rule_of("ring", segments=(0.5, 0.5)), "a ring of 2 segments, this all-reduce is among 3 processors; leave the segments"),
        (rule_of("two_level"), "a two_level all-reduce among 3 processors has the hosts of 0; give the host of each"),
        (rule_of("nccl"), "an all-reduce cannot be made by nccl, of .*CPU.* not all are GPUs; choose ring, butterfly or"),
    ],
)
def test_a_method_that_cannot_be_made_is_refused_by_name(rule: CollectiveRule, words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        counted(3, 5, rule)


@pytest.mark.parametrize("elements, count", [(0, 3), (1, 3), (10, 3), (9, 3), (2, 5), (5000, 4)])
def test_chunks_sum_to_the_elements_and_differ_by_at_most_one(elements: int, count: int) -> None:
    sizes = chunk_sizes(elements, count)
    assert sum(sizes) == elements and len(sizes) == count and max(sizes) - min(sizes) <= 1
