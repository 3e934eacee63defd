"""Profiles without one of the terms of the predictor, to see what each contributes. Pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.curve import ALONE
from hetero_mtf.planning.profile.profile import Profile

NOTHING = "nothing"


def _without_launch(profile: Profile) -> Profile:
    return dataclasses.replace(profile, launch_s=0.0, feed_s_per_byte=0.0)


def _without_messages(profile: Profile) -> Profile:
    links, of_cluster = (
        tuple(dataclasses.replace(link, message_s=0.0) for link in each) for each in (profile.links, profile.cluster.links)
    )
    return dataclasses.replace(profile, links=links, cluster=dataclasses.replace(profile.cluster, links=of_cluster))


def _without_latency(profile: Profile) -> Profile:
    links, of_cluster = (
        tuple(dataclasses.replace(link, latency_s=0.0) for link in each) for each in (profile.links, profile.cluster.links)
    )
    return dataclasses.replace(profile, links=links, cluster=dataclasses.replace(profile.cluster, links=of_cluster))


def _without_alone(profile: Profile) -> Profile:
    return dataclasses.replace(profile, curves=tuple(curve for curve in profile.curves if curve.dimension != ALONE))


def _without_batch_curves(profile: Profile) -> Profile:
    return dataclasses.replace(profile, curves=tuple(curve for curve in profile.curves if curve.dimension != "batch"))


def _without_split_statistics(profile: Profile) -> Profile:
    norms = {index for index, layer in enumerate(profile.graph.layers) if layer.kind == "BatchNormalization"}
    kept = tuple(curve for curve in profile.curves if not (curve.layer in norms and curve.dimension == "batch"))
    return dataclasses.replace(profile, curves=kept)


TERMS: Mapping[str, Callable[[Profile], Profile]] = {
    NOTHING: lambda profile: profile,
    "launch overhead and feeding": _without_launch,
    "each further tensor of an all-reduce": _without_messages,
    "latency of links": _without_latency,
    "devices of a host beside each other": _without_alone,
    "curves over samples": _without_batch_curves,
    "batch norm with split statistics": _without_split_statistics,
}


def without(profile: Profile, term: str) -> Profile:
    """Return a calibrated profile in which a term of the predictor is left out.

    Parameters
    ----------
    profile : Profile; its corrections are left out too.
    term : key of `TERMS`.
    """
    return TERMS[term](dataclasses.replace(profile, corrections=Corrections()))


def predicted_s(profile: Profile, plans: Sequence[Any]) -> list[float]:
    """Return the (plans,) predicted seconds of a step.

    Parameters
    ----------
    profile : of the network and cluster of the plans.
    plans : plans of one stage, or pipelines.
    """
    from hetero_mtf.planning.cost.layer_cost import Costs
    from hetero_mtf.planning.refinement.corrector import prediction

    costs = Costs(profile)
    return [prediction(costs, plan).step_s for plan in plans]
