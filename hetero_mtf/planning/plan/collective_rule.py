"""The rule of a plan that holds for a collective, and the faults of rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from hetero_mtf.errors import PlanError
from hetero_mtf.json_records import Fault
from hetero_mtf.planning.layout.records import COLLECTIVES, LEADERS, CollectiveRule, Stage

Wrong = tuple[bool, str, str]


def rule_for(rules: Sequence[CollectiveRule], collective: str, tensor_bytes: float) -> CollectiveRule | None:
    """Return the first rule for a collective whose limit holds; None if there is none, which means the defaults.

    Parameters
    ----------
    rules : the rules of a plan.
    collective : "all_reduce".
    tensor_bytes : bytes of the tensor.

    Examples
    --------
    >>> rules = [CollectiveRule("all_reduce", "butterfly", 4096), CollectiveRule("all_reduce", "ring")]
    >>> [rule_for(rules, "all_reduce", size).method for size in (4096, 4097)]
    ['butterfly', 'ring']
    """
    fitting = (r for r in rules if r.collective == collective and (r.up_to_bytes is None or tensor_bytes <= r.up_to_bytes))
    return next(fitting, None)


def one_method(collective: str, method: str) -> tuple[CollectiveRule, ...]:
    """Return the rule by which a collective takes one method for tensors of any size.

    Raises
    ------
    PlanError
        If the method is unknown.
    """
    methods = COLLECTIVES[collective]
    if method not in methods:
        raise PlanError(f"collective {method!r} is unknown", f"use one of {', '.join(methods)}")
    return (CollectiveRule(collective, method),)


def segment_sizes(elements: int, segments: Sequence[float]) -> list[int]:
    """Return whole elements of each segment: the fractions' running sums are rounded, so they sum to `elements`.

    >>> segment_sizes(10, [0.25, 0.5, 0.25])
    [2, 6, 2]
    """
    cuts = [0, *(min(elements, round(elements * ahead)) for ahead in itertools.accumulate(segments))]
    cuts[-1] = elements
    return [after - before for before, after in itertools.pairwise(cuts)]


def rule_faults(rules: Sequence[CollectiveRule], stages: Sequence[Stage]) -> list[Fault]:
    """Return everything that is wrong with the rules of a plan.

    Parameters
    ----------
    rules : the rules, in the order in which they are tried.
    stages : the plan's stages.
    """
    faults: list[Fault] = []
    for index, rule in enumerate(rules):
        path = f"collectives[{index}]"
        faults += [Fault(f"{path}.{name}", text) for wrong, name, text in (*_entries(rule), *_segments(rule, stages)) if wrong]
    return faults + _order_faults(rules)


def _entries(rule: CollectiveRule) -> Iterator[Wrong]:
    methods = COLLECTIVES.get(rule.collective)
    yield methods is None, "collective", f"is {rule.collective!r}, only {', '.join(COLLECTIVES)} has a choice"
    if methods is not None:
        yield rule.method not in methods, "method", f"is {rule.method!r}, must be one of {', '.join(methods)}"
    limit = rule.up_to_bytes
    yield limit is not None and limit < 0, "up_to_bytes", f"is {limit}, must be 0 or more, or null for any size"
    two = rule.method == "two_level"
    yield bool(rule.leaders) and not two, "leaders", f"is {rule.leaders!r}, only two_level has leaders; leave it empty"
    yield two and rule.leaders not in ("", *LEADERS), "leaders", f"is {rule.leaders!r}, must be one of {', '.join(LEADERS)}"


def _segments(rule: CollectiveRule, stages: Sequence[Stage]) -> Iterator[Wrong]:
    parts = rule.segments
    if not parts:
        return
    shown = f"[{', '.join(f'{part:g}' for part in parts)}]"
    yield rule.method != "ring", "segments", f"are {shown}, only a ring has segments; leave them empty"
    finite = all(math.isfinite(part) and part >= 0 for part in parts)
    complete = finite and math.isclose(math.fsum(parts), 1.0, abs_tol=1e-6)
    yield not complete, "segments", f"are {shown}, must be fractions of 0 or more that sum to 1"
    for index, stage in enumerate(stages):
        split = [size for _, size in stage.axes if size > 1]
        words = f"are {len(parts)}, the ring over stage {index} has {len(stage.devices)} processors; give one each, or none"
        yield len(split) == 1 and len(parts) != len(stage.devices), "segments", words
        words = f"are {shown}, stage {index} has several mesh axes and as many rings; leave them empty"
        yield len(split) > 1, "segments", words


def _order_faults(rules: Sequence[CollectiveRule]) -> list[Fault]:
    faults: list[Fault] = []
    limits: dict[str, float] = {}
    last: dict[str, int] = {}
    for index, rule in enumerate(rules):
        limit = math.inf if rule.up_to_bytes is None else rule.up_to_bytes
        before = limits.get(rule.collective)
        if before is not None and limit <= before:
            reached = "any size" if math.isinf(before) else f"up to {before:g} bytes"
            faults.append(
                Fault(f"collectives[{index}].up_to_bytes", f"is never reached, a rule before it takes {reached}; sort them by size")
            )
        limits[rule.collective] = max(limit, before or 0.0)
        last[rule.collective] = index
    for collective, index in last.items():
        if not math.isinf(limits[collective]):
            words = f"is {rules[index].up_to_bytes}, the last rule for {collective} must be for any size; make it null"
            faults.append(Fault(f"collectives[{index}].up_to_bytes", words))
    return faults
