"""Which core each emulated device is pinned to, and how its limits are written and read."""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.devices.records import LIMITS
from hetero_mtf.errors import ClusterError

_SLACK = 1e-9


def read_shares(text: str) -> tuple[list[float], list[str], str]:
    """Return the shares that a command line names, the instruction set of each device, and what the shares limit.

    Parameters
    ----------
    text : "emulate:1.0,0.5", "emulate:1.0@avx512,1.0@avx2" for unlike devices, or "emulate:1.0,0.5:compute" to limit only the threads
        that compute.

    Returns
    -------
    (devices,) shares; (devices,) names of instruction sets, "" for all, none where none is named; one of `LIMITS`.

    Raises
    ------
    ClusterError
        If a share is no number, or what follows the shares is no limit.

    Examples
    --------
    >>> read_shares("emulate:1.0,0.5:compute")
    ([1.0, 0.5], [], 'compute')
    >>> read_shares("emulate:1.0@avx512,0.5")
    ([1.0, 0.5], ['avx512', ''], 'process')
    """
    _, _, rest = text.strip().partition(":")
    listed, colon, limit = rest.partition(":")
    if colon and limit.strip() not in LIMITS:
        raise ClusterError(f"{text!r} ends with {limit.strip()!r}, which is no limit", "write emulate:1.0,0.5 or emulate:1.0,0.5:compute")
    parts = [part.partition("@") for part in listed.split(",") if part.strip()]
    try:
        shares = [float(share) for share, _, _ in parts]
    except ValueError as fault:
        raise ClusterError(f"{text!r} has a share that is no number", "write emulate:1.0,0.5") from fault
    if any(sign and not name.strip() for _, sign, name in parts):
        raise ClusterError(f"{text!r} has an @ without an instruction set", "write emulate:1.0@avx512,1.0@avx2")
    names = [name.strip().lower() for _, _, name in parts]
    return shares, names if any(names) else [], limit.strip() or LIMITS[0]


def check_shares(shares: Sequence[float], cores: int) -> None:
    """Refuse shares that `cores` cores cannot give.

    Parameters
    ----------
    shares : (devices,) shares of a core.
    cores : number of cores.

    Raises
    ------
    ClusterError
        If there is no share, one lies outside (0, 1], or they sum above the cores.
    """
    if not shares:
        raise ClusterError("the list of shares is empty", "write one share a device, such as emulate:1.0,0.5")
    wrong = [share for share in shares if not 0.001 <= share <= 1]
    if wrong:
        raise ClusterError(f"the share {wrong[0]:g} is not between 0.001 and 1", "a device is at most one core, such as emulate:1.0,0.5")
    if sum(shares) > cores + _SLACK:
        raise ClusterError(f"the shares sum to {sum(shares):g} and this process may use {cores} cores", "use fewer or smaller shares")


def pack(shares: Sequence[float], cores: Sequence[int]) -> tuple[int, ...]:
    """Return a core for each share such that no core gives more than all of itself.

    Devices are spread: the largest share is placed first, each on the emptiest core that leads to a packing.

    Parameters
    ----------
    shares : (devices,) shares of a core, each in (0, 1].
    cores : numbers of the cores that may be used.

    Returns
    -------
    (devices,) the core of each device.

    Raises
    ------
    ClusterError
        As `check_shares`, or if the shares fit only by cutting a device in two.

    Notes
    -----
    Exact: depth-first with cores of equal load tried once. Exponential in the number of devices, which is small.

    Examples
    --------
    >>> pack([0.5, 1.0, 0.5], [4, 7])
    (7, 4, 7)
    """
    check_shares(shares, len(cores))
    order = sorted(range(len(shares)), key=lambda index: -shares[index])
    placed = _place([shares[index] for index in order], {core: 0.0 for core in cores})
    if placed is None:
        listed = ", ".join(f"{share:g}" for share in shares)
        raise ClusterError(f"the shares {listed} do not fit onto {len(cores)} cores without cutting a device in two", "use smaller shares")
    return tuple(core for _, core in sorted(zip(order, placed)))


def _place(shares: Sequence[float], loads: dict[int, float]) -> list[int] | None:
    if not shares:
        return []
    tried = set()
    for core in sorted(loads, key=lambda core: loads[core]):
        if loads[core] in tried or loads[core] + shares[0] > 1 + _SLACK:
            continue
        tried.add(loads[core])
        rest = _place(shares[1:], {**loads, core: loads[core] + shares[0]})
        if rest is not None:
            return [core, *rest]
    return None


def limit_text(method: str, limit: str) -> str:
    """Return how devices are limited, for people and records, such as "cgroup, compute only".

    Parameters
    ----------
    method : "cgroup" or "duty_cycle".
    limit : one of `LIMITS`.
    """
    return f"{method}, compute only" if limit == "compute" else method
