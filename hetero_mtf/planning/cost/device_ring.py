"""The devices of a collective and their links, and what collectives among them take."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from hetero_mtf.planning.cost.all_reduce import AllReduceCost, PairLinks, choices, priced
from hetero_mtf.planning.layout.records import BUTTERFLY_UP_TO_BYTES, CollectiveRule
from hetero_mtf.planning.layout.resharding import Resharding
from hetero_mtf.planning.plan.collective_rule import rule_for

Rules = tuple[CollectiveRule, ...]


@dataclasses.dataclass(frozen=True)
class Ring:
    """The devices of a collective and their links.

    Parameters
    ----------
    devices : number of devices p.
    latency_s : largest latency a of the links from each to the next.
    seconds_per_byte : largest time b of a byte on these links.
    pairs : links of all pairs; None if all are equal to these.
    rules : the plan's rules, empty for the defaults; None for the cheapest method for each size.
    """

    devices: int
    latency_s: float
    seconds_per_byte: float
    pairs: PairLinks | None = None
    rules: Rules | None = None

    def all_gather_s(self, full_bytes: float) -> float:
        """Return the seconds to gather a tensor on every device: (p-1)/p * n * b + (p-1) * a.

        Parameters
        ----------
        full_bytes : n, bytes of the full tensor.
        """
        # p - 1 messages of n / p bytes from every device, one after another
        steps = self.devices - 1
        return steps / self.devices * full_bytes * self.seconds_per_byte + steps * self.latency_s

    def reshard_s(self, resharding: Resharding, full_bytes: float) -> float:
        """Return the seconds of one resharding of a tensor; a slice sends nothing.

        In an all-gather every processor sends its part to all others and receives theirs; what the busiest one sends or receives
        counts, so unequal parts take longer than the equal ones of `all_gather_s`. In an all-to-all every processor sends to every
        other the part of its own that the other needs, and receives likewise.

        Parameters
        ----------
        full_bytes : n, bytes of the tensor that the devices hold together.
        """
        if resharding.kind == "slice":
            return 0.0
        key = resharding.kind, resharding.before, resharding.after
        if key not in self._busiest:
            self._busiest[key] = self._busiest_part(resharding)
        return self.sent_s(self.devices - 1, self._busiest[key] * full_bytes)

    def _busiest_part(self, resharding: Resharding) -> float:
        """Return the part of a tensor that the busiest processor sends or receives in a resharding."""
        # with h_i and w_i the fractions of the tensor that processor i of p holds before and needs after:
        # all-gather: it sends h_i to p - 1 others and receives the 1 - h_i that it lacks
        # all-to-all: h_i w_i stays, as the two dimensions are split independently; it sends h_i (1 - w_i) and receives w_i (1 - h_i)
        # a link carries both directions at once, hence the larger of the two and not their sum
        if resharding.kind == "halo":
            return _exchanged_part(resharding)
        held = np.array(resharding.before) / sum(resharding.before)  # type: ignore[arg-type]
        if resharding.kind == "all_gather":
            return float(np.maximum((self.devices - 1) * held, 1 - held).max())
        wanted = np.array(resharding.after) / sum(resharding.after)  # type: ignore[arg-type]
        return float(np.maximum(held * (1 - wanted), wanted * (1 - held)).max())

    def sent_s(self, messages: int, sent_bytes: float) -> float:
        """Return the seconds in which one processor sends some messages one after another.

        Parameters
        ----------
        messages : how many.
        sent_bytes : bytes of all of them.
        """
        return messages * self.latency_s + sent_bytes * self.seconds_per_byte

    def all_reduce_s(self, full_bytes: float) -> float:
        """Return the seconds to add a tensor up over all devices, by the rules' method or the cheapest; `all_reduce.priced`.

        Parameters
        ----------
        full_bytes : n, bytes of the tensor.
        """
        if self.devices < 2:
            return 0.0
        if full_bytes not in self._summed:
            self._summed[full_bytes] = self._all_reduce_s(full_bytes)
        return self._summed[full_bytes]

    def _all_reduce_s(self, full_bytes: float) -> float:
        if self.rules is None:
            return min(choice.seconds(full_bytes) for choice in self._choices)
        rule = rule_for(self.rules, "all_reduce", full_bytes)
        several = "butterfly" if full_bytes <= BUTTERFLY_UP_TO_BYTES else "ring"
        return priced(rule or CollectiveRule("all_reduce", "exchange" if self.devices == 2 else several), self._pairs).seconds(full_bytes)

    @functools.cached_property
    def _summed(self) -> dict[float, float]:
        """Bytes -> seconds of an all-reduce, each computed once."""
        return {}

    @functools.cached_property
    def _busiest(self) -> dict[tuple[object, ...], float]:
        """(kind, parts before, parts after) of a resharding -> the busiest processor's part, each computed once."""
        return {}

    @functools.cached_property
    def _pairs(self) -> PairLinks:
        return self.pairs or _uniform(self)

    @functools.cached_property
    def _choices(self) -> tuple[AllReduceCost, ...]:
        return choices(self._pairs)


def _exchanged_part(resharding: Resharding) -> float:
    """Return the part of a tensor that the busiest processor sends or receives in a halo exchange."""
    before, after = np.array(resharding.before), np.array(resharding.after)
    extent = max(before[:, 1].max(), after[:, 1].max())
    # common[i, j]: positions that i has before and j needs after; those that stay are not sent
    common = np.minimum(before[:, None, 1], after[None, :, 1]) - np.maximum(before[:, None, 0], after[None, :, 0])
    common = np.maximum(common, 0)
    np.fill_diagonal(common, 0)
    return float(max(common.sum(axis=0).max(), common.sum(axis=1).max()) / extent)


def _uniform(around: Ring) -> PairLinks:
    row = (around.latency_s,) * around.devices, (around.seconds_per_byte,) * around.devices
    return PairLinks((row[0],) * around.devices, (row[1],) * around.devices, ("",) * around.devices)
