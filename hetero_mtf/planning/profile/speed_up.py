"""By how much several devices can be faster than one, without solving for a plan."""

from __future__ import annotations

import collections

from hetero_mtf.planning.profile.curve import ALONE
from hetero_mtf.planning.profile.profile import Profile


def largest_speed_up(profile: Profile) -> float:
    """Return a factor by which the layers of no plan take less time than those of the fastest device alone, by this profile.

    Let device d take t[l, d] seconds for a pass l, and r[d] = max over l of t[l, f] / t[l, d] for a device f. A part x of a pass takes d
    at least x t[l, d] seconds, as neither its start nor what all parts read gets less. So of the seconds that f alone takes, d takes over
    at most r[d] in each second of a step, and

        sum over l of t[l, f]  <=  step * sum over d of r[d].

    It holds for each f, and the least of the bounds is returned.

    Parameters
    ----------
    profile : one whose curves are of this kind, as those of operation counts are, and without corrections.
    """
    seconds: dict[tuple[int, str, str], dict[int, float]] = collections.defaultdict(dict)
    for curve in profile.curves:
        if curve.dimension != ALONE:
            seconds[curve.layer, curve.dimension, curve.step_pass][curve.device] = curve.seconds[-1]
    names = [device.tf_device for device in profile.cluster.devices]
    measured = [names.index(name) for name in names]  # processors on one device share its curves

    def ratio(fastest: int, other: int) -> float:
        pairs = [(of.get(fastest, 0.0), of.get(other, 0.0)) for of in seconds.values()]
        return max((mine / theirs if theirs else float("inf") for mine, theirs in pairs if mine), default=float("inf"))

    return min(sum(ratio(fastest, other) for other in measured) for fastest in set(measured))
