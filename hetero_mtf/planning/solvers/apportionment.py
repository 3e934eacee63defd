"""Integer apportionment: how many units u_d of a dimension of U units each device d gets.

Over integer u_d >= 0 with sum_d u_d = U:

    proportional       minimise max_d u_d / s_d     shares s_d; u_d >= 1 for s_d > 0 where U suffices, u_d = 0 for s_d = 0
    minimise_maximum   minimise max_d t_d(u_d)      t_d non-decreasing; lower_d <= u_d <= upper_d, multiples of m but one

Every rule is a pure function from a problem to an `Apportionment`, which holds the sizes, their objective value, a lower bound of the
objective, and the relative gap between the two.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable, Sequence

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.solvers.bounds import Bounds

Table = Sequence[float] | np.ndarray
CurveLike = Callable[[int], float] | Table
_ROUNDING = 1e-12  # more than floats lose in a quota


@dataclasses.dataclass(frozen=True)
class Apportionment:
    """The units of one dimension apportioned to devices.

    Parameters
    ----------
    sizes : (devices,) integer units of each device, summing to the units of the dimension.
    value : the objective of these sizes: seconds, or units a share.
    bound : a lower bound of the objective over the feasible sizes: those that the function which returns it allows.
    gap : value / bound - 1; 0 where no feasible sizes are better.
    status : "optimal", among the feasible sizes, or "heuristic".
    """

    sizes: tuple[int, ...]
    value: float
    bound: float
    gap: float
    status: str


def proportional(units: int, shares: Sequence[float]) -> Apportionment:
    """Return the sizes in proportion to manual shares, at least one unit for each positive share where there are enough.

    Over integer u, s being the shares, U the units and P = {d: s_d > 0},

        minimise    max_{d in P} u_d / s_d
        subject to  sum_d u_d = U,   u_d = 0 for d not in P,   u_d >= 1 for d in P if U >= |P|, else u_d >= 0.

    The value, the bound and "optimal" hold among these sizes. Without u_d >= 1 others may reach less: 6 units by the shares 4, 4, 1
    are (3, 2, 1) with the value 1, and (3, 3, 0), which leaves a device out that has a share, would reach 3/4.

    Parameters
    ----------
    units : units of the dimension, at least 1.
    shares : (devices,) relative shares; zero leaves a device out.

    Raises
    ------
    PlanError
        If a share is negative or not finite, or all are zero, or `units` is less than 1.

    Notes
    -----
    One unit after another goes to the device that it leaves with the least size / share; a tie goes to the larger share, then
    to the earlier device. Exact, by the argument of `minimise_maximum`. Of n devices, each gets at least floor((units - n) share_d /
    sum of shares): the last unit is given at a size / share of (units - n) / sum of shares or more. These go at once, so it takes
    O(devices * log(devices)).

    Examples
    --------
    >>> proportional(60, [70, 25, 5]).sizes
    (42, 15, 3)
    >>> proportional(10, [5, 1, 0]).sizes
    (9, 1, 0)
    >>> proportional(6, [4, 4, 1])
    Apportionment(sizes=(3, 2, 1), value=1.0, bound=1.0, gap=0.0, status='optimal')
    """
    _check_units(units)
    check_shares(shares)
    positive = [d for d, share in enumerate(shares) if share > 0]
    sizes = [0] * len(shares)
    if units >= len(positive):
        largest = max(shares)
        total = sum(shares[d] / largest for d in positive)
        for d in positive:
            sizes[d] = max(1, int((units - len(positive)) * (shares[d] / largest / total) * (1 - _ROUNDING)) - 1)
    heap = [((sizes[d] + 1) / shares[d], -shares[d], d) for d in positive]
    heapq.heapify(heap)
    for _ in range(units - sum(sizes)):
        _, rank, d = heap[0]
        sizes[d] += 1
        heapq.heapreplace(heap, ((sizes[d] + 1) / shares[d], rank, d))
    value = _largest_ratio(sizes, shares)
    return Apportionment(tuple(sizes), value, value, 0.0, "optimal")


def minimise_maximum(
    curves: Sequence[CurveLike] | np.ndarray,
    units: int,
    lower: Sequence[int] | None = None,
    upper: Sequence[int] | None = None,
    multiple: int = 1,
) -> Apportionment:
    """Return the sizes that minimise the time of the slowest device.

    Minimises max_d t_d(u_d) over integer u_d with lower_d <= u_d <= upper_d and sum u_d = units, for any t_d that never decreases:
    convex, concave or a staircase. A device may get zero units, which costs t_d(0).

    Parameters
    ----------
    curves : (devices,) t_d, each a callable of the units, or a table of units + 1 seconds whose entry u is t_d(u).
    units : units to deal out, at least 1.
    lower : (devices,) least units of each device; None for zero.
    upper : (devices,) most units of each device, such as what fits in its memory; 0 leaves it out; None for all units.
    multiple : m; every size is a multiple of it. Where m does not divide `units`, exactly one device, whichever is best, has a
        size that leaves the remainder units mod m when divided by m.

    Raises
    ------
    PlanError
        If there is no device, a table is too short, a value is negative or not finite, a curve decreases, or no sizes are within
        the bounds: then by how many units they miss.

    Notes
    -----
    From the least sizes allowed, m units at a time go to the device with the least t_d(u_d + m) among those below their most. As no
    t_d decreases, this takes the smallest of all values that can be taken; any other sizes take as many, so their largest is no
    smaller, and what the least sizes cost nobody can avoid. With a remainder this is done for every device that can take it. Exact
    in O(devices * units) to tabulate and to choose, the second times the devices where there is a remainder. A tie goes to the
    earlier device. `scipy.optimize.isotonic_regression` makes tables with measurement noise non-decreasing.

    Examples
    --------
    >>> minimise_maximum([lambda u: 1.0 * u, lambda u: 2.0 * u], 9).sizes
    (6, 3)
    >>> minimise_maximum([lambda u: 1.0 * u, lambda u: 2.0 * u], 9, upper=[5, 9]).sizes
    (5, 4)
    >>> minimise_maximum([lambda u: 1.0 * u, lambda u: 2.0 * u], 9, multiple=4).sizes
    (5, 4)
    """
    _check_units(units)
    if len(curves) == 0:
        raise PlanError("there is no device to split over", "name at least one device")
    tables = _tables(curves, units)
    bounds = Bounds.of(len(tables), units, lower, upper, multiple)
    candidates = [_dealt(tables, units, least, most, multiple) for least, most in bounds.reaching(units)]
    value, sizes = min(candidates, key=lambda dealt: dealt[0])
    return Apportionment(sizes, value, value, 0.0, "optimal")


def _dealt(tables: np.ndarray, units: int, least: Sequence[int], most: Sequence[int], multiple: int) -> tuple[float, tuple[int, ...]]:
    """Return (largest seconds, sizes): from `least`, multiples are given one by one to the device whose seconds are then least.

    So all that cost less than the last of them are given; of those that cost as much as it, those of the earlier devices come first.
    """
    sizes, left = list(least), (units - sum(least)) // multiple
    if left:
        following = [table[a + multiple : b + 1 : multiple] for table, a, b in zip(tables, least, most)]
        last_s = np.partition(np.concatenate(following), left - 1)[left - 1]
        cheaper = [int(seconds.searchsorted(last_s)) for seconds in following]
        left -= sum(cheaper)
        for d, (seconds, count) in enumerate(zip(following, cheaper)):
            alike = min(left, int(seconds.searchsorted(last_s, "right")) - count)
            sizes[d] += multiple * (count + alike)
            left -= alike
    return float(tables[np.arange(len(sizes)), sizes].max()), tuple(sizes)


def equal_sizes(units: int, devices: int) -> Apportionment:
    """Return the sizes of an equal split, which differ by one unit at most; the first devices get one more.

    Parameters
    ----------
    units : units of the dimension, at least 1.
    devices : number of devices, at least 1.

    Raises
    ------
    PlanError
        If there is no unit or no device.

    Examples
    --------
    >>> equal_sizes(8, 3).sizes
    (3, 3, 2)
    """
    _check_units(units)
    if devices < 1:
        raise PlanError("there is no device to split over", "name at least one device")
    quotient, remainder = divmod(units, devices)
    sizes = tuple(quotient + (d < remainder) for d in range(devices))
    return Apportionment(sizes, float(sizes[0]), float(sizes[0]), 0.0, "optimal")


def largest_remainder(units: int, shares: Sequence[float]) -> Apportionment:
    """Return the sizes of the largest-remainder rule, a yardstick for `proportional`.

    Each device gets the integer part of its quota, and the units left go to the largest remainders. Heuristic for
    max_d sizes_d / shares_d; O(devices * log(devices)).

    Parameters
    ----------
    units : units of the dimension, at least 1.
    shares : (devices,) relative shares; zero leaves a device out.

    Raises
    ------
    PlanError
        As `proportional`.
    """
    _check_units(units)
    check_shares(shares)
    quotas = _quotas(units, shares)
    sizes = [math.floor(quota) for quota in quotas]
    order = sorted(range(len(shares)), key=lambda d: (sizes[d] - quotas[d], d))
    for d in order[: units - sum(sizes)]:
        sizes[d] += 1
    return _yardstick(sizes, units, shares)


def check_shares(shares: Sequence[float]) -> None:
    """Raise `PlanError` unless the shares are finite, none negative and one positive.

    Parameters
    ----------
    shares : (devices,) relative shares.
    """
    listed = ", ".join(f"{share:g}" for share in shares)
    if any(not math.isfinite(share) or share < 0 for share in shares):
        raise PlanError(f"shares are [{listed}], each must be a finite number of zero or more", "correct them")
    if not any(share > 0 for share in shares):
        raise PlanError(f"shares are [{listed}], at least one must be above zero", "give one device a positive share")


def _check_units(units: int) -> None:
    if units < 1:
        raise PlanError(f"{units} units cannot be split", "a dimension needs at least one unit")


def _quotas(units: int, shares: Sequence[float]) -> list[float]:
    total = math.fsum(shares)
    quotas = [units * share / total for share in shares]
    return [round(quota) if abs(quota - round(quota)) < 1e-9 * units else quota for quota in quotas]


def _largest_ratio(sizes: Sequence[int], shares: Sequence[float]) -> float:
    return max(size / share for size, share in zip(sizes, shares) if share > 0)


def _yardstick(sizes: Sequence[int], units: int, shares: Sequence[float]) -> Apportionment:
    value, bound = _largest_ratio(sizes, shares), units / math.fsum(shares)
    return Apportionment(tuple(sizes), value, bound, max(0.0, value / bound - 1), "heuristic")


def _tables(curves: Sequence[CurveLike] | np.ndarray, units: int) -> np.ndarray:
    """Return the (devices, units + 1) seconds of curves, checked."""
    for device, curve in enumerate(curves):
        if not callable(curve) and len(curve) < units + 1:
            few = f"the curve of device {device} ends at {len(curve) - 1} units and {units} are to be split"
            raise PlanError(f"{few}", f"give {units + 1} values")
    tables = np.array([[c(u) for u in range(units + 1)] if callable(c) else c[: units + 1] for c in curves], dtype=float)
    wrong, falls = ~(np.isfinite(tables) & (tables >= 0)), tables[:, 1:] < tables[:, :-1]
    if wrong.any():
        device, u = map(int, np.argwhere(wrong)[0])
        raise PlanError(
            f"the curve of device {device} gives {tables[device, u]:g} s at {u} units", "seconds must be finite and not negative"
        )
    if falls.any():
        device, u = map(int, np.argwhere(falls)[0])
        fall = f"{tables[device, u]:g} s to {tables[device, u + 1]:g} s at {u + 1} units"
        raise PlanError(f"the curve of device {device} falls from {fall}", "make it non-decreasing first")
    return tables
