"""The corrections of a profile as facts and as a section: the steps that were run, and the factors that they gave."""

from __future__ import annotations

import dataclasses
import statistics

from hetero_mtf.planning.profile.corrections import SPLITS, MeasuredStep
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.report.section import Section
from hetero_mtf.report.table import Table
from hetero_mtf.units import seconds_text


@dataclasses.dataclass(frozen=True)
class DeviceFactor:
    """How many times as long layers take in a step on a device as their curves say.

    Parameters
    ----------
    device : the device's name.
    split : how the layers are split, one of `SPLITS`.
    median, least, largest : over the layers and passes.
    """

    device: str
    split: str
    median: float
    least: float
    largest: float


@dataclasses.dataclass(frozen=True)
class CorrectionFacts:
    """What steps on the cluster took beside their predictions.

    Parameters
    ----------
    corrected_at : ISO date.
    plan : the plans that were run.
    steps : the steps.
    factors : of layers, by device and split.
    links, launch : factors of the links and of the launch overhead.
    """

    corrected_at: str
    plan: str
    steps: tuple[MeasuredStep, ...]
    factors: tuple[DeviceFactor, ...]
    links: float
    launch: float


def correction_facts(profile: Profile) -> CorrectionFacts | None:
    """Return the facts of a profile's corrections; None where it has none.

    Parameters
    ----------
    profile : Profile.
    """
    corrections = profile.corrections
    if not corrections.layers and not corrections.steps:
        return None
    factors = []
    for index, device in enumerate(profile.cluster.devices):
        for split in SPLITS:
            values = [entry.factor for entry in corrections.layers if (entry.device, entry.split) == (index, split)]
            if values:
                factors.append(DeviceFactor(device.name, split, statistics.median(values), min(values), max(values)))
    return CorrectionFacts(
        corrections.corrected_at, corrections.plan, corrections.steps, tuple(factors), corrections.links, corrections.launch
    )


def correction_sections(facts: CorrectionFacts) -> tuple[Section, ...]:
    """Return the sections of a profile's corrections: what was run, and the factors.

    Parameters
    ----------
    facts : what `correction_facts` returns.
    """
    told = (
        f"at {facts.corrected_at} by the plans {facts.plan}; predictions are multiplied by these factors",
        "factor: seconds of a layer's pass in a step, relative to its curve, in the median and at least and most over layers and passes",
        f"links take {facts.links:.2f} times what was measured, the launch overhead {facts.launch:.2f} times",
    )
    factors = tuple((f.device, f.split, f"{f.median:.2f}", f"{f.least:.2f} to {f.largest:.2f}") for f in facts.factors)
    table = Table(("device", "layers split by", "factor", "range"), factors, left=2)
    corrected = Section("Corrected by its own steps", told, table if factors else None)
    if not facts.steps:
        return (corrected,)
    rows = tuple(
        (step.strategy, seconds_text(step.predicted_s), seconds_text(step.measured_s), f"{step.measured_s / step.predicted_s:.2f}")
        for step in facts.steps
    )
    ran = Table(("plan that was run", "predicted", "measured", "measured / predicted"), rows)
    return corrected, Section("Steps that were run", ("predicted with the corrections of the steps before",), ran)
